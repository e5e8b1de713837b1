"""`tga doctor`: what it looks at, and the lines of its report."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad it is. Only `fail` makes the command fail."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """What was looked at, what was found, and what a person does about it."""

    name: str
    level: Level
    what: str
    todo: str = ""


def ok(name: str, what: str) -> Finding:
    return Finding(name, Level.OK, what)


def warn(name: str, what: str, todo: str) -> Finding:
    return Finding(name, Level.WARN, what, todo)


def fail(name: str, what: str, todo: str) -> Finding:
    return Finding(name, Level.FAIL, what, todo)
