"""Work that comes again and again (SPEC 5): the table of when. The `api` role runs it, one process at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

DIGESTS = "digests"
TRENDS = "trends"
EMERGING = "emerging"
INTERESTS = "interests"
STORAGE_USAGE = "storage_usage"

START = datetime(1970, 1, 1, tzinfo=UTC)  # a midnight: from here all times are counted

# What a job does. It is given the time it was due, and may say in a few words what it did.
Work: TypeAlias = Callable[[datetime], Awaitable[str | None]]


@dataclass(frozen=True, slots=True)
class Plan:
    """A job and when it is due: every so often since midnight, UTC. Every process finds the same times."""

    name: str
    every: timedelta
    limit: timedelta = timedelta(hours=1)  # a run that takes longer has failed

    def slot(self, now: datetime) -> datetime:
        """The last time it was due."""
        return START + (now - START) // self.every * self.every

    @property
    def patience(self) -> timedelta:
        """How late it may be before health tells of it."""
        return min(timedelta(minutes=15), 5 * self.every)


def plans(*, interests_minutes: int) -> tuple[Plan, ...]:
    """All jobs. Digests are looked at more often than SPEC 5.1 asks: one that is due at 12:07 comes at 12:07."""
    return (
        Plan(DIGESTS, timedelta(minutes=1), limit=timedelta(minutes=15)),
        Plan(TRENDS, timedelta(days=1)),
        Plan(EMERGING, timedelta(minutes=15)),
        Plan(INTERESTS, timedelta(minutes=interests_minutes)),
        Plan(STORAGE_USAGE, timedelta(hours=6)),
    )
