"""What vision may cost: tokens per tenant and day of UTC, and when the next day begins."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from telegram_assistant.domain.moments import as_utc

TOKENS_PER_DAY = 250_000
AT_ONCE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """A tenant's day so far."""

    tokens: int
    reserved: int  # by calls that are under way
    running: int
    limit: int
    resets_at: datetime

    @property
    def left(self) -> int:
        return max(0, self.limit - self.tokens - self.reserved)


def day_of(now: datetime) -> str:
    """The day that a call is charged to, like 2026-01-05."""
    return as_utc(now).date().isoformat()


def next_day(now: datetime) -> datetime:
    """The coming midnight of UTC, when there is a new budget."""
    return (as_utc(now) + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)


def refusal(spent: Spent, tokens: int) -> str:
    """The sentence about a picture that has to wait for tomorrow."""
    return (
        f"the vision budget of the day is used up: {spent.tokens} of {spent.limit} tokens, and this picture needs about"
        f" {tokens}; it is looked at after {spent.resets_at:%Y-%m-%d %H:%M} UTC"
    )
