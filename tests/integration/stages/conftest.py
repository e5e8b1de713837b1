"""One loop and one set of the real local models for all tests of the stages; engines and indexes are new for each."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest_asyncio
from redis.asyncio import Redis
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.ai.providers import Models, ModelsConfig, build_models
from telegram_assistant.ai.vision.describer import LocalVision
from telegram_assistant.ai.vision.ocr import find_trained_data
from telegram_assistant.crawl.fetcher import Fetcher, user_agent
from telegram_assistant.crawl.pool import Pool, worker_command
from telegram_assistant.crawl.reader import WebReader
from telegram_assistant.crawl.robots import Robots
from telegram_assistant.domain.urls import Allowance
from telegram_assistant.index.edge_vectors import EdgeVectors
from telegram_assistant.index.ladybug_graph import LadybugGraph
from telegram_assistant.language.inflection import Inflection
from telegram_assistant.language.lexemes import Lexicon
from telegram_assistant.stages.index_entry import EntryReader, TextIndex
from telegram_assistant.stages.indexing import Indexes
from telegram_assistant.stages.tagging import Tagging
from telegram_assistant.stores.media import MediaStore
from telegram_assistant.stores.postgres.database import open_database
from telegram_assistant.stores.postgres.search import SearchDocuments
from telegram_assistant.stores.redis import open_redis
from telegram_assistant.wiring.runtime import utc_now
from tests.integration.stages.desk import Desk
from tests.integration.stages.site import Site


@dataclass(frozen=True)
class Local:
    """What runs on this machine."""

    models: Models
    vision: LocalVision


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def local() -> AsyncIterator[Local]:
    """The processes behind them start when they are first asked, which takes seconds."""
    vision = LocalVision(find_trained_data())
    models = build_models(ModelsConfig(), vision)
    yield Local(models, vision)
    await models.close()
    await vision.close()


@dataclass(frozen=True)
class Web:
    """A site, and a reader that may go there."""

    site: Site
    reader: WebReader

    @property
    def allow(self) -> Allowance:
        return frozenset({("127.0.0.1", self.site.port)})


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def whole_web() -> AsyncIterator[Web]:
    site = Site()
    await site.start()
    allow = frozenset({("127.0.0.1", site.port)})
    fetcher = Fetcher(agent=user_agent("test", ""), allow=allow)
    pool = Pool(worker_command("trafilatura"))
    reader = WebReader(fetcher, Robots(fetcher, clock=utc_now), pool, clock=utc_now, allow=allow)
    yield Web(site, reader)
    await reader.close()
    await site.stop()


@pytest_asyncio.fixture(loop_scope="session")
async def web(whole_web: Web) -> Web:
    whole_web.site.begin_anew()
    return whole_web


@pytest_asyncio.fixture(loop_scope="session")
async def database(database_url: str) -> AsyncIterator[AsyncEngine]:
    engine = open_database(database_url)
    yield engine
    await engine.dispose()


@pytest_asyncio.fixture(loop_scope="session")
async def redis(redis_url: str) -> AsyncIterator[Redis]:
    client = open_redis(redis_url)
    yield client
    await client.aclose()


@pytest_asyncio.fixture(loop_scope="session")
async def desk(database: AsyncEngine, redis: Redis) -> Desk:
    made = Desk(database, redis, MediaStore.open("memory://"))
    await made.open_channel()
    return made


@pytest_asyncio.fixture(loop_scope="session")
async def tagging(desk: Desk, local: Local) -> Tagging:
    return Tagging(local.models.tagger, desk.budgets, utc_now)


@pytest_asyncio.fixture(loop_scope="session")
async def indexes(desk: Desk, local: Local, folder: Path) -> AsyncIterator[Indexes]:
    vectors, graph = EdgeVectors(folder / "vectors"), LadybugGraph(folder / "graph", memory_mb=128)
    entries = EntryReader(desk.stored_posts, desk.enrichments, desk.pages, desk.pictures)
    texts = TextIndex(SearchDocuments(desk.database), Lexicon(Inflection()))
    yield Indexes(vectors, graph, texts, local.models.embedder, entries, utc_now)
    await vectors.close()
    await graph.close()
