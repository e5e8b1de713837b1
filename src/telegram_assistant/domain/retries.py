"""What went wrong with a request, and how long to wait before the next attempt (SPEC 1.6)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

MAX_RETRIES = 3
FLOOD_JITTER_SECONDS = 3.0
_LONGEST = 3_600.0  # a server that names more is asked in an hour


class Failure(StrEnum):
    """The classes of failure; also the `reason` label of `parser_retries_total`."""

    TRANSIENT = "transient"  # timeouts, lost connections, errors inside Telegram
    FLOOD = "flood"  # Telegram named a time to wait
    REFERENCE_EXPIRED = "reference_expired"  # a media reference aged; the message gives a new one
    CHANNEL_PRIVATE = "channel_private"  # it exists, but this account may not read it
    GONE = "gone"  # no such channel or username any more
    ACCOUNT = "account"  # banned, logged out, session revoked: another account may still succeed
    FATAL = "fatal"  # a mistake of ours; trying again changes nothing


@dataclass(frozen=True, slots=True)
class Backoff:
    """Seconds that grow by a factor from `base` up to `cap`."""

    base: float = 1.0
    factor: float = 2.0
    cap: float = 60.0

    def __post_init__(self) -> None:
        if not (0 < self.base <= self.cap and self.factor >= 1):
            raise ValueError(f"a backoff needs 0 < base <= cap and factor >= 1: {self!r}")

    def delay(self, attempt: int) -> float:
        """Seconds after the failure of attempt 1, 2, …"""
        if attempt < 1:
            raise ValueError(f"attempts are counted from 1, not {attempt}")
        try:
            return min(self.cap, self.base * self.factor ** (attempt - 1))
        except OverflowError:
            return self.cap


DEFAULT_BACKOFF = Backoff()


def next_delay(
    attempt: int,
    failure: Failure,
    flood_seconds: float | None,
    rng: Random,
    *,
    backoff: Backoff = DEFAULT_BACKOFF,
    max_retries: int = MAX_RETRIES,
) -> float | None:
    """Seconds to wait after `attempt` (counted from 1) failed, or None to give up.

    With `max_retries` 3 a request is made at most four times.
    """
    if attempt < 1:
        raise ValueError(f"attempts are counted from 1, not {attempt}")
    if failure is Failure.FLOOD and (flood_seconds is None or flood_seconds < 0):
        raise ValueError(f"a flood names the seconds to wait, not {flood_seconds}")
    if attempt > max_retries:
        return None
    match failure:
        case Failure.FLOOD if flood_seconds is not None:
            # Never the backoff's cap: an earlier attempt would make Telegram's wait longer.
            return flood_seconds + rng.uniform(0, FLOOD_JITTER_SECONDS)
        case Failure.TRANSIENT:
            return backoff.delay(attempt)
        case Failure.REFERENCE_EXPIRED:
            return 0.0
        case _:
            return None


def seconds_to_wait(header: str | None, now: datetime) -> float | None:
    """What a Retry-After header asks for: seconds or a date. None where it is absent or nonsense."""
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
        seconds = (aware - now).total_seconds()
    return min(_LONGEST, max(0.0, seconds)) if math.isfinite(seconds) else None
