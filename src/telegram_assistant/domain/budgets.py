"""What may be spent in a day or an hour, who pays for a channel, and what a call is charged (decision 0017)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from telegram_assistant.domain.moments import as_utc

VISION_TOKENS_PER_DAY = 250_000  # of a tenant (SPEC 8)
VISION_AT_ONCE = 3
CRAWLS_PER_DAY = 300  # of a tenant
CRAWLS_PER_SITE_HOUR = 60

ALL = "all"  # the owner of what the whole installation spends
CHARS_PER_TOKEN = 3  # of Russian and English text, with the usual tokenizers
TRUST = 4  # how far a server's figure may be from our estimate


class Kind(StrEnum):
    """What is spent. Owners: a tenant, a site, or all together."""

    VISION = "vision"  # tokens, by tenant and day
    MODELS = "models"  # tokens for tags, vectors and answers, by day: of all, and of each tenant its share
    CRAWL = "crawl"  # pages, by tenant and day
    SITE = "site"  # pages, by site and hour
    HISTORY = "history"  # whole histories that a tenant asks for, by day


class Short(StrEnum):
    """Why a claim is refused."""

    SPENT = "spent"  # until the period is over
    BUSY = "busy"  # until a call that is under way has ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a call needs of one budget."""

    owner: str
    kind: str
    period: datetime  # its beginning
    limit: int | None = None  # None: it is only counted
    needs: int = 1
    at_once: int | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """A budget as it stands."""

    spent: int = 0
    reserved: int = 0  # by calls that are under way
    running: int = 0


def shortage(claim: Claim, standing: Standing) -> Short | None:
    """None: it may be spent."""
    if claim.limit is not None and claim.needs and standing.spent + claim.needs > claim.limit:
        return Short.SPENT
    if claim.at_once is not None and standing.running >= claim.at_once:
        return Short.BUSY
    if claim.limit is not None and claim.needs and standing.spent + standing.reserved + claim.needs > claim.limit:
        return Short.BUSY
    return None


def payers_in_turn(payers: Collection[UUID], spent: Mapping[str, int]) -> list[UUID]:
    """A call for a channel is charged to one of those who watch it: the one that has the most left is asked first.

    All have the same limit, so where the first has too little left, none has enough.
    """
    return sorted(payers, key=lambda payer: (spent.get(str(payer), 0), str(payer)))


def share(limit: int | None, tenants: int) -> int | None:
    """What one of so many tenants may take of what all have together: equal parts, so that none lives off another."""
    return None if limit is None or tenants <= 1 else limit // tenants


def estimated(characters: int) -> int:
    """Tokens of a text, where the server does not say."""
    return -(-characters // CHARS_PER_TOKEN)


def believed(reported: object, characters: int, *, more: int = 0, most: int = 0) -> int:
    """What a call is charged: the server's figure where it can be true, else the nearest one that can.

    `more`: tokens that do not stand in the text, as those of a picture; `most`: what it may be at the least, as an
    answer with hidden reasoning. A server that reports nothing, or less than nothing, is charged the estimate.
    """
    estimate = estimated(characters)
    if not isinstance(reported, int) or reported <= 0:
        return estimate + more
    return min(max(reported, estimate // TRUST), max((estimate + more) * TRUST, most))


def day_of(now: datetime) -> datetime:
    """The beginning of the day (UTC) that a call is charged to."""
    return as_utc(now).replace(hour=0, minute=0, second=0, microsecond=0)


def hour_of(now: datetime) -> datetime:
    return as_utc(now).replace(minute=0, second=0, microsecond=0)


def next_day(now: datetime) -> datetime:
    """The coming midnight of UTC, when there is a new budget."""
    return day_of(now) + timedelta(days=1)
