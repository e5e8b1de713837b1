"""What an HTTP status means for us, and when a server wants to be asked again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from telegram_assistant.errors import Retry, Skip

SOONEST, LATEST = 1.0, 24 * 3600.0

_LATER = frozenset({408, 421, 425, 429})
_WORDS = {
    401: "it wants a password",
    402: "it wants money",
    403: "it does not let us in",
    404: "there is no such page",
    410: "the page is gone",
    451: "the page is withheld for legal reasons",
}


def check_status(status: int, headers: Mapping[str, str], now: datetime) -> None:
    """Return for 2xx; raise Retry for what may pass, Skip for what will not."""
    if 200 <= status < 300 and status not in {204, 205, 206}:
        return
    if status in _LATER or status >= 500:
        raise Retry(f"the server answers {status}", after=retry_after(headers, now), failed=True)
    words = _WORDS.get(status)
    raise Skip(f"the server answers {status}: {words}" if words else f"the server answers {status}: nothing to read")


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds from a Retry-After header, be it a number or a date; bounded, None if it says nothing."""
    value = headers.get("retry-after", "").strip()
    if value.isascii() and value.isdecimal():
        return min(max(float(value[:9]), SOONEST), LATEST)
    try:
        moment = parsedate_to_datetime(value)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        seconds = (moment - now).total_seconds()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    return min(max(seconds, SOONEST), LATEST)
