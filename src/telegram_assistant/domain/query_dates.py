"""Dates as people write them in a query: `2024-07-15`, `2024-07`, `15.07.2024`, `today`, `7d`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_ISO = re.compile(r"(\d{4})(?:[-/.](\d{1,2})(?:[-/.](\d{1,2}))?)?")
_DAY_FIRST = re.compile(r"(\d{1,2})[./-](\d{1,2})[./-](\d{4})")
_AGO = re.compile(r"(\d{1,5})([hdwmyчднм\u0433])")
_HOURS = {"h": 1, "d": 24, "w": 168, "m": 730, "y": 8766, "ч": 1, "д": 24, "н": 168, "м": 730, "\u0433": 8766}
_DAYS_AGO = {"today": 0, "сегодня": 0, "yesterday": 1, "вчера": 1}
_FIRST_YEAR, _LAST_YEAR = 1970, 9998


def moment(text: str, now: datetime) -> datetime | None:
    """The start of what is named, in the time zone of `now`; None for what is no date."""
    words = text.strip().casefold()
    if words in _DAYS_AGO:
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        return (midnight - timedelta(days=_DAYS_AGO[words])).astimezone(UTC)
    if found := _AGO.fullmatch(words):
        return _ago(int(found[1]) * _HOURS[found[2]], now)
    if found := _ISO.fullmatch(words):
        return _start(int(found[1]), int(found[2] or 1), int(found[3] or 1), now)
    if found := _DAY_FIRST.fullmatch(words):
        return _start(int(found[3]), int(found[2]), int(found[1]), now)
    return None


def _ago(hours: int, now: datetime) -> datetime:
    first = datetime(_FIRST_YEAR, 1, 1, tzinfo=UTC)
    return max(first, now.astimezone(UTC) - timedelta(hours=min(hours, 24 * 366 * 100)))


def _start(year: int, month: int, day: int, now: datetime) -> datetime | None:
    if not _FIRST_YEAR <= year <= _LAST_YEAR:
        return None
    try:
        return datetime(year, month, day, tzinfo=now.tzinfo).astimezone(UTC)
    except ValueError:  # the 31st of February
        return None
