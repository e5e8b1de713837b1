"""Trends: looked for each midnight over the day, and every quarter of an hour over the last hours (SPEC 5.2)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.trends import DAY, LEAST_ALONE, LEAST_SCORE, Telling, Window, confirm, gather, judge
from telegram_assistant.errors import Retry
from telegram_assistant.jobs import Work
from telegram_assistant.language.signatures import bands, same_story
from telegram_assistant.log import get_logger
from telegram_assistant.stores.postgres.trends import Look, Mention, Saved, State, TrendCounts, Trends

EMERGING_HOURS = timedelta(hours=3)
EMERGING_MORE = 1.0  # that scores have to be higher by: there are more looks in a day
EMERGING_EVERY = timedelta(minutes=15)
KEPT = timedelta(days=365)

log = get_logger(__name__)


def daily_trends(database: AsyncEngine) -> Work:
    """The job: the day before the given moment, for every tenant."""

    async def work(moment: datetime) -> str:
        told = await _everywhere(database, moment, State.DAILY)
        await Trends(database).forget(moment - KEPT)
        return told

    return work


def emerging_trends(database: AsyncEngine) -> Work:
    """The job: the last hours."""

    async def work(moment: datetime) -> str:
        return await _everywhere(database, moment, State.EMERGING)

    return work


async def _everywhere(database: AsyncEngine, moment: datetime, state: State) -> str:
    """One tenant whose trends cannot be found must not keep the others from theirs."""
    tenants = await Trends(database).tenants()
    saved, failed = [], []
    for tenant_id in tenants:
        try:
            saved.append(await find_trends(database, tenant_id, moment, state))
        except DBAPIError:
            log.exception("trends_not_found", tenant=str(tenant_id), state=state)
            failed.append(tenant_id)
    if failed:
        raise Retry(f"not for {len(failed)} of {len(tenants)} tenants, e.g. {failed[0]}; the log says why")
    new, going_on = sum(len(one.new) for one in saved), sum(len(one.going_on) for one in saved)
    return f"{new} new and {going_on} known trends of {len(tenants)} tenants"


async def find_trends(database: AsyncEngine, tenant_id: UUID, moment: datetime, state: State = State.DAILY) -> Saved:
    """What rises for a tenant in the window that ends now; it is stored, and what is new comes back."""
    emerging = state is State.EMERGING
    window = Window(moment, EMERGING_HOURS if emerging else DAY)
    more = EMERGING_MORE if emerging else 0.0
    least = LEAST_SCORE + more
    counts = TrendCounts(database)
    channels = await counts.channels(tenant_id, window)
    if not channels:
        return Saved()
    counted = await counts.count(channels, window)
    background = counted.background
    rising = [burst for series in counted.series if (burst := judge(series, background, least_score=least))]
    if not rising:
        return Saved()
    mentions = await counts.mentions(channels, window, [burst.subject for burst in rising])
    sources = sources_of({one.post_id: one for found in mentions.values() for one in found})
    confirmed = []
    for burst in rising:
        told = [
            Telling(one.post_id, one.channel_id, one.posted_at, sources[one.post_id]) for one in mentions[burst.subject]
        ]
        if sure := confirm(burst, told, background, least_score=least):
            confirmed.append((sure, told))
    found = gather(confirmed, least_alone=LEAST_ALONE + more)
    return await Trends(database).save(Look(tenant_id, window, state, background.days, background.reach), found)


def sources_of(posts: Mapping[UUID, Mention]) -> dict[UUID, UUID]:
    """For each post the first of those that say the same: forwards of one origin, and texts that are nearly equal."""
    ordered = sorted(posts.values(), key=lambda one: (one.posted_at, one.post_id))
    leads = _Leads()
    alike: dict[bytes, list[Mention]] = defaultdict(list)
    for one in ordered:
        leads.add(one.post_id)
    for one in ordered:
        if one.origin is not None:
            leads.join(one.origin, one.post_id)
        for other in _near(one, alike):
            leads.join(other.post_id, one.post_id)
        for band in bands(one.signature):
            alike[band].append(one)
    firsts: dict[UUID, UUID] = {}
    return {one.post_id: firsts.setdefault(leads.lead_of(one.post_id), one.post_id) for one in ordered}


def _near(one: Mention, alike: Mapping[bytes, Iterable[Mention]]) -> list[Mention]:
    candidates = {other.post_id: other for band in bands(one.signature) for other in alike.get(band, ())}
    return [other for other in candidates.values() if same_story(one, other)]


class _Leads:
    """Groups that grow together (union-find)."""

    def __init__(self) -> None:
        self._lead: dict[UUID, UUID] = {}

    def add(self, member: UUID) -> None:
        self._lead.setdefault(member, member)

    def lead_of(self, member: UUID) -> UUID:
        self.add(member)
        while self._lead[member] != member:
            self._lead[member] = member = self._lead[self._lead[member]]
        return member

    def join(self, one: UUID, other: UUID) -> None:
        self._lead[self.lead_of(other)] = self.lead_of(one)
