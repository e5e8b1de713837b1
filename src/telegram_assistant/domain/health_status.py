"""What health says of the scheduler and the parser: by age, and by who is overdue (SPEC 6.2, 7.3)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from telegram_assistant.domain.moments import as_utc

OK_INTERVALS = 2
STALE_INTERVALS = 4
AHEAD = timedelta(seconds=5)  # clocks of two machines may differ by this
CLOCKS_DIFFER = timedelta(seconds=20)
LEAST_GRACE = timedelta(seconds=15)
ENOUGH_VISITS = 8  # of the last minutes, to judge by their share alone
MOST_FAIL = 0.8


class SchedulerStatus(StrEnum):
    """Whether the scheduler ticks."""

    OK = "ok"
    STALE = "stale"
    DOWN = "down"


class ParserStatus(StrEnum):
    """Whether channels are read as they were promised to be."""

    OK = "ok"
    DEGRADED = "degraded"  # some are not
    FAILING = "failing"  # most are not


@dataclass(frozen=True, slots=True, kw_only=True)
class Promises:
    """How the channels stand, and how the visits of the last minutes went."""

    active: int = 0
    dead: int = 0
    overdue: int = 0  # active, and not read by the time that was promised
    late: int = 0  # of those: nearly twice that time has passed
    failing_twice: int = 0  # active, and failed in their last two visits or more
    visits: int = 0  # lately
    visits_failed: int = 0  # of those


def scheduler_status(last_tick: datetime | None, now: datetime, interval: timedelta) -> SchedulerStatus:
    """Status by the age of the last tick: ok up to 2 intervals, stale up to 4, then down; down before the first.

    A tick in the future proves nothing: the clock was wrong then, or is now.
    """
    if interval <= timedelta(0):
        raise ValueError(f"the interval between ticks must be positive, not {interval}")
    if last_tick is None:
        return SchedulerStatus.DOWN
    age = as_utc(now) - as_utc(last_tick)
    if age < -AHEAD:
        return SchedulerStatus.STALE
    if age <= OK_INTERVALS * interval:
        return SchedulerStatus.OK
    if age <= STALE_INTERVALS * interval:
        return SchedulerStatus.STALE
    return SchedulerStatus.DOWN


def promised_at(now: datetime, planned: datetime | None, interval: timedelta) -> datetime:
    """Until when a channel that was just read is to be read again: its next visit, and half as long once more.

    Without a plan the next tick visits it.
    """
    wait = interval if planned is None else max(timedelta(0), as_utc(planned) - as_utc(now))
    return as_utc(now) + wait + max(interval, wait / 2, LEAST_GRACE)


def clock_error(whose: str, ahead: timedelta) -> str | None:
    """What to say of a clock that differs from another's; None while that does no harm."""
    if abs(ahead) <= CLOCKS_DIFFER:
        return None
    seconds = round(abs(ahead).total_seconds())
    side = "ahead of" if ahead > timedelta(0) else "behind"
    return (
        f"the clock of this machine is {seconds} s {side} that of the {whose}; visits, leases and ages are wrong by as"
        " much; set the time by NTP"
    )


def parser_status(found: Promises) -> ParserStatus:
    """By promises: how many channels are overdue, and for how long; not by how often a single one failed."""
    watched = found.active + found.dead
    most_overdue = found.overdue > 0 and 2 * (found.overdue + found.dead) > watched
    most_fail = 2 * found.failing_twice > found.active
    visits_fail = found.visits >= ENOUGH_VISITS and found.visits_failed >= MOST_FAIL * found.visits
    if most_overdue or most_fail or visits_fail or (watched and found.dead == watched):
        return ParserStatus.FAILING
    if found.dead or found.late or (found.overdue and 10 * found.overdue >= found.active):
        return ParserStatus.DEGRADED
    return ParserStatus.OK
