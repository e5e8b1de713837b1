"""Moments are aware datetimes; a naive one is a mistake made at some edge, and is refused here."""

from __future__ import annotations

from datetime import UTC, datetime


def as_utc(moment: datetime) -> datetime:
    """The same moment in UTC. Raises ValueError for a naive datetime.

    Two datetimes that share a zone object are subtracted and compared by their wall clocks in Python, which is
    an hour wrong across a change of summer time; in UTC it is right, so every rule converts before it reckons.
    """
    if moment.tzinfo is UTC:  # nearly always, and far quicker than the rest
        return moment
    if moment.utcoffset() is None:
        raise ValueError(f"{moment.isoformat()} has no time zone: give an aware datetime")
    return moment.astimezone(UTC)
