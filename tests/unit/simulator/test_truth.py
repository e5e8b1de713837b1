"""The truth as a file, and odd messages."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

from telegram_simulator.draft import POST_LIMIT, units
from telegram_simulator.generate import build_world
from telegram_simulator.model import Channel, Message
from telegram_simulator.oddities import post_oddities
from telegram_simulator.truth import truth_of, write_truth
from telegram_simulator.world import World

pytestmark = pytest.mark.unit

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)


@pytest.fixture
def world() -> World:
    return build_world(seed=4, channels=5, posts=30, now=NOW, clock=lambda: NOW)


def test_the_file_holds_the_truth_and_is_replaced_whole(world: World, tmp_path: Path) -> None:
    path = tmp_path / "truth.json"
    path.write_text("old")
    write_truth(world, path)
    assert json.loads(path.read_text("utf-8")) == truth_of(world)
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_leaves_the_old_file(world: World, tmp_path: Path) -> None:
    path = tmp_path / "truth.json"
    path.write_text("old")
    next(iter(world.channels.values())).title = "\ud800"  # cannot be written as UTF-8
    with pytest.raises(UnicodeEncodeError):
        write_truth(world, path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_digests_are_those_of_the_bytes(world: World) -> None:
    told = [m["media"] for c in truth_of(world, digests=True)["channels"] for m in c["messages"] if m["media"]]
    assert len(told) > 20
    for media in told:
        data = world.files[media["id"]].data
        assert (media["size"], media["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    plain = [m["media"] for c in truth_of(world)["channels"] for m in c["messages"] if m["media"]]
    assert {media["sha256"] for media in plain} == {None}


def test_edits_deletions_and_albums_are_told(world: World) -> None:
    channel = world.add_channel(Channel(9, 1, "By hand", "by_hand", NOW))
    for number in range(1, 6):
        world.post(channel, Message(number, NOW, f"text {number}", grouped_id=77 if number > 2 else None))
    world.edit(channel, 1, "better")
    world.delete(channel, (2, 4))
    told = next(c for c in truth_of(world)["channels"] if c["id"] == 9)
    assert told["deleted"] == [2, 4]
    assert told["albums"] == {"77": {"ids": [3, 5], "deleted": [4]}}
    assert (told["messages"][0]["text"], told["messages"][0]["versions"]) == ("better", ["text 1"])
    assert told["messages"][0]["edited"] == NOW.isoformat()
    world.delete(channel, (3, 5))
    told = next(c for c in truth_of(world)["channels"] if c["id"] == 9)
    assert told["albums"] == {}


def test_oddities_are_as_odd_as_they_say(world: World) -> None:
    channel = next(iter(world.channels.values()))
    odd = post_oddities(world, channel, large=300_000)
    assert all(channel.messages[message.id] is message for message in odd.values())
    assert units(odd["combining"].text) == POST_LIMIT
    files = {name: message.file for name, message in odd.items() if message.file is not None}
    assert "\x00" in (files["nul_name"].name or "")
    assert files["large_document"].size == len(files["large_document"].data) == 300_000
    cut = files["cut_photo"]
    assert len(cut.data) < cut.size
    with pytest.raises(OSError, match="cannot identify"):
        Image.open(BytesIO(cut.data)).load()
    (entity,) = odd["entity_outside"].entities
    assert entity.offset + entity.length > units(odd["entity_outside"].text)
