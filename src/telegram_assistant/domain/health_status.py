"""What health says of the scheduler and the parser: by age, and by outcome (SPEC 6.2, 7.3)."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

from telegram_assistant.domain.moments import as_utc

OK_INTERVALS = 2
STALE_INTERVALS = 4


class SchedulerStatus(StrEnum):
    """Whether the scheduler ticks."""

    OK = "ok"
    STALE = "stale"
    DOWN = "down"


class ParserStatus(StrEnum):
    """Whether ticks achieve anything."""

    OK = "ok"
    DEGRADED = "degraded"  # some channels fail
    FAILING = "failing"  # every channel fails, visit after visit


def scheduler_status(last_tick: datetime | None, now: datetime, interval: timedelta) -> SchedulerStatus:
    """Status by the age of the last tick: ok up to 2 intervals, stale up to 4, then down; down before the first."""
    if interval <= timedelta(0):
        raise ValueError(f"the interval between ticks must be positive, not {interval}")
    if last_tick is None:
        return SchedulerStatus.DOWN
    age = as_utc(now) - as_utc(last_tick)
    if age <= OK_INTERVALS * interval:
        return SchedulerStatus.OK
    if age <= STALE_INTERVALS * interval:
        return SchedulerStatus.STALE
    return SchedulerStatus.DOWN


def parser_status(*, active: int, failing: int, failing_twice: int, dead: int) -> ParserStatus:
    """Status by outcome: how many channels there are, how many failed in their last visit, or in the last two."""
    watched = active + dead
    if watched and failing_twice + dead >= watched:
        return ParserStatus.FAILING
    return ParserStatus.DEGRADED if failing or dead else ParserStatus.OK
