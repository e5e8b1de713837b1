"""The Policy Engine: who decides, and what a wrong file is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from telegram_assistant.ai.vision.policy import (
    BadPolicy,
    Decision,
    NsfwAction,
    PictureFacts,
    Policy,
    Provider,
    load_policy,
    parse_policy,
)
from telegram_assistant.errors import Fatal

pytestmark = pytest.mark.unit

PICTURE = PictureFacts(
    mime="image/jpeg", size=100_000, channel_id=1234, username="news", width=1280, height=720, remote=True
)
FILE = """
[pictures]
types = ["image/*"]
max_mb = 2.5
min_side = 100
per_album = 3
skip_channels = ["@Spam", -1000000000777]
provider = "local"

[nsfw]
action = "skip"
threshold = 0.9

[[rules]]
name = "no GIFs"
action = "skip"
types = ["image/gif"]

[[rules]]
name = "the agency"
action = "remote"
channels = ["https://t.me/agency", 42]
larger_than_mb = 1
"""


def test_the_shipped_policy() -> None:
    policy = load_policy()
    assert policy.max_mb == 15  # SPEC 8
    assert policy.provider is Provider.REMOTE
    assert policy.nsfw_action is NsfwAction.LOCAL
    assert policy.decide(PICTURE) == Decision(
        True, Provider.REMOTE, "provider", "no rule speaks of it, and the provider is remote"
    )
    offline = policy.decide(replace(PICTURE, remote=False))
    assert offline.provider is Provider.LOCAL
    assert "no remote model is configured" in offline.reason


@pytest.mark.parametrize(
    "facts,rule,reason",
    [
        (replace(PICTURE, username="spam"), "skip_channels", "pictures of @spam are skipped"),
        (replace(PICTURE, username=None, channel_id=777), "skip_channels", "pictures of 777 are skipped"),
        (replace(PICTURE, mime="application/pdf"), "types", "application/pdf is none of image/*"),
        (replace(PICTURE, mime=""), "types", "a file without a type is none of image/*"),
        (replace(PICTURE, size=3 * 2**20), "max_mb", "it has 3.0 MB, at most 2.5 MB are looked at"),
        (replace(PICTURE, height=99), "min_side", "it has 1280x99 pixels, at least 100 on each side are looked at"),
        (replace(PICTURE, position=3), "per_album", "it is picture 4 of its album, 3 are looked at"),
        (replace(PICTURE, nsfw_score=0.93), "nsfw", "its NSFW score 0.93 is at least 0.9: no result is kept"),
        (replace(PICTURE, mime="Image/GIF; q=1"), "no GIFs", "the rule 'no GIFs' skips it"),
    ],
)
def test_what_is_not_looked_at_says_why(facts: PictureFacts, rule: str, reason: str) -> None:
    assert parse_policy(FILE).decide(facts) == Decision(False, None, rule, reason)


def test_who_looks_at_the_rest() -> None:
    policy = parse_policy(FILE)
    assert policy.decide(PICTURE).provider is Provider.LOCAL
    assert policy.decide(replace(PICTURE, position=2, nsfw_score=0.89, width=None)).allowed
    big = replace(PICTURE, username="agency", size=2**20)
    assert policy.decide(big) == Decision(
        True, Provider.REMOTE, "the agency", "the rule 'the agency' gives it to the remote provider"
    )
    assert policy.decide(replace(big, username=None, channel_id=42)).provider is Provider.REMOTE
    assert policy.decide(replace(big, size=2**20 - 1)).rule == "provider"


def test_what_is_not_for_all_eyes_stays_here() -> None:
    policy = Policy()
    first = policy.decide(PICTURE)
    assert first.provider is Provider.REMOTE
    assert policy.needs_score(first)
    then = policy.decide(replace(PICTURE, nsfw_score=0.8))
    assert (then.allowed, then.provider, then.rule) == (True, Provider.LOCAL, "nsfw")
    assert "it stays here" in then.reason
    assert policy.decide(replace(PICTURE, nsfw_score=0.79)).provider is Provider.REMOTE
    assert not policy.needs_score(policy.decide(replace(PICTURE, remote=False)))
    kept = Policy(nsfw_action=NsfwAction.KEEP)
    assert not kept.needs_score(kept.decide(PICTURE))
    assert kept.decide(replace(PICTURE, nsfw_score=1.0)).provider is Provider.REMOTE


def test_a_file_changes_only_what_it_names(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text('[pictures]\nprovider = "local"\n', encoding="utf-8")
    assert load_policy(file) == replace(load_policy(), provider=Provider.LOCAL)


@pytest.mark.parametrize(
    "text,message",
    [
        ("[pictures]\nmax_mb = = 3", r"no TOML: .*line 2"),
        ("[pictures]\n\nmax_megabytes = 3", "^line 3: max_megabytes is unknown here; there are types, max_mb"),
        ('[pictures]\nmax_mb = "3"', "^line 2: max_mb: '3' is no number from 0 to 1000"),
        ("[pictures]\nmax_mb = true", "^line 2: max_mb: True is no number"),
        ("[pictures]\nper_album = 2.5", "^line 2: per_album: 2.5 is no whole number"),
        ("[nsfw]\nthreshold = 7", "^line 2: threshold: 7 is no number from 0 to 1"),
        ("[nsfw]\nthreshold = nan", "^line 2: threshold: nan is no number"),
        ('[nsfw]\naction = "hide"', "^line 2: action: 'hide' is none of keep, local, skip"),
        ('[nsfw]\naction = ["keep"]', "^line 2: action: "),
        ('[pictures]\ntypes = ["jpeg"]', "^line 2: types: 'jpeg' is no type like image/png"),
        ("[pictures]\ntypes = [7]", "^line 2: types: 7 is no type"),
        ('[pictures]\ntypes = "image/png"', "^line 2: types: 'image/png' is no list"),
        ('[pictures]\nskip_channels = ["a b"]', "^line 2: skip_channels: "),
        ('[pictures]\nskip_channels = ["https://t.me/+AbCdEfGhIjKl"]', "^line 2: skip_channels: .* invitation"),
        ("# hello\n[vision]\nprovider = 1", r"^line 2: vision is unknown; there are \[pictures\], \[nsfw\] and"),
        ("pictures = 3", "^line 1: pictures is unknown"),
        ('rules = "none"', r"^line 1: rules are written as \[\[rules\]\]"),
        ('[[rules]]\nname = "a"\naction = "skip"\n[[rules]]\nname = "b"\n', "^line 4: a rule needs action"),
        ('[[rules]]\nname = "a"\naction = "skip"\n[[rules]]\nname = " "\n', "^line 5: name: ' ' is no text"),
        ('[[rules]]\nname = "a"\naction = "skip"\n\n[[rules]]\nkind = "b"\n', "^line 6: kind is unknown here"),
    ],
)
def test_a_wrong_file_is_told_the_line(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(BadPolicy, match=message):
        parse_policy(text)
    file = tmp_path / "policy.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(Fatal, match=r"VISION_POLICY_FILE .*policy\.toml: "):
        load_policy(file)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(Fatal, match=r"Cannot read VISION_POLICY_FILE .*No such file"):
        load_policy(tmp_path / "absent.toml")
    (tmp_path / "odd.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(Fatal, match="is not UTF-8 text"):
        load_policy(tmp_path / "odd.toml")
