"""Trends: looked for each midnight over the day, and every quarter of an hour over the last hours (SPEC 5.2)."""

from __future__ import annotations

import asyncio
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.trends import (
    DAY,
    LEAST_ALONE,
    LEAST_CHANNELS,
    LEAST_SCORE,
    Background,
    Burst,
    Kind,
    Series,
    Subject,
    Telling,
    Window,
    confirm,
    gather,
    judge,
    voices,
)
from telegram_assistant.errors import Retry
from telegram_assistant.jobs import Work
from telegram_assistant.language.clean import plain, sentences_of, words_of
from telegram_assistant.language.signatures import bands, same_story
from telegram_assistant.language.stories import gather as gather_stories
from telegram_assistant.language.stories import telling_words, typical
from telegram_assistant.language.taxonomy import NOISE
from telegram_assistant.log import get_logger
from telegram_assistant.stores.postgres.trend_counts import Mention, TrendCounts
from telegram_assistant.stores.postgres.trends import Look, Saved, State, Trends

EMERGING_HOURS = timedelta(hours=3)
EMERGING_MORE = 1.0  # that scores have to be higher by: there are more looks in a day
EMERGING_EVERY = timedelta(minutes=15)
KEPT = timedelta(days=365)
MOST_EVENTS = 30  # of a look, the most told ones
EVENTS_LESS = 1.0  # that their scores may be lower by: several channels told the same, and not only of the same name
HEADLINE = 110  # characters
FEWEST_WORDS = 4  # of a headline that says what happened
CUT = " …"
_SIGNS = re.compile(r"^[^\w«\"(]+")

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
    events = await _events(counts, channels, window, background, least)
    subjects = [series for series in counted.series if not _is_noise(series.subject)]
    rising = [burst for series in subjects if (burst := judge(series, background, least_score=least))]
    if not rising and not events:
        return Saved()
    mentions = await counts.mentions(channels, window, [burst.subject for burst in rising])
    sources = sources_of({one.post_id: one for found in mentions.values() for one in found})
    confirmed = events
    for burst in rising:
        told = [
            Telling(one.post_id, one.channel_id, one.posted_at, sources[one.post_id]) for one in mentions[burst.subject]
        ]
        if sure := confirm(burst, told, background, least_score=least):
            confirmed.append((sure, told))
    found = gather(confirmed, least_alone=LEAST_ALONE + more)
    return await Trends(database).save(Look(tenant_id, window, state, background.days, background.reach), found)


def _is_noise(subject: Subject) -> bool:
    return subject.kind is Kind.TOPIC and subject.key in NOISE


async def _events(
    counts: TrendCounts, channels: Sequence[int], window: Window, background: Background, least_score: float
) -> list[tuple[Burst, list[Telling]]]:
    """What many channels tell of, and did not tell of like that in the days before."""
    posts = await counts.outlined(channels, window, without=sorted(NOISE))
    sources = sources_of({one.post_id: one for one in posts})
    stories: dict[UUID | None, list[Mention]] = defaultdict(list)
    for one in posts:
        stories[one.story_id].append(one)
    enough = math.ceil(math.sqrt(len({one.channel_id for one in posts})))  # that tell it, be it by a copy
    heard = []
    for event in await asyncio.to_thread(gather_stories, list(stories.values())):
        told = [one for story in event for one in story]
        tellings = [Telling(one.post_id, one.channel_id, one.posted_at, sources[one.post_id]) for one in told]
        if voices(tellings).channels >= LEAST_CHANNELS and len({one.channel_id for one in told}) >= enough:
            heard.append((told, tellings))
    chances = replace(background, subjects=len(heard))
    found = []
    for told, tellings in heard[:MOST_EVENTS]:
        series = Series(Subject(Kind.EVENT, _title(told)), await _past(counts, channels, window, told))
        least = least_score - EVENTS_LESS
        if burst := judge(series, chances, least_score=least, least_mentions=LEAST_CHANNELS):
            found.append((burst, tellings))
    return found


async def _past(
    counts: TrendCounts, channels: Sequence[int], window: Window, told: Sequence[Mention]
) -> tuple[int, ...]:
    """By the two words that the event is known by; by the first of them, where few posts have both."""
    words = telling_words(told, 2)
    together = await counts.together(channels, window, words)
    return together if together[0] >= LEAST_CHANNELS else await counts.together(channels, window, words[:1])


def _title(posts: Sequence[Mention]) -> str:
    """The clearest headline among these: whole, no question and no shout, of a post that tells what most tell."""
    said = [headline(one.text) for one in typical(posts)]
    clear = [one for one in said if len(words_of(one)) >= FEWEST_WORDS and not {"?", "!"} & {*one}]
    return next((one for one in clear if not one.endswith(CUT)), next(iter(clear), max(said, key=len)))


def headline(text: str) -> str:
    """The first sentence, or what fits of it."""
    said = _SIGNS.sub("", " ".join(next(iter(sentences_of(plain(text))), "").split()))
    return said if len(said) <= HEADLINE else said[:HEADLINE].rpartition(" ")[0] + CUT


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
