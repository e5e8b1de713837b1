"""What health says of the scheduler and the parser: by age, and by outcome (SPEC 6.2, 7.3)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from telegram_assistant.domain.moments import as_utc

if TYPE_CHECKING:
    from collections.abc import Sequence

OK_INTERVALS = 2
STALE_INTERVALS = 4
FAILING_TICKS = 2


class SchedulerStatus(StrEnum):
    """Whether the scheduler ticks."""

    OK = "ok"
    STALE = "stale"
    DOWN = "down"


class ParserStatus(StrEnum):
    """Whether ticks achieve anything."""

    OK = "ok"
    DEGRADED = "degraded"  # some channels fail
    FAILING = "failing"  # every channel fails, tick after tick


@dataclass(frozen=True, slots=True)
class ChannelFailure:
    """A channel that could not be parsed, and why."""

    channel_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class TickOutcome:
    """What one tick achieved."""

    visited: int  # channels, failed ones included
    failures: tuple[ChannelFailure, ...] = ()

    def __post_init__(self) -> None:
        if len(self.failures) > self.visited:
            raise ValueError(f"{len(self.failures)} channels failed but only {self.visited} were visited")

    @property
    def all_failed(self) -> bool:
        return self.visited > 0 and len(self.failures) == self.visited


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


def parser_status(outcomes: Sequence[TickOutcome], active_channels: int) -> ParserStatus:
    """Status by the outcome of the newest ticks, oldest first."""
    # A tick with nothing due proves nothing, neither that parsing works nor that it does not.
    recent = [outcome for outcome in outcomes if outcome.visited > 0][-FAILING_TICKS:]
    failing = {failure.channel_id for outcome in recent for failure in outcome.failures}
    if not failing:
        return ParserStatus.OK
    # When ticks visit only what is due, one broken channel can be all that two ticks visited: it takes a second
    # one to call everything broken, unless there is no second.
    widespread = len(failing) >= min(2, active_channels)
    if len(recent) == FAILING_TICKS and widespread and all(outcome.all_failed for outcome in recent):
        return ParserStatus.FAILING
    return ParserStatus.DEGRADED


def is_healthy(scheduler: SchedulerStatus, parser: ParserStatus) -> bool:
    """Whether health answers green: it ticks, and ticks achieve something. A few failing channels are not red."""
    return scheduler is SchedulerStatus.OK and parser is not ParserStatus.FAILING
