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
# Telegram is asked at least so often what changed in a channel, posts of any age among it.
CHANGES = "changes"
CHANGES_EVERY = timedelta(minutes=15)
TOLD = "changes_told"  # the same moment, which stays when they are asked for sooner
NOT_TOLD = "changes_not_told"  # Telegram refuses that for a channel: it is asked again a day later
NOT_TOLD_EVERY = timedelta(days=1)
AWAY = timedelta(days=1)  # after a longer absence every stored post is looked at, beside what Telegram tells


def due_window(refreshed: Mapping[str, datetime], now: datetime) -> Window | None:
    """The widest window whose turn it is: reading it covers the narrower ones."""
    for window in reversed(WINDOWS):
        last = refreshed.get(window.name)
        # A mark in the future was made by a wrong clock, and proves nothing.
        if last is None or as_utc(now) - as_utc(last) >= window.every or as_utc(last) - as_utc(now) > window.every:
            return window
    return None


def covered_by(window: Window) -> tuple[str, ...]:
    """The windows that are read when this one is."""
    return tuple(other.name for other in WINDOWS if other.age <= window.age)


def changes_due(refreshed: Mapping[str, datetime], now: datetime) -> bool:
    return _passed(refreshed.get(CHANGES), now, CHANGES_EVERY) and _passed(refreshed.get(NOT_TOLD), now, NOT_TOLD_EVERY)


def _passed(last: datetime | None, now: datetime, every: timedelta) -> bool:
    """One that lies ahead was written while the clock was wrong."""
    return last is None or not timedelta(0) <= as_utc(now) - as_utc(last) < every


def was_away(refreshed: Mapping[str, datetime], now: datetime) -> bool:
    """Whether so much time has passed since Telegram was asked for changes that its answer alone is not enough."""
    return _passed(refreshed.get(TOLD), now, AWAY)
