"""A tenant leaves: nothing of it stays in PostgreSQL, Redis, the indexes or the media store.

It can be interrupted and run again at any step: the tenant's own row goes last.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast
from uuid import UUID

import msgspec
from redis.asyncio import Redis
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.bus.streams import FIELD, encode
from telegram_assistant.domain.access import SYSTEM_TENANT, SYSTEM_USER
from telegram_assistant.domain.events import EVENTS
from telegram_assistant.domain.media_rules import media_key
from telegram_assistant.errors import Fatal, Retry, Skip
from telegram_assistant.index.cypher_graph import Graph
from telegram_assistant.index.vectors import Vectors
from telegram_assistant.names import (
    ALBUM_DEADLINES,
    channel_in_key,
    stream,
    waiting,
    waiting_events,
    waiting_taken,
)
from telegram_assistant.stages import STAGES
from telegram_assistant.stores.media import MediaStore
from telegram_assistant.stores.postgres.erasing import Belongings, Erasing
from telegram_assistant.stores.postgres.search import SearchDocuments
from telegram_assistant.stores.postgres.users import AuditLog

AT_ONCE = 500

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class Erased:
    """What went."""

    users: int
    channels: int
    posts: int
    files: int


class Eraser:
    """Needs every store; the indexes must belong to this process or be servers."""

    def __init__(
        self,
        database: AsyncEngine,
        redis: Redis,
        *,
        vectors: Vectors,
        graph: Graph,
        media: MediaStore,
        clock: Callable[[], datetime],
    ) -> None:
        self._rows = Erasing(database)
        self._documents = SearchDocuments(database)
        self._log = AuditLog(database)
        self._redis = redis
        self._vectors = vectors
        self._graph = graph
        self._media = media
        self._clock = clock

    async def foresee(self, tenant_id: UUID) -> Belongings:
        """What would go. Fatal where it cannot be done now, before anything is changed."""
        if tenant_id == UUID(SYSTEM_TENANT):
            raise Fatal("The tenant system is the program's own: it cannot be erased")
        try:
            await self._vectors.current(tenant_id)
            await self._graph.counts(tenant_id)
        except Retry as exc:
            raise Fatal(
                f"The indexes cannot be changed now ({exc}): if tga up or tga worker runs on this data folder, stop it,"
                " then erase again"
            ) from exc
        return await self._rows.belongings(tenant_id)

    async def erase(self, tenant_id: UUID) -> Erased:
        belongings = await self.foresee(tenant_id)
        await self._rows.still(belongings)
        files = await self._rows.files(belongings)
        await self._sweep(belongings)
        await self._rows.remove_channels(belongings)
        removed = await self._remove_files(tenant_id, files)
        await self._documents.count_terms()  # else its words would stand in the statistics
        await self._sweep(belongings)  # a stage may have been at work on a post of it
        await self._rows.remove_tenant(belongings)
        erased = Erased(len(belongings.users), len(belongings.channels), belongings.posts, removed)
        # Without its name: nothing of it stays here either.
        await self._log.add(
            UUID(SYSTEM_TENANT),
            UUID(SYSTEM_USER),
            "tenant_erased",
            details={"channels": erased.channels, "posts": erased.posts, "files": erased.files},
            now=self._clock(),
        )
        return erased

    async def _sweep(self, belongings: Belongings) -> None:
        await Sweeper(self._redis, belongings).sweep()
        public, system = sorted(belongings.public_posts), UUID(SYSTEM_TENANT)
        for start in range(0, len(public), AT_ONCE):
            await self._vectors.remove(system, public[start : start + AT_ONCE])
            await self._graph.remove(system, public[start : start + AT_ONCE])
        await self._vectors.drop(belongings.tenant_id)
        await self._graph.drop(belongings.tenant_id)

    async def _remove_files(self, tenant_id: UUID, files: list[str]) -> int:
        removed = 0
        for sha256 in await self._rows.unused(files):
            # The file within the transaction of its row: another writer of the same file waits for the outcome.
            async with self._rows.removed_file(sha256) as key:
                if key is not None:
                    await self._media.delete(key)
                    removed += 1
        for sha256, key in await self._rows.kept_in(f"media/{tenant_id}/"):
            await self._move(sha256, key)
        return removed

    async def _move(self, sha256: str, key: str) -> None:
        """A file that others have too, and that stood under the tenant's name because it came there first."""
        extension = key.rpartition(".")[2]
        try:
            stored = await self._media.put(self._media.stream(key), tenant_id=UUID(SYSTEM_TENANT), extension=extension)
        except Skip:
            await self._rows.moved(sha256, media_key(UUID(SYSTEM_TENANT), sha256, extension))  # it was gone before
            return
        await self._rows.moved(sha256, stored.key)
        await self._media.delete(key)


class _Named(msgspec.Struct):
    """What an event says about whose it is."""

    tenant_id: str = ""
    channel_id: int | None = None
    post_id: str = ""


class _Waiting(msgspec.Struct):
    """An event that waits, as far as it matters here."""

    payload: msgspec.Raw


class Sweeper:
    """Goes through all that is ours in Redis. What others have there is not touched."""

    def __init__(self, redis: Redis, belongings: Belongings) -> None:
        self._redis = redis
        self._all = belongings
        self._tenant = str(belongings.tenant_id)
        self._posts = {str(post) for post in belongings.public_posts}
        owned = {belongings.tenant_id, *belongings.users, *belongings.accounts, *belongings.albums}
        self._ids = {str(one) for one in owned}

    async def sweep(self) -> int:
        """How many things were removed."""
        removed = await self._keys()
        for event in EVENTS:
            removed += await self._stream(stream(event))
        for stage in STAGES:
            removed += await self._waiting(stage)
        return removed

    async def _keys(self) -> int:
        """Keys that carry the tenant, its people, its accounts, its albums or its channels in their name."""
        doomed = [key async for key in self._redis.scan_iter(count=AT_ONCE) if self._names_it(_text(key))]
        removed = 0
        for start in range(0, len(doomed), AT_ONCE):
            removed += int(await self._redis.delete(*doomed[start : start + AT_ONCE]))
        albums = [str(album) for album in self._all.albums]
        for start in range(0, len(albums), AT_ONCE):
            removed += int(await self._redis.zrem(ALBUM_DEADLINES, *albums[start : start + AT_ONCE]))
        return removed

    def _names_it(self, key: str) -> bool:
        return channel_in_key(key) in self._all.channels or not self._ids.isdisjoint(_UUID.findall(key))

    async def _stream(self, name: str) -> int:
        """An entry carries events of many: those of others are put back as a new entry, and handled again at worst."""
        removed, after = 0, "-"
        while entries := await cast("Awaitable[Any]", self._redis.xrange(name, min=after, count=AT_ONCE)):
            for entry_id, fields in entries:
                batch = _batch(fields.get(FIELD, ""))
                rest = [event for event in batch if not self._is_its(event)]
                if batch and len(rest) == len(batch):
                    continue
                if not batch and self._tenant not in str(fields):
                    continue  # it is unreadable, and says nothing of the tenant
                async with self._redis.pipeline(transaction=True) as pipe:
                    if rest:
                        _ = pipe.xadd(name, {FIELD: encode(rest)})
                    _ = pipe.xdel(name, entry_id)
                    await pipe.execute()
                removed += 1
            after = f"({entries[-1][0]}"
        return removed

    async def _waiting(self, stage: str) -> int:
        doomed = []
        async for field, content in self._redis.hscan_iter(waiting_events(stage), count=AT_ONCE):
            try:
                is_its = self._is_its(msgspec.json.decode(content, type=_Waiting).payload)
            except msgspec.MsgspecError:
                is_its = self._tenant in content
            if is_its:
                doomed.append(field)
        if doomed:
            async with self._redis.pipeline(transaction=True) as pipe:
                _ = pipe.zrem(waiting(stage), *doomed)
                _ = pipe.hdel(waiting_events(stage), *doomed)
                _ = pipe.hdel(waiting_taken(stage), *doomed)
                await pipe.execute()
        return len(doomed)

    def _is_its(self, event: msgspec.Raw) -> bool:
        try:
            named = msgspec.json.decode(event, type=_Named)
        except msgspec.MsgspecError:
            return self._tenant.encode() in bytes(event)
        return named.tenant_id == self._tenant or named.channel_id in self._all.channels or named.post_id in self._posts


def _batch(payload: str) -> list[msgspec.Raw]:
    try:
        return msgspec.json.decode(payload, type=list[msgspec.Raw])
    except msgspec.MsgspecError:
        return []


def _text(key: bytes | str) -> str:
    return key.decode("utf-8", "replace") if isinstance(key, bytes) else key
