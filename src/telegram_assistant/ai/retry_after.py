"""The Retry-After header: seconds, or a date."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_LONGEST = 3_600.0  # a server that names more is asked in an hour


def seconds_to_wait(header: str | None, now: datetime | None = None) -> float | None:
    """None where the header is absent or nonsense."""
    if not header:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            moment = parsedate_to_datetime(header)
        except ValueError:
            return None
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        seconds = (aware - (now or datetime.now(UTC))).total_seconds()
    return min(_LONGEST, max(0.0, seconds)) if math.isfinite(seconds) else None
