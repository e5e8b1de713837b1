"""The policy of vision from the text of its file; what is wrong there is said with the line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any, TypeAlias

from telegram_assistant.domain.channel import parse_ref
from telegram_assistant.domain.policy import NsfwAction, Policy, Provider, Rule, RuleAction

Reader: TypeAlias = Callable[[Any], object]

_TYPE = re.compile(r"[a-z]+/(\*|[a-z0-9.+-]+)")
_TABLE = re.compile(r"\s*\[\[?\s*([\w.-]+)\s*\]\]?")


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
            place = _Place(text, name).of(name)
            raise BadPolicy(f"{place}{name} is unknown; there are [{'], ['.join(_TABLES)}] and [[rules]]")
    return replace(base or Policy(), **found)


class _Place:
    """Where in the text a key stands, for the message: TOML readers do not tell."""

    def __init__(self, text: str, table: str, number: int = 0) -> None:
        self._lines = text.splitlines()
        self._table = table
        self._number = number  # which of several tables of one name

    def of(self, key: str) -> str:
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
            raise BadPolicy(f"{place.of(key)}{key} is unknown here; there are {', '.join(readers)}")
        field, read = readers[key]
        try:
            found[field] = read(value)
        except ValueError as exc:
            raise BadPolicy(f"{place.of(key)}{key}: {exc}") from exc
    return found


def _rules(content: object, text: str) -> tuple[Rule, ...]:
    if not isinstance(content, list):
        raise BadPolicy(f"{_Place(text, 'rules').of('rules')}rules are written as [[rules]]")
    rules = []
    for number, raw in enumerate(content):
        place = _Place(text, "rules", number)
        values = _values(raw, _RULE, place)
        if absent := [key for key in ("name", "action") if key not in values]:
            raise BadPolicy(f"{place.of('rules')}a rule needs {' and '.join(absent)}")
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
