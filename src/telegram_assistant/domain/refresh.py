"""When to read recent posts again, for counters, edits and deletions: often while they are young, then ever less."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from telegram_assistant.domain.moments import as_utc


@dataclass(frozen=True, slots=True)
class Window:
    """Posts up to `age` are read again `every` so often."""

    name: str
    age: timedelta
    every: timedelta


# Together about 100 readings a day for a channel with posts all day; a post is seen some 60 times in its first week.
WINDOWS = (
    Window("1h", timedelta(hours=1), timedelta(minutes=15)),
    Window("24h", timedelta(hours=24), timedelta(hours=1)),
    Window("3d", timedelta(days=3), timedelta(hours=8)),
    Window("7d", timedelta(days=7), timedelta(days=1)),
)
RECENT = WINDOWS[1]  # what is read again when live updates may have been missed


def due_window(refreshed: Mapping[str, datetime], now: datetime) -> Window | None:
    """The widest window whose turn it is: reading it covers the narrower ones."""
    for window in reversed(WINDOWS):
        last = refreshed.get(window.name)
        if last is None or as_utc(now) - as_utc(last) >= window.every:
            return window
    return None


def covered_by(window: Window) -> tuple[str, ...]:
    """The windows that are read when this one is."""
    return tuple(other.name for other in WINDOWS if other.age <= window.age)
