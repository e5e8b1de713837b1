"""Every index anew from the tables, which know all that went into them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from telegram_assistant.ai.local_vision import LocalVision
from telegram_assistant.ai.providers import build_models
from telegram_assistant.config import Settings
from telegram_assistant.index.vectors import Model
from telegram_assistant.language.inflection import Inflection
from telegram_assistant.language.lexemes import Lexicon
from telegram_assistant.runtime import Runtime
from telegram_assistant.stages.index_entry import EntryReader
from telegram_assistant.stages.indexing import Indexes
from telegram_assistant.stages.models import model_budget, models_config, open_graph, open_vectors
from telegram_assistant.stages.search_entry import TextIndex
from telegram_assistant.stages.seen import SeenWords
from telegram_assistant.stores.postgres.enrichment import Enrichments
from telegram_assistant.stores.postgres.materials import Materials
from telegram_assistant.stores.postgres.models import ModelResults
from telegram_assistant.stores.postgres.pages import Pages
from telegram_assistant.stores.postgres.pictures import Pictures
from telegram_assistant.stores.postgres.search import SearchDocuments

BATCH = 100


@dataclass(frozen=True)
class Reindexing:
    """Idempotent: what is in an index already, and the same, costs a look."""

    indexes: Indexes
    materials: Materials

    async def count(self) -> int:
        return sum([await self.materials.count(tenant) for tenant in await self.materials.tenants()])

    async def run(self, told: Callable[[int], None] = lambda _: None, *, keep: bool = True) -> int:
        """How many posts were put in. What the tables no longer have goes out."""
        return sum([await self._tenant(tenant, told, keep=keep) for tenant in await self.materials.tenants()])

    async def _tenant(self, tenant_id: UUID, told: Callable[[int], None], *, keep: bool) -> int:
        vectors, model = self.indexes.vectors, self.indexes.model
        mark = await vectors.mark(tenant_id)
        if not keep:
            await vectors.drop(tenant_id)
            await self.indexes.graph.drop(tenant_id)
        done = 0
        after: UUID | None = None
        while batch := await self.materials.ids_after(tenant_id, after, limit=BATCH):
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
            known = await self.materials.of(ids)
            strays = [id_ for id_ in ids if id_ not in known or known[id_].deleted]
            if strays:
                await self.indexes.remove(tenant_id, strays)


def open_indexes(runtime: Runtime) -> Indexes:
    """As the worker has them, without what looks at pictures: what was seen stands in the tables."""
    database, settings = runtime.database, runtime.settings
    budget = model_budget(settings, database, runtime.clock)
    models = build_models(models_config(settings), LocalVision(None, nsfw=False), budget)
    runtime.stack.push_async_callback(models.close)
    embedder = models.cached(ModelResults(database)).embedder
    vectors, graph = open_vectors(settings, runtime.folder.path), open_graph(settings, runtime.folder.path)
    runtime.stack.push_async_callback(vectors.close)
    runtime.stack.push_async_callback(graph.close)
    entries = EntryReader(Materials(database), Enrichments(database), Pages(database), SeenWords(Pictures(database)))
    texts = TextIndex(SearchDocuments(database), Lexicon(Inflection()))
    return Indexes(vectors, graph, texts, embedder, entries, runtime.clock)


async def configured_model(settings: Settings) -> Model:
    """What makes the vectors, by the settings."""
    models = build_models(models_config(settings), LocalVision(None, nsfw=False))
    try:
        return Model(str(models.embedder.identity), models.embedder.size)
    finally:
        await models.close()
