"""Interests: noted while people search and read, brought to the graph (SPEC 5.3), and what follows from them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.interests import Candidate, clean_topic, score, weights
from telegram_assistant.domain.results import Shown
from telegram_assistant.domain.text import clean_text
from telegram_assistant.index.cypher_graph import Graph
from telegram_assistant.jobs import Work
from telegram_assistant.language.taxonomy import Taxonomy
from telegram_assistant.log import get_logger
from telegram_assistant.stores.postgres.interests import FittingChannel, FittingPost, InterestPosts, Interests, Origin
from telegram_assistant.stores.postgres.visible_posts import VisiblePosts

POSTS_SINCE = timedelta(days=3)
CHANNELS_SINCE = timedelta(days=30)
LEAST_POSTS = 3  # of a channel about a user's interests
PER_CHANNEL = 3  # posts of one channel that are recommended
MOST_LABELS = 50  # interests that are looked for

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RecommendedPost:
    """A post, and the interests that it meets, the strongest first."""

    post: Shown
    why: tuple[str, ...]
    score: float


@dataclass(frozen=True, slots=True)
class Recommended:
    """What a user may want to read and to watch."""

    posts: tuple[RecommendedPost, ...] = ()
    channels: tuple[FittingChannel, ...] = ()
    origins: tuple[Origin, ...] = ()


def topic_key(topic: str, taxonomy: Taxonomy) -> str:
    """As it is kept: a topic of the taxonomy by its key, named in either language."""
    clean = clean_topic(clean_text(topic))
    return next(iter(taxonomy.known([clean])), clean)


def sync_interests(database: AsyncEngine, graph: Graph | None) -> Work:
    """The job. The graph itself is asked what it has: it may have been lost and rebuilt meanwhile."""

    async def work(moment: datetime) -> str:
        store = Interests(database)
        await store.forget_faded(moment)
        if graph is None:
            return "the graph belongs to another process: nothing was synchronised"
        changed = 0
        people = await store.people()
        for person in people:
            now = {topic: round(weight, 3) for topic, weight in weights(person.interests, moment).items()}
            if await graph.interests(person.tenant_id, person.user_id) != now:
                await graph.put_interests(person.tenant_id, person.user_id, now)
                changed += 1
        return f"{changed} of {len(people)} people changed"

    return work


class Advisor:
    """Recommends from interests; digests rank by `weights`."""

    def __init__(self, database: AsyncEngine, clock: Callable[[], datetime]) -> None:
        self._interests = Interests(database)
        self._posts = InterestPosts(database)
        self._shown = VisiblePosts(database)
        self._clock = clock

    async def weights(self, tenant_id: UUID, user_id: UUID) -> Mapping[str, float]:
        return weights(await self._interests.of_user(tenant_id, user_id), self._clock())

    async def recommend(self, tenant_id: UUID, user_id: UUID, *, limit: int = 12) -> Recommended:
        """Nothing without interests."""
        now = self._clock()
        likes = dict(list((await self.weights(tenant_id, user_id)).items())[:MOST_LABELS])
        if not likes:
            return Recommended()
        labels, month = list(likes), now - CHANNELS_SINCE
        fitting = await self._posts.posts(tenant_id, labels, since=now - POSTS_SINCE, until=now)
        best = _best(fitting, likes, now, limit)
        shown = await self._shown.posts(tenant_id, [post.post_id for post, _ in best])
        channels = await self._posts.channels(tenant_id, labels, since=month, until=now, least=LEAST_POSTS)
        return Recommended(
            posts=tuple(
                RecommendedPost(shown[post.post_id], _why(post.labels, likes), worth)
                for post, worth in best
                if post.post_id in shown
            ),
            channels=tuple(sorted(channels, key=_worth, reverse=True)[:limit]),
            origins=tuple(await self._posts.origins(tenant_id, labels, since=month, until=now, limit=limit)),
        )


def _best(
    posts: Sequence[FittingPost], likes: Mapping[str, float], now: datetime, limit: int
) -> list[tuple[FittingPost, float]]:
    """Each story once, and not all of one channel."""
    ranked = sorted(((post, score(Candidate(post.labels, post.posted_at), likes, now)) for post in posts), key=_rank)
    told: set[UUID] = set()  # stories and albums
    channels: Counter[int] = Counter()
    best: list[tuple[FittingPost, float]] = []
    for post, worth in ranked:
        own = {one for one in (post.story_id, post.album_id) if one is not None}
        if own & told or channels[post.channel_id] >= PER_CHANNEL:
            continue
        best.append((post, worth))
        channels[post.channel_id] += 1
        told |= own
        if len(best) == limit:
            break
    return best


def _rank(one: tuple[FittingPost, float]) -> tuple[float, UUID]:
    return -one[1], one[0].post_id


def _worth(channel: FittingChannel) -> float:
    """A large share of a channel, and not of three posts."""
    return channel.fitting / channel.posts * math.log1p(channel.fitting)


def _why(labels: Collection[str], likes: Mapping[str, float]) -> tuple[str, ...]:
    return tuple(sorted((label for label in labels if likes.get(label)), key=lambda label: (-likes[label], label)))
