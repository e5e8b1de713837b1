"""Every index anew from the tables, which know all that went into them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from telegram_assistant.stages.indexing import Indexes
from telegram_assistant.stores.postgres.enrichment import StoredPosts

BATCH = 100


@dataclass(frozen=True)
class Reindexing:
    """Idempotent: what is in an index already, and the same, costs a look."""

    indexes: Indexes
    stored_posts: StoredPosts

    async def count(self) -> int:
        return sum([await self.stored_posts.count(tenant) for tenant in await self.stored_posts.tenants()])

    async def run(self, told: Callable[[int], None] = lambda _: None, *, keep: bool = True) -> int:
        """How many posts were put in. What the tables no longer have goes out."""
        return sum([await self._tenant(tenant, told, keep=keep) for tenant in await self.stored_posts.tenants()])

    async def _tenant(self, tenant_id: UUID, told: Callable[[int], None], *, keep: bool) -> int:
        vectors, model = self.indexes.vectors, self.indexes.model
        mark = await vectors.mark(tenant_id)
        if not keep:
            await vectors.drop(tenant_id)
            await self.indexes.graph.drop(tenant_id)
        done = 0
        after: UUID | None = None
        while batch := await self.stored_posts.ids_after(tenant_id, after, limit=BATCH):
            await self.indexes.put(await self.indexes.entries.of(batch))
            after = batch[-1]
            done += len(batch)
            told(len(batch))
        current = await vectors.current(tenant_id)
        if current is not None and current != model and done:
            await vectors.switch(tenant_id, model)
        if mark and done:
            await vectors.set_mark(tenant_id, mark)  # made anew on purpose: that is no loss
        await self.remove_strays(tenant_id)
        return done

    async def remove_strays(self, tenant_id: UUID) -> None:
        """Of a database that was there before this one."""
        current = await self.indexes.vectors.current(tenant_id)
        if current is None:
            return
        async for ids in self.indexes.vectors.ids(tenant_id, current):
            known = await self.stored_posts.of(ids)
            strays = [id_ for id_ in ids if id_ not in known or known[id_].deleted]
            if strays:
                await self.indexes.remove(tenant_id, strays)
