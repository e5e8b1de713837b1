"""The Policy Engine of vision: which pictures are looked at, and by whom. A decision names its rule and its reason."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeAlias

from telegram_assistant.domain.channel import parse_ref
from telegram_assistant.errors import Fatal

MEGABYTE = 1024 * 1024
Reader: TypeAlias = Callable[[Any], object]
_TYPE = re.compile(r"[a-z]+/(\*|[a-z0-9.+-]+)")
_TABLE = re.compile(r"\s*\[\[?\s*([\w.-]+)\s*\]\]?")
SHIPPED = "policy.toml"


class Provider(StrEnum):
    """Who looks at a picture."""

    LOCAL = "local"  # measures on this machine
    REMOTE = "remote"  # the model of the settings


class NsfwAction(StrEnum):
    """What becomes of pictures that are not for all eyes."""

    KEEP = "keep"
    LOCAL = "local"  # never sent to a remote model
    SKIP = "skip"  # no result is kept


class RuleAction(StrEnum):
    """What a rule of the file's own says."""

    SKIP = "skip"
    LOCAL = "local"
    REMOTE = "remote"


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureFacts:
    """What is known about a picture, before or after a model looked at it."""

    mime: str
    size: int  # bytes
    channel_id: int  # bare
    username: str | None = None
    width: int | None = None
    height: int | None = None
    position: int = 0  # in its album, from 0; 0 for a single picture
    nsfw_score: float | None = None  # None: not known yet
    remote: bool = False  # whether a remote model is configured


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a picture is looked at, by whom, and which rule says so for what reason."""

    allowed: bool
    provider: Provider | None
    rule: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One `[[rules]]` of the file; what it does not name it does not ask about."""

    name: str
    action: RuleAction
    channels: frozenset[str | int] = frozenset()
    types: frozenset[str] = frozenset()
    larger_than_mb: float = 0.0

    def speaks_of(self, facts: PictureFacts) -> bool:
        if self.channels and not _names(self.channels, facts):
            return False
        if self.types and not _matches(facts.mime, self.types):
            return False
        return facts.size >= self.larger_than_mb * MEGABYTE


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """One file; `policy.toml` explains each."""

    types: frozenset[str] = frozenset({"image/*"})
    max_mb: float = 15.0
    min_side: int = 0
    per_album: int = 10
    skip_channels: frozenset[str | int] = frozenset()
    nsfw_action: NsfwAction = NsfwAction.LOCAL
    nsfw_threshold: float = 0.8
    provider: Provider = Provider.REMOTE
    rules: tuple[Rule, ...] = ()

    def decide(self, facts: PictureFacts) -> Decision:
        """The first that objects decides; then the first rule that speaks of it; then the provider of the file."""
        for name, objects in _OBJECTIONS:
            if reason := objects(self, facts):
                return Decision(False, None, name, reason)
        speaking = next((rule for rule in self.rules if rule.speaks_of(facts)), None)
        if speaking is None:
            chosen, name, why = self.provider, "provider", f"no rule speaks of it, and the provider is {self.provider}"
        elif speaking.action is RuleAction.SKIP:
            return Decision(False, None, speaking.name, f"the rule {speaking.name!r} skips it")
        else:
            chosen, name = Provider(speaking.action), speaking.name
            why = f"the rule {speaking.name!r} gives it to the {chosen} provider"
        return self._sent(facts, chosen, name, why)

    def needs_score(self, decision: Decision) -> bool:
        """Whether the NSFW score must be known before anything else is done with this picture."""
        if not decision.allowed or self.nsfw_action is NsfwAction.KEEP:
            return False
        return self.nsfw_action is NsfwAction.SKIP or decision.provider is Provider.REMOTE

    def is_nsfw(self, score: float | None) -> bool:
        return score is not None and score >= self.nsfw_threshold

    def _sent(self, facts: PictureFacts, chosen: Provider, name: str, why: str) -> Decision:
        if chosen is Provider.REMOTE and not facts.remote:
            return Decision(True, Provider.LOCAL, name, f"{why}, but no remote model is configured")
        if chosen is Provider.REMOTE and self.nsfw_action is NsfwAction.LOCAL and self.is_nsfw(facts.nsfw_score):
            reason = f"its NSFW score {facts.nsfw_score:.2f} is at least {self.nsfw_threshold:g}: it stays here"
            return Decision(True, Provider.LOCAL, "nsfw", reason)
        return Decision(True, chosen, name, why)


def _channel_skipped(policy: Policy, facts: PictureFacts) -> str | None:
    if not _names(policy.skip_channels, facts):
        return None
    return f"pictures of {'@' + facts.username if facts.username else facts.channel_id} are skipped"


def _type_refused(policy: Policy, facts: PictureFacts) -> str | None:
    if _matches(facts.mime, policy.types):
        return None
    return f"{_kind(facts.mime) or 'a file without a type'} is none of {', '.join(sorted(policy.types)) or 'no types'}"


def _too_large(policy: Policy, facts: PictureFacts) -> str | None:
    if facts.size <= policy.max_mb * MEGABYTE:
        return None
    return f"it has {facts.size / MEGABYTE:.1f} MB, at most {policy.max_mb:g} MB are looked at"


def _too_small(policy: Policy, facts: PictureFacts) -> str | None:
    if facts.width is None or facts.height is None or min(facts.width, facts.height) >= policy.min_side:
        return None
    return f"it has {facts.width}x{facts.height} pixels, at least {policy.min_side} on each side are looked at"


def _album_full(policy: Policy, facts: PictureFacts) -> str | None:
    if facts.position < policy.per_album:
        return None
    return f"it is picture {facts.position + 1} of its album, {policy.per_album} are looked at"


def _nsfw_skipped(policy: Policy, facts: PictureFacts) -> str | None:
    if policy.nsfw_action is not NsfwAction.SKIP or not policy.is_nsfw(facts.nsfw_score):
        return None
    return f"its NSFW score {facts.nsfw_score:.2f} is at least {policy.nsfw_threshold:g}: no result is kept"


_OBJECTIONS: tuple[tuple[str, Callable[[Policy, PictureFacts], str | None]], ...] = (
    ("skip_channels", _channel_skipped),
    ("types", _type_refused),
    ("max_mb", _too_large),
    ("min_side", _too_small),
    ("per_album", _album_full),
    ("nsfw", _nsfw_skipped),
)


def _names(channels: frozenset[str | int], facts: PictureFacts) -> bool:
    return facts.channel_id in channels or (facts.username is not None and facts.username.lower() in channels)


def _kind(mime: str) -> str:
    return mime.partition(";")[0].strip().lower()


def _matches(mime: str, types: frozenset[str]) -> bool:
    kind = _kind(mime)
    return kind in types or f"{kind.partition('/')[0]}/*" in types


class BadPolicy(ValueError):
    """The text is wrong; the message names the line."""


def parse_policy(text: str, base: Policy | None = None) -> Policy:
    """The policy that the text describes; what it leaves out is as in `base`. Raises BadPolicy."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise BadPolicy(f"this is no TOML: {exc}") from exc
    found: dict[str, Any] = {}
    for name, content in raw.items():
        if name == "rules":
            found["rules"] = _rules(content, text)
        elif name in _TABLES and isinstance(content, dict):
            found |= _values(content, _TABLES[name], _Place(text, name))
        else:
            place = _Place(text, name).line_of(name)
            raise BadPolicy(f"{place}{name} is unknown; there are [{'], ['.join(_TABLES)}] and [[rules]]")
    return replace(base or Policy(), **found)


class _Place:
    """Where in the text a key stands, for the message: TOML readers do not tell."""

    def __init__(self, text: str, table: str, number: int = 0) -> None:
        self._lines = text.splitlines()
        self._table = table
        self._number = number  # which of several tables of one name

    def line_of(self, key: str) -> str:
        table, seen = "", -1
        for number, line in enumerate(self._lines, 1):
            if header := _TABLE.match(line):
                table = header[1]
                seen += table == self._table
            is_key = re.match(rf"""\s*["']?{re.escape(key)}["']?\s*=""", line) is not None
            inside = table == self._table and seen == self._number
            if inside and (is_key or (header and key == self._table)):
                return f"line {number}: "
            if not table and is_key:
                return f"line {number}: "
        return f"table {self._table} number {self._number + 1}: " if self._number else ""


def _values(content: Mapping[str, Any], readers: Mapping[str, tuple[str, Reader]], place: _Place) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in content.items():
        if key not in readers:
            raise BadPolicy(f"{place.line_of(key)}{key} is unknown here; there are {', '.join(readers)}")
        field, read = readers[key]
        try:
            found[field] = read(value)
        except ValueError as exc:
            raise BadPolicy(f"{place.line_of(key)}{key}: {exc}") from exc
    return found


def _rules(content: object, text: str) -> tuple[Rule, ...]:
    if not isinstance(content, list):
        raise BadPolicy(f"{_Place(text, 'rules').line_of('rules')}rules are written as [[rules]]")
    rules = []
    for number, raw in enumerate(content):
        place = _Place(text, "rules", number)
        values = _values(raw, _RULE, place)
        if absent := [key for key in ("name", "action") if key not in values]:
            raise BadPolicy(f"{place.line_of('rules')}a rule needs {' and '.join(absent)}")
        rules.append(Rule(**values))
    return tuple(rules)


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{value!r} is no text")
    return value.strip()


def _number(least: float, most: float, *, whole: bool = False) -> Reader:
    def read(value: Any) -> object:
        right = isinstance(value, int) or (isinstance(value, float) and not whole)
        if not right or isinstance(value, bool) or not least <= value <= most:
            raise ValueError(f"{value!r} is no {'whole ' if whole else ''}number from {least:g} to {most:g}")
        return value

    return read


def _one_of(words: type[StrEnum]) -> Reader:
    def read(value: Any) -> object:
        if not isinstance(value, str) or value not in set(words):
            raise ValueError(f"{value!r} is none of {', '.join(words)}")
        return words(value)

    return read


def _list(value: object) -> list[object]:
    if isinstance(value, list):
        return value
    raise ValueError(f"{value!r} is no list")


def _types(value: object) -> frozenset[str]:
    types = [item.strip().lower() if isinstance(item, str) else item for item in _list(value)]
    wrong = [item for item in types if not isinstance(item, str) or not _TYPE.fullmatch(item)]
    if wrong:
        raise ValueError(f"{wrong[0]!r} is no type like image/png or image/*")
    return frozenset(map(str, types))


def _channels(value: object) -> frozenset[str | int]:
    found: set[str | int] = set()
    for item in _list(value):
        ref = parse_ref(str(item))
        if ref.invite is not None:
            raise ValueError(f"{item!r} is an invitation; name the channel by its id or its @name")
        found.add(ref.username or ref.channel_id or 0)
    return frozenset(found)


_TABLES: Mapping[str, Mapping[str, tuple[str, Reader]]] = {
    "pictures": {
        "types": ("types", _types),
        "max_mb": ("max_mb", _number(0, 1000)),
        "min_side": ("min_side", _number(0, 10_000, whole=True)),
        "per_album": ("per_album", _number(0, 1000, whole=True)),
        "skip_channels": ("skip_channels", _channels),
        "provider": ("provider", _one_of(Provider)),
    },
    "nsfw": {
        "action": ("nsfw_action", _one_of(NsfwAction)),
        "threshold": ("nsfw_threshold", _number(0, 1)),
    },
}
_RULE: Mapping[str, tuple[str, Reader]] = {
    "name": ("name", _text),
    "action": ("action", _one_of(RuleAction)),
    "channels": ("channels", _channels),
    "types": ("types", _types),
    "larger_than_mb": ("larger_than_mb", _number(0, 1000)),
}


def load_policy(path: Path | None = None) -> Policy:
    """The shipped policy, changed by the file at `path`. Raises Fatal with the line to correct."""
    shipped = parse_policy(files(__package__).joinpath(SHIPPED).read_text("utf-8"))
    if path is None:
        return shipped
    try:
        return parse_policy(path.read_text("utf-8"), shipped)
    except OSError as exc:
        raise Fatal(f"Cannot read VISION_POLICY_FILE {path}: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise Fatal(f"VISION_POLICY_FILE {path} is not UTF-8 text") from exc
    except BadPolicy as exc:
        raise Fatal(f"VISION_POLICY_FILE {path}: {exc}") from exc
