"""Indexes made anew from the tables: all of them on request, and vectors in the background when the model changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from telegram_assistant.bus.supervisor import Task
from telegram_assistant.errors import Retry
from telegram_assistant.ingest.lock import Lock
from telegram_assistant.log import get_logger
from telegram_assistant.stages.indexing import Indexes
from telegram_assistant.stores.postgres.enrichment import StoredPosts

BATCH = 100
EVERY = 60.0
BREATH = 0.05  # between two batches: new posts come first

log = get_logger(__name__)


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
            await self.indexes.put(await self.indexes.entries.read(batch))
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
            known = await self.stored_posts.read(ids)
            strays = [id_ for id_ in ids if id_ not in known or known[id_].deleted]
            if strays:
                await self.indexes.remove(tenant_id, strays)


@dataclass
class Reembedding:
    """One process does it, by a lock; what is embedded already is not embedded again after a restart."""

    indexes: Indexes
    stored_posts: StoredPosts
    lock: Lock
    done: int = 0
    total: int = 0

    async def run(self, task: Task) -> None:
        """A supervised job."""
        task.ready()
        while True:
            try:
                if await self.lock.hold():
                    for tenant_id in await self.stored_posts.tenants():
                        await self.bring_up_to_date(tenant_id, task)
            except Retry as exc:
                log.debug("reembedding_waits", reason=str(exc))  # another process holds the index, or it is away
                await self.lock.release()
            task.progress()
            await asyncio.sleep(EVERY)

    async def bring_up_to_date(self, tenant_id: UUID, task: Task | None = None) -> bool:
        """Whether another model's generation was replaced."""
        vectors, model = self.indexes.vectors, self.indexes.model
        current = await vectors.current(tenant_id)
        if current is None or current == model:
            return False
        log.warning("reembedding_began", tenant=str(tenant_id), from_model=current.name, to_model=model.name)
        await vectors.open(tenant_id, model)
        self.done, self.total = 0, await self.stored_posts.count(tenant_id)
        after: UUID | None = None
        while batch := await self.stored_posts.ids_after(tenant_id, after, limit=BATCH):
            await self._embed(batch)
            after = batch[-1]
            self.done += len(batch)
            if task is not None:
                task.progress()
            await self.lock.hold()
            await asyncio.sleep(BREATH)
        await vectors.switch(tenant_id, model)
        log.warning("reembedding_ended", tenant=str(tenant_id), posts=self.done)
        self.done = self.total = 0
        return True

    async def _embed(self, batch: Sequence[UUID]) -> None:
        """A post that the model has only rubbish for is left out; it must not keep all others from the new model."""
        try:
            await self.indexes.put_vectors(batch)
        except Retry as exc:
            if not exc.own:
                raise
            if len(batch) == 1:
                log.warning("reembedding_left_out", post=str(batch[0]), reason=str(exc))
                return
            for one in batch:
                await self._embed([one])

    async def report(self) -> dict[str, Any]:
        """For health: a search by meaning is as good as before until this is over."""
        return {"status": "ok", "error": None, "done": self.done, "total": self.total}
