"""Faults as data: what to break, for whom, how often. A file of them is a JSON list of objects."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

RPC_ACTIONS = {
    "flood": "answer FLOOD_WAIT_<seconds>",
    "flood_premium": "answer FLOOD_PREMIUM_WAIT_<seconds>",
    "error": "answer the error <code> <message>",
    "drop": "close the connection before the request is executed",
    "cut": "execute it, send half of the answer, close the connection",
    "lose": "execute it, close the connection without an answer",
    "slow": "execute and answer after <seconds>",
    "silence": "execute nothing, never answer, keep the connection",
    "expire_references": "make file references invalid first: of the file asked for, else of all files",
    "truncate_file": "answer upload.getFile with half of the bytes",
    "lose_newest": "answer a page of messages without the newest third of them",
    "lose_middle": "answer a page of messages without the middle third of them",
    "lose_oldest": "answer a page of messages without the oldest third of them",
}
PUSH_ACTIONS = {
    "push_lose": "never send the update",
    "push_double": "send the update twice",
    "push_reorder": "send the update after the next one",
}
WEB_ACTIONS = {
    "web_soft_ban": "say of every post that it does not exist",
    "web_flood": "answer 429, with <seconds> to wait",
    "web_error": "answer the status <code>",
    "web_challenge": "answer a page that is not Telegram's",
    "web_changed": "answer a page whose markup is another",
    "web_no_preview": "lead away from the history, as a channel does that shows none",
    "web_cut": "answer the first half of the page",
}
ACTIONS = RPC_ACTIONS | PUSH_ACTIONS | WEB_ACTIONS


@dataclass(slots=True, frozen=True)
class Fault:
    """One rule. `method` is a glob over names such as `messages.getHistory`.

    Pushes are `push.new|edit|delete`, requests of the public previews `web.page|post|file`.
    """

    action: str
    method: str = "*"
    channel: str | int | None = None  # username, or id with or without -100
    user: int | None = None
    probability: float = 1.0
    skip: int = 0  # let this many matching requests pass first
    times: int | None = None  # then fire this often; None: always
    seconds: float = 0.0  # flood, flood_premium, slow
    code: int = 500  # error
    message: str = "INTERNAL"  # error

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise ValueError(f"unknown fault action {self.action!r}: allowed are {', '.join(ACTIONS)}")
        for name, kinds in _KINDS.items():
            value = getattr(self, name)
            if not isinstance(value, kinds) or isinstance(value, bool):
                raise _bad(f"{name!r} of a fault cannot be {value!r}")
        if not 0 <= self.probability <= 1:
            raise ValueError(f"'probability' of a fault must be from 0 to 1, not {self.probability}")
        if self.skip < 0 or self.seconds < 0 or (self.times is not None and self.times < 1):
            raise ValueError("'skip' and 'seconds' of a fault cannot be negative, 'times' must be at least 1")

    def matches(self, event: Event) -> bool:
        for actions, kind in ((PUSH_ACTIONS, "push."), (WEB_ACTIONS, "web.")):
            if (self.action in actions) != event.method.startswith(kind):
                return False
        if self.user is not None and self.user != event.user_id:
            return False
        if self.channel is not None and _plain(self.channel) not in {
            None if event.channel_id is None else str(event.channel_id),
            event.username,
        }:
            return False
        return fnmatchcase(event.method.lower(), self.method.lower())


_KINDS: dict[str, tuple[type, ...]] = {
    "method": (str,),
    "channel": (str, int, type(None)),
    "user": (int, type(None)),
    "probability": (int, float),
    "skip": (int,),
    "times": (int, type(None)),
    "seconds": (int, float),
    "code": (int,),
    "message": (str,),
}


@dataclass(slots=True, frozen=True)
class Event:
    """A request or a push that a fault may hit."""

    method: str
    user_id: int | None = None
    channel_id: int | None = None
    username: str | None = None  # lower case


@dataclass(slots=True)
class _Entry:
    fault: Fault
    seen: int = 0
    fired: int = 0


class FaultBook:
    """The faults in force, and how often each fired. The first that fires for an event wins."""

    def __init__(self, faults: Iterable[Fault] = (), *, seed: int = 0) -> None:
        self._entries = [_Entry(fault) for fault in faults]
        self._random = random.Random(seed)
        self.fired: Counter[str] = Counter()  # by action

    def __iter__(self) -> Any:
        return iter([entry.fault for entry in self._entries])

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, *faults: Fault) -> None:
        self._entries.extend(_Entry(fault) for fault in faults)

    def remove(self, fault: Fault) -> None:
        """Take a fault out; one that is not in force is no error."""
        self._entries = [entry for entry in self._entries if entry.fault != fault]

    def clear(self) -> None:
        self._entries = []

    def count(self, fault: Fault) -> int:
        """How often this fault fired since it was added."""
        return sum(entry.fired for entry in self._entries if entry.fault == fault)

    def to_json(self) -> list[dict[str, Any]]:
        return [{**asdict(entry.fault), "fired": entry.fired} for entry in self._entries]

    def pick(self, event: Event) -> Fault | None:
        for entry in self._entries:
            fault = entry.fault
            if fault.times is not None and entry.fired >= fault.times:
                continue
            if not fault.matches(event):
                continue
            entry.seen += 1
            if entry.seen <= fault.skip or self._random.random() >= fault.probability:
                continue
            entry.fired += 1
            self.fired[fault.action] += 1
            return fault
        return None


def faults_from_json(rows: object) -> list[Fault]:
    """Faults from parsed JSON; ValueError says which row is wrong and what is allowed."""
    if not isinstance(rows, list):
        raise _bad("faults must be a JSON list of objects")
    allowed = [field.name for field in fields(Fault)]
    faults = []
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise _bad(f"fault {number} must be an object, not {row!r}")
        unknown = sorted(set(row) - set(allowed))
        if unknown:
            raise ValueError(f"fault {number}: unknown key {unknown[0]!r}: allowed are {', '.join(allowed)}")
        if "action" not in row:
            raise ValueError(f"fault {number}: 'action' is missing: one of {', '.join(ACTIONS)}")
        try:
            faults.append(Fault(**row))
        except ValueError as exc:
            raise ValueError(f"fault {number}: {exc}") from exc
    return faults


def load_faults(path: Path) -> list[Fault]:
    """Faults from a file; ValueError names the file."""
    try:
        return faults_from_json(json.loads(path.read_text()))
    except OSError as exc:
        raise ValueError(f"cannot read {path}: {exc.strerror}") from exc
    except ValueError as exc:
        raise ValueError(f"{path}: {exc}") from exc


def _bad(complaint: str) -> ValueError:
    """The caller that reads a file of faults needs one kind of error, wrong types included."""
    return ValueError(complaint)


def _plain(channel: str | int) -> str:
    """A channel as an event names it: bare id or lower-case username."""
    text = str(channel).lower().removeprefix("@")
    return text.removeprefix("-100") if text.lstrip("-").isdigit() else text
