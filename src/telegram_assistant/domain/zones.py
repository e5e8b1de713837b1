"""Time zones by name. A row may hold one that does not exist: that channel then counts in the usual one."""

from __future__ import annotations

from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from telegram_assistant.domain.thresholds import MOSCOW


@lru_cache(maxsize=1000)
def known_zone(name: str) -> ZoneInfo | None:
    """None: there is no such zone."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None  # unknown, no name of a zone at all, or that of a folder


def zone_of(name: str) -> ZoneInfo:
    return known_zone(name) or MOSCOW
