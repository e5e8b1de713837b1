"""When a digest is due: at any minute of a day, in any time zone, over every change of its clocks.

A time that a day does not have (clocks went forward) is the first moment after it; one that a day has twice is the
first of the two. The 31st is the last day of shorter months.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_ZONE = re.compile(r"[A-Za-z][A-Za-z0-9_+-]{0,31}(?:/[A-Za-z0-9_+-]{1,32}){0,2}", re.ASCII)
_SECOND = timedelta(seconds=1)


class Frequency(StrEnum):
    """How often."""

    DAILY = "daily"
    WEEKLY = "weekly"
    MONTHLY = "monthly"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A rule for times. `weekday` (Monday is 0) counts for weekly ones, `day` for monthly ones."""

    frequency: Frequency = Frequency.DAILY
    weekday: int = 0
    day: int = 1
    minute: int = 12 * 60  # of the day
    zone: str = "Europe/Moscow"

    def __post_init__(self) -> None:
        if not 0 <= self.weekday <= 6:
            raise ValueError("weekday: a number from 0 (Monday) to 6 (Sunday)")
        if not 1 <= self.day <= 31:
            raise ValueError("day: a number from 1 to 31")
        if not 0 <= self.minute < 24 * 60:
            raise ValueError("time: from 00:00 to 23:59")


def zone_named(name: str) -> ZoneInfo:
    """Raises ValueError with a sentence for whoever wrote it."""
    shown = name[:40].encode("ascii", "replace").decode()
    refusal = f"zone: {shown!r} is no time zone; write one like Europe/Moscow or UTC"
    if not _ZONE.fullmatch(name):
        raise ValueError(refusal)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as exc:
        raise ValueError(refusal) from exc


def next_after(schedule: Schedule, moment: datetime) -> datetime:
    """The first time after this moment."""
    return next(due for due in _times(schedule, moment, forward=True) if due > moment)


def last_until(schedule: Schedule, moment: datetime) -> datetime:
    """The last time that has come by this moment."""
    return next(due for due in _times(schedule, moment, forward=False) if due <= moment)


def moment_of(day: date, minute: int, zone: ZoneInfo) -> datetime:
    """When a clock there shows this, in UTC."""
    shown = datetime.combine(day, time(minute // 60, minute % 60), tzinfo=zone)
    due = shown.astimezone(UTC)
    if due.astimezone(zone).replace(tzinfo=None) == shown.replace(tzinfo=None):
        return due
    return _end_of_gap(shown.replace(fold=1).astimezone(UTC), due, zone)


def _end_of_gap(before: datetime, after: datetime, zone: ZoneInfo) -> datetime:
    """The moment between these two when the clocks went forward, to the second."""
    new = after.astimezone(zone).utcoffset()
    while after - before > _SECOND:
        middle = before + (after - before) // 2 // _SECOND * _SECOND
        if middle.astimezone(zone).utcoffset() == new:
            after = middle
        else:
            before = middle
    return after


def _times(schedule: Schedule, moment: datetime, *, forward: bool) -> Iterator[datetime]:
    """In their order, beginning on the safe side of the moment: a calendar day may be missing in a zone."""
    zone = zone_named(schedule.zone)
    start = moment.astimezone(zone).date() - timedelta(days=2 if forward else -2)
    for day in _days(schedule, start, forward=forward):
        yield moment_of(day, schedule.minute, zone)


def _days(schedule: Schedule, start: date, *, forward: bool) -> Iterator[date]:
    sign = 1 if forward else -1
    if schedule.frequency is Frequency.MONTHLY:
        month = start.year * 12 + start.month - 1 - sign
        while True:
            year, index = divmod(month, 12)
            yield date(year, index + 1, min(schedule.day, monthrange(year, index + 1)[1]))
            month += sign
    step = timedelta(days=sign)
    day = start
    if schedule.frequency is Frequency.WEEKLY:
        step *= 7
        day = start - sign * timedelta(days=sign * (start.weekday() - schedule.weekday) % 7)
    while True:
        yield day
        day += step
