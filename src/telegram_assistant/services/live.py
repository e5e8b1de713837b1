"""What happens, told to all listeners: one reader of the stream per process, and a queue per connection."""

from __future__ import annotations

import asyncio
import re
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias, cast
from uuid import UUID

from redis.asyncio import Redis
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.bus.observer import Sampler
from telegram_assistant.bus.streams import FIELD, decode
from telegram_assistant.bus.supervisor import Task, heed_stop
from telegram_assistant.domain.events import PostIndexed
from telegram_assistant.errors import AssistantError
from telegram_assistant.log import get_logger
from telegram_assistant.names import POSTS_INDEXED, stream
from telegram_assistant.services.problems import Problem
from telegram_assistant.stores.postgres.visible_posts import LivePost, VisiblePosts
from telegram_assistant.stores.postgres.watched_channels import WatchedChannels

PER_TENANT = 20
AT_MOST = 500
MOST_WAITING = 1000  # events that a slow listener may owe; then it has to connect again, and resumes
LONGEST_SECONDS = 900.0  # a listener connects again after this, so that a key that was taken back ends
PROGRESS_EVERY = 3.0
BLOCK_MS = 500
ENTRIES = 50
RESUMED_ENTRIES = 100  # of up to a hundred posts each
REMEMBERED = 20_000

_EVENT_ID = re.compile(r"(\d{1,15})-(\d{1,15})(?:\.(\d{1,6}))?", re.ASCII)

Place: TypeAlias = tuple[int, int, int]  # milliseconds and number of an entry, and the post in it
Progress: TypeAlias = Callable[[UUID], Awaitable[Mapping[str, Any]]]

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Told:
    """One event for a listener."""

    name: str  # post | progress | missed
    data: Mapping[str, Any]
    place: Place | None = None

    @property
    def id(self) -> str | None:
        return None if self.place is None else "{}-{}.{}".format(*self.place)


class Listener:
    """One connection."""

    def __init__(self, tenant_id: UUID, began: float) -> None:
        self.tenant_id = tenant_id
        self.began = began
        self._waiting: deque[Told] = deque()
        self._ended = False
        self._changed = asyncio.Event()
        self._resumed_to: Place | None = None

    def tell(self, told: Told) -> None:
        if len(self._waiting) >= MOST_WAITING:
            self.end()
        if not self._ended:
            self._waiting.append(told)
            self._changed.set()

    def end(self) -> None:
        self._ended = True
        self._changed.set()

    def resumed(self, place: Place) -> None:
        """Everything up to here was told already, from the stream itself."""
        self._resumed_to = place

    async def events(self) -> AsyncIterator[Told]:
        while True:
            while self._waiting:
                told = self._waiting.popleft()
                if told.place is None or self._resumed_to is None or told.place > self._resumed_to:
                    yield told
            if self._ended:
                return
            self._changed.clear()
            await self._changed.wait()


class LiveFeed:
    """A supervised job. Start it after the server: it is stopped before that, and lets every connection go."""

    def __init__(self, redis: Redis, posts: VisiblePosts, progress: Progress) -> None:
        self._redis = redis
        self._posts = posts
        self._progress = progress
        self._stream = stream(POSTS_INDEXED)
        self._last: str | None = None
        self._listeners: set[Listener] = set()
        self._recent: OrderedDict[UUID, None] = OrderedDict()  # posts that were told: indexing again is no news
        self._shown: dict[UUID, Mapping[str, Any]] = {}  # progress by tenant
        self._progress_at = 0.0
        self._closed = False

    @contextmanager
    def listen(self, tenant_id: UUID) -> Iterator[Listener]:
        if self._closed:
            raise Problem(503, "The server is stopping", headers={"Retry-After": "5"})
        own = sum(one.tenant_id == tenant_id for one in self._listeners)
        if own >= PER_TENANT or len(self._listeners) >= AT_MOST:
            raise Problem(
                429,
                f"{own} connections are open already: close some, or try again later",
                headers={"Retry-After": "30"},
            )
        listener = Listener(tenant_id, time.monotonic())
        self._listeners.add(listener)
        self._shown.pop(tenant_id, None)  # so that it is told how things stand
        try:
            yield listener
        finally:
            self._listeners.discard(listener)

    def close(self) -> None:
        """Ends all connections."""
        self._closed = True
        for listener in self._listeners:
            listener.end()

    async def run(self, task: Task) -> None:
        self._closed = False
        if self._last is None:
            newest = cast("list[Any]", await self._redis.xrevrange(self._stream, count=1))
            self._last = str(newest[0][0]) if newest else "0-0"
        task.ready()
        try:
            while True:
                heed_stop()
                await self._read()
                await self._tell_progress()
                self._end_old()
                task.progress()
        except asyncio.CancelledError:
            self.close()
            raise

    async def resume(self, tenant_id: UUID, event_id: str) -> list[Told]:
        """What was told after this event, from the stream; `missed` first when that is more than can be told again."""
        found = _EVENT_ID.fullmatch(event_id)
        if found is None:
            return []
        after = int(found[1]), int(found[2]), int(found[3] or 10**6)
        entries = cast(
            "list[Any]",
            await self._redis.xrevrange(self._stream, min=f"{after[0]}-{after[1]}", count=RESUMED_ENTRIES + 1),
        )
        told: list[Told] = []
        if len(entries) > RESUMED_ENTRIES:
            told.append(Told("missed", {"reason": "too many posts came meanwhile: load the page again"}))
        posts: dict[UUID, Place] = {}
        for entry_id, fields in reversed(entries[:RESUMED_ENTRIES]):
            for place, post_id in _posts_of(entry_id, fields):
                if place > after:
                    posts.setdefault(post_id, place)
        return told + await self._visible(tenant_id, list(posts.items()))

    async def _read(self) -> None:
        answer = await self._redis.xread({self._stream: self._last or "0-0"}, count=ENTRIES, block=BLOCK_MS)
        for _, entries in cast("list[Any]", answer or []):
            for entry_id, fields in entries:
                if self._listeners:
                    await self._tell_posts(entry_id, fields)
                self._last = entry_id

    async def _tell_posts(self, entry_id: str, fields: Mapping[str, str]) -> None:
        new = [(id_, place) for place, id_ in _posts_of(entry_id, fields) if id_ not in self._recent]
        for tenant_id in {listener.tenant_id for listener in self._listeners}:
            told = await self._visible(tenant_id, new)
            for listener in [one for one in self._listeners if one.tenant_id == tenant_id]:
                for one in told:
                    listener.tell(one)
        self._recent.update((post_id, None) for post_id, _ in new)
        while len(self._recent) > REMEMBERED:
            self._recent.popitem(last=False)

    async def _visible(self, tenant_id: UUID, posts: Sequence[tuple[UUID, Place]]) -> list[Told]:
        """PostgreSQL says which of them the tenant may see."""
        if not posts:
            return []
        visible = await self._posts.brief(tenant_id, [post_id for post_id, _ in posts])
        return [Told("post", _data(visible[id_]), place) for id_, place in posts if id_ in visible]

    async def _tell_progress(self) -> None:
        now = time.monotonic()
        if now - self._progress_at < PROGRESS_EVERY:
            return
        self._progress_at = now
        tenants = {listener.tenant_id for listener in self._listeners}
        for tenant_id in tenants:
            standing = await self._progress(tenant_id)
            if standing != self._shown.get(tenant_id):
                self._shown[tenant_id] = standing
                for listener in [one for one in self._listeners if one.tenant_id == tenant_id]:
                    listener.tell(Told("progress", standing))
        self._shown = {tenant_id: shown for tenant_id, shown in self._shown.items() if tenant_id in tenants}

    def _end_old(self) -> None:
        for listener in self._listeners:
            if time.monotonic() - listener.began > LONGEST_SECONDS:
                listener.end()


def _posts_of(entry_id: str, fields: Mapping[str, str]) -> list[tuple[Place, UUID]]:
    try:
        batch = decode(PostIndexed, fields[FIELD])
    except (AssistantError, KeyError) as exc:
        log.warning("event_not_told", entry=entry_id, reason=str(exc))
        return []
    milliseconds, _, number = entry_id.partition("-")
    return [((int(milliseconds), int(number), at), event.post_id) for at, event in enumerate(batch)]


def _data(post: LivePost) -> dict[str, Any]:
    return {
        "id": str(post.id),
        "channel_id": post.channel_id,
        "channel": post.channel,
        "posted_at": post.posted_at.isoformat(),
        "text": post.text,
        "has_media": post.has_media,
    }


MOST_SHOWN = 20


def make_feed(redis: Redis, database: AsyncEngine, sampler: Sampler) -> LiveFeed:
    watched = WatchedChannels(database)

    async def progress(tenant_id: UUID) -> dict[str, Any]:
        filling = await watched.filling(tenant_id, limit=MOST_SHOWN)
        return {
            "channels": [
                {
                    "id": channel.id,
                    "title": channel.title,
                    "captured": channel.captured,
                    "unknown": channel.unknown,
                    "percent": channel.percent,
                }
                for channel in filling
            ],
            "stages": {stage: history.now.behind for stage, history in sampler.stages.items()},
        }

    return LiveFeed(redis, VisiblePosts(database), progress)
