"""How and when a channel is visited: historical or incremental, and why (SPEC 1.1-1.3).

An incremental visit reads on from the cursor, with an overlap of minutes; a historical one reads the last day again as
well. Neither bounds what is read: a channel that was down for a week is read from where its ledger ends. Only a first
visit begins with its look-back. Recent posts are read again for counters, edits and deletions: often while they are
young, then ever less.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from telegram_assistant.domain.moments import as_utc


class Mode(StrEnum):
    """How a channel is parsed."""

    HISTORICAL = "historical"
    INCREMENTAL = "incremental"


class ModeOverride(StrEnum):
    """What the operator set as `PARSER_MODE_OVERRIDE`."""

    AUTO = "auto"
    HISTORICAL = "historical"
    INCREMENTAL = "incremental"


class ForcedReason(StrEnum):
    """Why a mode is not the ordinary one; the label of `parser_mode_forced_total`."""

    FEATURE_OFF = "feature_off"
    OVERRIDE = "override"
    NEVER_PARSED = "never_parsed"
    STALE_LPA = "stale_lpa"


@dataclass(frozen=True, slots=True)
class ModeDecision:
    """A mode, and the reason if it was forced."""

    mode: Mode
    forced_reason: ForcedReason | None = None


def choose_mode(
    last_parsed_at: datetime | None,
    now: datetime,
    *,
    override: ModeOverride = ModeOverride.AUTO,
    incremental_enabled: bool = True,
    max_age_hours: float = 48,
    last_success_at: datetime | None = None,
) -> ModeDecision:
    """The mode of the next visit. The feature switch beats the override, and the override beats what is observed.

    A channel that was visited since it became stale is quiet, and not forced again with every visit.
    """
    if not incremental_enabled:
        return ModeDecision(Mode.HISTORICAL, ForcedReason.FEATURE_OFF)
    if override is not ModeOverride.AUTO:
        return ModeDecision(Mode(override.value), ForcedReason.OVERRIDE)
    if last_parsed_at is None:
        return ModeDecision(Mode.HISTORICAL, ForcedReason.NEVER_PARSED)
    # "Older than" is strict, and a time in the future (another machine's clock) is not old.
    stale_at = as_utc(last_parsed_at) + timedelta(hours=max_age_hours)
    if as_utc(now) > stale_at and (last_success_at is None or as_utc(last_success_at) <= stale_at):
        return ModeDecision(Mode.HISTORICAL, ForcedReason.STALE_LPA)
    return ModeDecision(Mode.INCREMENTAL)


def first_visit_since(now: datetime, hours: float = 24) -> datetime:
    """From when on a channel is read that was never read before (SPEC 8: 24 h)."""
    if hours <= 0:
        raise ValueError(f"the look-back of a first visit must be positive, not {hours} h")
    return as_utc(now) - timedelta(hours=hours)


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
