"""A tenant leaves: nothing of it stays in PostgreSQL, Redis, the indexes or the media store.

It can be interrupted and run again at any step: the tenant's own row goes last.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from redis.asyncio import Redis
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.access.sweeping import Sweeper
from telegram_assistant.domain.access import SYSTEM_TENANT, SYSTEM_USER
from telegram_assistant.domain.media_rules import media_key
from telegram_assistant.errors import Fatal, Retry, Skip
from telegram_assistant.index.graph import Graph
from telegram_assistant.index.vectors import Vectors
from telegram_assistant.stores.media import MediaStore
from telegram_assistant.stores.postgres.erasing import Belongings, Erasing
from telegram_assistant.stores.postgres.search import SearchDocuments
from telegram_assistant.stores.postgres.users import AuditLog

AT_ONCE = 500


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
            # The file within the transaction of its row: whoever wants the same file meanwhile waits for the outcome.
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
