"""What there is to tell in a period: posts that fit the topics, folded into stories, in their order of worth."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

from telegram_assistant.domain.digests import Behind, Candidate, Coverage, Placed, Wish, place
from telegram_assistant.domain.query import Filters, Query, parse_query
from telegram_assistant.language.documents import Candidate as Document
from telegram_assistant.language.signatures import bands, same_story
from telegram_assistant.language.taxonomy import Taxonomy
from telegram_assistant.search.planning import Planner
from telegram_assistant.search.ranking import Ranked, score_words
from telegram_assistant.search.stories import fold
from telegram_assistant.stores.postgres.digests import DigestPosts, Facts, Standing
from telegram_assistant.stores.postgres.search import SearchDocuments

WINDOW = 2_000  # posts that are looked at for one topic, the newest
MOST_POSTS = 5_000  # for all of them together
BY_TOPIC = 0.8  # how well a post fits that a model gave the topic
LEAST = 0.5  # how well one fits at least that has the words
MOST_BEHIND = 20
MOST_ERROR = 200


class Interests(Protocol):
    """What somebody likes: weights from 0 to 1 by topic or tag."""

    async def weights(self, tenant_id: UUID, user_id: UUID) -> Mapping[str, float]: ...


@dataclass(frozen=True, slots=True)
class Story:
    """Posts that tell the same, the first source first; `lead` is the one that reached furthest."""

    lead: Facts
    posts: tuple[Facts, ...]
    topics: tuple[str, ...]
    placed: Placed

    @property
    def channels(self) -> int:
        return len({post.channel_id for post in self.posts})


@dataclass(frozen=True, slots=True)
class Found:
    """Stories, the best first, and what was looked at."""

    stories: list[Story]
    coverage: Coverage


@dataclass(frozen=True, slots=True)
class _Fits:
    """Posts that fit, and how well each topic of the reader is met by them."""

    documents: list[Document]
    matches: Mapping[UUID, Mapping[str, float]]
    capped: int


class Stories:
    """Finds them for a tenant, in what PostgreSQL shows to it."""

    def __init__(
        self,
        posts: DigestPosts,
        documents: SearchDocuments,
        planner: Planner,
        taxonomy: Taxonomy,
        *,
        patience: timedelta,
    ) -> None:
        self._posts = posts
        self._documents = documents
        self._planner = planner
        self._taxonomy = taxonomy
        self._patience = patience

    async def find(
        self,
        tenant_id: UUID,
        wish: Wish,
        since: datetime,
        until: datetime,
        *,
        told: Sequence[UUID] = (),
        interests: Mapping[str, float] | None = None,
    ) -> Found:
        """`told`: posts that earlier issues cite; their stories are not told again."""
        standings = await self._posts.standings(tenant_id)
        read = [one for one in standings if not wish.channels or one.channel_id in set(wish.channels)]
        channels = [one.channel_id for one in read]
        fits = await self._fitting(tenant_id, wish, channels, since, until)
        facts = await self._posts.facts(tenant_id, [one.post_id for one in fits.documents])
        before = _Before((await self._posts.facts(tenant_id, list(told))).values(), told)
        folded = fold(_in_time(one) for one in fits.documents if one.post_id in facts)
        stories = [[facts[one.post_id] for one in story.candidates] for story in folded]
        new = [posts for posts in stories if not before.told(posts)]
        placed = place(
            [_candidate(posts, fits.matches) for posts in new],
            most=wish.most,
            since=since,
            until=until,
            interests=interests,
        )
        by_key = {_lead(posts).post_id: posts for posts in new}
        coverage = Coverage(
            channels=len(channels),
            posts=await self._posts.count(tenant_id, channels, since, until),
            fitting=len(facts),
            stories=len(stories),
            told_before=len(stories) - len(new),
            capped=fits.capped,
            gone=len(set(wish.channels) - set(channels)),
            behind=tuple(self._behind(read, until))[:MOST_BEHIND],
        )
        return Found([_story(by_key[one.candidate.key], one, fits.matches) for one in placed], coverage)

    async def _fitting(
        self, tenant_id: UUID, wish: Wish, channels: Sequence[int], since: datetime, until: datetime
    ) -> _Fits:
        matches: dict[UUID, dict[str, float]] = defaultdict(dict)
        documents: dict[UUID, Document] = {}
        capped = 0
        for topic in wish.topics or ("",):
            query, by_topic = self._query(topic, until)
            planned = await self._planner.plan(tenant_id, query)
            plan = replace(
                planned.plan,
                ways=planned.plan.ways[:1],
                channels=tuple(one for one in planned.plan.channels if one in set(channels)),
                since=max(since, planned.plan.since or since),
                before=min(until, planned.plan.before or until),
            )
            found = await self._documents.newest(plan, limit=WINDOW) if plan.channels else []
            capped += len(found) == WINDOW
            scores = [score_words(one, [scored.worth for scored in plan.scored]).score for one in found]
            best = max(scores, default=0.0)
            for one, score in zip(found, scores, strict=True):
                documents[one.post_id] = one
                if topic:
                    by_words = LEAST + (1 - LEAST) * (score / best if best else 1.0)
                    matches[one.post_id][topic] = BY_TOPIC if by_topic else by_words
        newest = sorted(documents.values(), key=lambda one: (one.posted_at, one.post_id))[-MOST_POSTS:]
        return _Fits(newest, matches, capped)

    def _query(self, topic: str, now: datetime) -> tuple[Query, bool]:
        """A topic of the taxonomy, by whatever name, is what models found in posts; anything else is a query."""
        known = self._taxonomy.known([topic])
        if known:
            return Query(only=Filters(topics=known[:1])), True
        return parse_query(topic, now=now), False

    def _behind(self, standings: Sequence[Standing], until: datetime) -> Iterator[Behind]:
        for one in standings:
            reason = _reason(one, until - self._patience)
            if reason:
                yield Behind(
                    channel_id=one.channel_id,
                    channel=one.channel,
                    reason=reason,
                    unknown=one.unknown,
                    since=one.last_success_at,
                    error=one.last_error[:MOST_ERROR] if reason == "failing" else "",
                )


class _Before:
    """What was told already, in these very posts or in others that say the same."""

    def __init__(self, facts: Iterable[Facts], told: Sequence[UUID]) -> None:
        self._ids = set(told)
        self._by_band: dict[bytes, list[Facts]] = defaultdict(list)
        for post in facts:
            for band in bands(post.signature):
                self._by_band[band].append(post)

    def told(self, posts: Sequence[Facts]) -> bool:
        if any(post.post_id in self._ids for post in posts):
            return True
        return any(
            same_story(post, known)
            for post in posts
            for band in bands(post.signature)
            for known in self._by_band.get(band, ())
        )


def _in_time(document: Document) -> Ranked:
    return Ranked(document, document.posted_at.timestamp(), by_words=True, by_meaning=False)


def _lead(posts: Sequence[Facts]) -> Facts:
    """The one that reached furthest, of equals the first."""
    return max(
        posts, key=lambda one: (bool(one.text.strip()), one.views + 100 * one.forwards, -one.posted_at.timestamp())
    )


def _candidate(posts: Sequence[Facts], matches: Mapping[UUID, Mapping[str, float]]) -> Candidate:
    lead = _lead(posts)
    fits = [match for post in posts for match in matches.get(post.post_id, {}).values()]
    return Candidate(
        key=lead.post_id,
        channel_id=lead.channel_id,
        first_at=min(post.posted_at for post in posts),
        match=max(fits, default=1.0),
        labels=tuple(dict.fromkeys(label for post in posts for label in post.labels)),
        views=sum(post.views for post in posts),
        forwards=sum(post.forwards for post in posts),
        channels=len({post.channel_id for post in posts}),
    )


def _story(posts: Sequence[Facts], placed: Placed, matches: Mapping[UUID, Mapping[str, float]]) -> Story:
    topics = dict.fromkeys(topic for post in posts for topic in matches.get(post.post_id, {}))
    in_time = sorted(posts, key=lambda one: (one.posted_at, one.post_id))
    return Story(_lead(posts), tuple(in_time), tuple(topics), placed)


def _reason(one: Standing, expected: datetime) -> str:
    """Why a channel may lack something; empty: it does not."""
    if one.status == "dead" or one.failures > 1:
        return "failing"
    if one.last_success_at is None:
        return "new"
    if one.unknown > 0:
        return "holes"
    return "stale" if one.last_success_at < expected else ""
