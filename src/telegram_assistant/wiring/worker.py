"""The worker role, wired: every stage of SPEC 4 in the one loop of the bus, and what keeps them going."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from uuid import uuid4

from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant import __version__, names
from telegram_assistant.ai.providers import Models, Provider, build_models
from telegram_assistant.ai.spend import ModelBudget
from telegram_assistant.ai.vision.describer import LocalVision
from telegram_assistant.ai.vision.ocr import find_trained_data
from telegram_assistant.ai.vision.policy import load_policy
from telegram_assistant.bus.consumer import Consumer, ConsumerTimes
from telegram_assistant.bus.observer import Observer, Pressure
from telegram_assistant.bus.stage import Handler, Stage
from telegram_assistant.bus.streams import Publisher
from telegram_assistant.bus.supervisor import Job, Task
from telegram_assistant.config import Settings
from telegram_assistant.crawl.budget import BudgetLimits, CrawlBudget
from telegram_assistant.crawl.fetcher import Fetcher, Limits, user_agent
from telegram_assistant.crawl.network import ask_system, leave_to_proxy, network_through
from telegram_assistant.crawl.pool import Crawl4aiPool, Pool, worker_command
from telegram_assistant.crawl.reader import WebReader
from telegram_assistant.crawl.robots import Robots
from telegram_assistant.crawl.rules import load_rules
from telegram_assistant.domain.urls import NO_HOSTS, Allowance
from telegram_assistant.freshness import Rule
from telegram_assistant.index.vectors import Model
from telegram_assistant.ingest.lock import Lock
from telegram_assistant.ingest.relay import Relay
from telegram_assistant.ingest.saver import Saver
from telegram_assistant.language.inflection import Inflection
from telegram_assistant.language.lexemes import Lexicon
from telegram_assistant.stages import EVENTS, ROWS, groups
from telegram_assistant.stages.albums import Albums, AlbumSummaries, begin_albums, follow_items, keep_deadlines
from telegram_assistant.stages.crawling import Crawling, enrich_posts, trigger_crawls
from telegram_assistant.stages.index_entry import EntryReader, SearchUpkeep, TextIndex
from telegram_assistant.stages.index_upkeep import IndexUpkeep
from telegram_assistant.stages.indexing import Indexes, index_albums, index_posts, index_seen, unindex_posts
from telegram_assistant.stages.post_persistence import save_posts
from telegram_assistant.stages.reconciler import Reconciler
from telegram_assistant.stages.reindexing import Reembedding
from telegram_assistant.stages.tagging import Tagging, retag_posts, save_tags, tag_posts
from telegram_assistant.stages.vision_analysis import Vision, analyse_posts
from telegram_assistant.stores.postgres.budgets import Budgets, ModelResults
from telegram_assistant.stores.postgres.enrichment import Enrichments, Pictures, StoredPosts
from telegram_assistant.stores.postgres.interests import Interests
from telegram_assistant.stores.postgres.pages import Pages
from telegram_assistant.stores.postgres.pipeline import DeadLetters, Steps
from telegram_assistant.stores.postgres.search import SearchDocuments
from telegram_assistant.stores.postgres.upkeep import Upkeep
from telegram_assistant.wiring.models import (
    model_budget,
    models_config,
    open_graph,
    open_media_store,
    open_saver,
    open_vectors,
    place_of_indexes,
)
from telegram_assistant.wiring.runtime import Runtime

STAND_BY_SECONDS = 5.0
REEMBED_TTL = 300.0
PATIENCE = 300.0  # seconds without progress after which a stage counts as stuck

STAGE = Rule(within=200.0, what="has finished nothing", remedy="mend what the error says; it goes on by itself")
MODELS_AWAY = "posts wait for it and go on by themselves; look at that server, or at the AI_… settings"


class Stores:
    """The tables of the pipeline."""

    def __init__(self, database: AsyncEngine) -> None:
        self.stored_posts = StoredPosts(database)
        self.enrichments = Enrichments(database)
        self.pages = Pages(database)
        self.pictures = Pictures(database)
        self.budgets = Budgets(database)
        self.steps = Steps(database)
        self.letters = DeadLetters(database)
        self.documents = SearchDocuments(database)


@dataclass(frozen=True)
class Pipeline:
    """What the stages work with, for other roles of the same process: embedded indexes belong to one process."""

    indexes: Indexes
    models: Models


async def start_worker(runtime: Runtime) -> Pipeline:
    """Build and start every stage."""
    stores = Stores(runtime.database)
    local = LocalVision(find_trained_data(runtime.settings.tessdata_prefix), nsfw=runtime.settings.vision_nsfw_enabled)
    runtime.stack.push_async_callback(local.close)
    budget = model_budget(runtime.settings, runtime.database, runtime.clock)
    models = build_models(models_config(runtime.settings), local, budget)
    runtime.stack.push_async_callback(models.close)
    models = models.cached(ModelResults(runtime.database))
    indexes = _indexes(runtime, stores, models)
    albums = _albums(runtime, stores)
    observer = Observer(runtime.redis, list(groups()), EVENTS, stores.letters.counts)
    await runtime.start_task("pipeline", observer.run, patience=PATIENCE)
    handlers = _handlers(runtime, stores, models, _vision(runtime, stores, models, local))
    handlers |= _index_handlers(indexes, albums, open_saver(runtime))
    name = f"{runtime.settings.hostname}-{uuid4().hex[:8]}"
    times = ConsumerTimes.with_lease(runtime.settings.worker_lease_sec)
    consumers = {
        stage.name: Consumer(
            runtime.redis,
            stage,
            name=name,
            letters=stores.letters,
            steps=stores.steps,
            times=times,
            freshness=runtime.freshness,
        )
        for stage in _stages(handlers)
    }
    for consumer in consumers.values():
        runtime.stack.push_async_callback(consumer.close)
    index_upkeep = await _start_index_upkeep(runtime, stores, indexes)
    # Together: each finishes what it has in hand, so a stop does not wait for nine in turn.
    runtime.stack.push_async_callback(runtime.supervisor.stop_together, list(consumers))
    for stage_name, consumer in consumers.items():
        run = partial(_when_admitted, index_upkeep, consumer.run) if stage_name == names.INDEXING else consumer.run
        await runtime.supervisor.start(stage_name, run, patience=PATIENCE)
    deadlines = partial(keep_deadlines, albums=albums, publisher=Publisher(runtime.redis))
    await runtime.start_task("album_deadlines", deadlines, patience=PATIENCE)
    lock = Lock(runtime.redis, names.REEMBED_LOCK, name, ttl=REEMBED_TTL, monotonic=asyncio.get_running_loop().time)
    reembedding = Reembedding(indexes, stores.stored_posts, lock)
    await runtime.start_task("reembedding", reembedding.run, patience=PATIENCE)
    runtime.health.sections["reembedding"] = reembedding.report
    upkeep = SearchUpkeep(indexes.texts, stores.documents, indexes.entries)
    await runtime.start_task("search_upkeep", upkeep.run, patience=PATIENCE)
    reconciler = Reconciler(Upkeep(runtime.database), runtime.redis, list(groups()))
    await runtime.start_task("reconciler", reconciler.run, patience=PATIENCE)
    runtime.health.sections["reconciler"] = reconciler.report
    if "relay" not in runtime.supervisor.tasks:
        saver = open_saver(runtime)
        pressure = Pressure(runtime.redis, groups(), most_mb=runtime.settings.streams_max_mb)
        relay = Relay(runtime.database, Publisher(runtime.redis), saver.committed, pressure)
        await runtime.start_task("relay", relay.run, patience=PATIENCE)
    _report(runtime, observer, models, local, budget)
    return Pipeline(indexes, models)


def _report(runtime: Runtime, observer: Observer, models: Models, local: LocalVision, budget: ModelBudget) -> None:
    async def stages() -> dict[str, Any]:
        found = await observer.report()
        for stage, one in found.items():
            waits = one["behind"] + one["tried_again_later"]
            runtime.freshness.watch("stage", stage, replace(STAGE, cost=f"{waits} entries of posts wait for it"))
        late = [stage for stage, one in found.items() if one["status"] != "ok"]
        error = f"behind for more than ten minutes: {', '.join(late)}" if late else None
        return {"status": "late" if late else "ok", "error": error, "stages": found}

    async def abilities() -> dict[str, Any]:
        troubles = models.troubles()
        told = [f"{ability}: {trouble}" for ability, trouble in troubles.items()]
        error = "; ".join([*told, MODELS_AWAY]) if told else None
        status = "failing" if troubles else "ok"
        # A limit that is reached is a wish of the operator: it is told, and nothing is restarted.
        return {"status": status, "error": error, "budget": await budget.report(), "vision": local.status()}

    runtime.health.sections["pipeline"] = stages
    runtime.health.sections["models"] = abilities


async def _start_index_upkeep(runtime: Runtime, stores: Stores, indexes: Indexes) -> IndexUpkeep:
    place = place_of_indexes(runtime.settings, runtime.folder.path)
    upkeep = IndexUpkeep(Upkeep(runtime.database), indexes, stores.stored_posts, stores.steps, place)
    runtime.stack.push_async_callback(upkeep.release)
    await runtime.start_task("index_upkeep", upkeep.run, patience=PATIENCE)
    runtime.health.sections["indexes"] = upkeep.report
    return upkeep


def _indexes(runtime: Runtime, stores: Stores, models: Models) -> Indexes:
    vectors = open_vectors(runtime.settings, runtime.folder.path)
    runtime.stack.push_async_callback(vectors.close)
    graph = open_graph(runtime.settings, runtime.folder.path)
    runtime.stack.push_async_callback(graph.close)
    entries = EntryReader(stores.stored_posts, stores.enrichments, stores.pages, stores.pictures)
    texts = TextIndex(stores.documents, Lexicon(Inflection()))
    return Indexes(vectors, graph, texts, models.embedder, entries, runtime.clock, stores.budgets)


def _albums(runtime: Runtime, stores: Stores) -> Albums:
    summaries = AlbumSummaries(stores.stored_posts, stores.enrichments, stores.pictures)
    return Albums(runtime.redis, summaries, runtime.clock)


def _vision(runtime: Runtime, stores: Stores, models: Models, local: LocalVision) -> Vision:
    settings = runtime.settings
    remote = None if models_config(settings).describe is Provider.LOCAL else models.describer
    return Vision(
        local=local,
        remote=remote,
        pictures=stores.pictures,
        store=open_media_store(runtime.settings, runtime.folder.path),
        policy=load_policy(settings.vision_policy_file),
        budgets=stores.budgets,
        clock=runtime.clock,
        at_once=settings.vision_max_concurrency,
    )


def _crawling(runtime: Runtime, stores: Stores, allow: Allowance) -> Crawling:
    settings = runtime.settings
    budgets = BudgetLimits(
        per_tenant_day=settings.crawl_per_tenant_day,
        per_site_hour=settings.crawl_per_domain_hour,
        pause_seconds=settings.crawl_pause_sec,
    )
    our_hosts = {host for host, _ in allow}
    budget = CrawlBudget(stores.budgets, runtime.redis, limits=budgets, clock=runtime.clock, our_hosts=our_hosts)
    limits = Limits(total_seconds=settings.crawl_timeout_sec)
    fetcher = Fetcher(
        agent=user_agent(__version__, settings.crawl_contact),
        limits=limits,
        allow=allow,
        resolve=leave_to_proxy if settings.web_proxy and settings.proxy_resolves_names else ask_system,
        network=network_through(settings.web_proxy),
    )
    robots = Robots(fetcher, clock=runtime.clock)
    pool = Crawl4aiPool() if settings.crawl_reader == "crawl4ai" else Pool(worker_command("trafilatura"))
    reader = WebReader(fetcher, robots, pool, clock=runtime.clock, manners=budget, allow=allow)
    runtime.stack.push_async_callback(reader.close)
    return Crawling(reader, stores.pages, budget, runtime.clock)


async def _when_admitted(upkeep: IndexUpkeep, run: Job, task: Task) -> None:
    """An embedded index belongs to one process and one folder; the others stand by, and take over when that ends."""
    task.ready()
    while not upkeep.admitted.is_set():
        with suppress(TimeoutError):
            async with asyncio.timeout(STAND_BY_SECONDS):
                await upkeep.admitted.wait()
        task.progress()
    await run(task)


def _handlers(runtime: Runtime, stores: Stores, models: Models, vision: Vision) -> dict[str, dict[str, Handler]]:
    """By stage and event: the functions with what they need."""
    settings, clock, stored_posts = runtime.settings, runtime.clock, stores.stored_posts
    allow: Allowance = runtime.crawl_allowed or NO_HOSTS
    tagging = Tagging(models.tagger, stores.budgets, clock, min_chars=settings.tagging_min_chars)
    crawling = _crawling(runtime, stores, allow)
    rules = load_rules(settings.crawl_rules_file)
    retag = partial(retag_posts, tagging=tagging, stored_posts=stored_posts, pictures=stores.pictures)
    look = partial(analyse_posts, vision=vision, stored_posts=stored_posts, enrichments=stores.enrichments)
    return {
        names.VISION_ANALYSIS: {names.POSTS_PARSED: look, names.MEDIA_SETTLED: look},
        names.TAGGING: {names.POSTS_PARSED: partial(tag_posts, tagging=tagging)},
        names.RETAGGING: {names.POSTS_VISION_ANALYZED: retag, names.POSTS_RETAG: retag},
        names.TAG_PERSISTENCE: {names.POSTS_TAGGED: partial(save_tags, enrichments=stores.enrichments)},
        names.CRAWL_TRIGGER: {
            names.POSTS_TAGGED: partial(
                trigger_crawls,
                rules=rules,
                stored_posts=stored_posts,
                pages=stores.pages,
                clock=clock,
                interests=Interests(runtime.database),
                allow=allow,
            )
        },
        names.ENRICHMENT: {names.POSTS_CRAWL: partial(enrich_posts, crawling=crawling)},
    }


def _index_handlers(indexes: Indexes, albums: Albums, saver: Saver) -> dict[str, dict[str, Handler]]:
    save = partial(save_posts, texts=indexes.texts, entries=indexes.entries, saver=saver)
    return {
        names.POST_PERSISTENCE: {names.POSTS_PARSED: save},
        names.INDEXING: {
            names.POSTS_ENRICHED: partial(index_posts, indexes=indexes),
            names.POSTS_VISION_ANALYZED: partial(index_seen, indexes=indexes),
            names.ALBUM_ASSEMBLED: partial(index_albums, indexes=indexes),
            names.POSTS_DELETED: partial(unindex_posts, indexes=indexes),
        },
        names.ALBUM_ASSEMBLER: {
            names.ALBUMS_PARSED: partial(begin_albums, albums=albums),
            names.POSTS_VISION_ANALYZED: partial(follow_items, albums=albums),
        },
    }


def _stages(handlers: Mapping[str, Mapping[str, Handler]]) -> list[Stage]:
    return [
        Stage(name=name, handlers=found, batch=ROWS[name].batch, concurrency=ROWS[name].at_once)
        for name, found in handlers.items()
    ]


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
    entries = EntryReader(StoredPosts(database), Enrichments(database), Pages(database), Pictures(database))
    texts = TextIndex(SearchDocuments(database), Lexicon(Inflection()))
    return Indexes(vectors, graph, texts, embedder, entries, runtime.clock)


async def configured_model(settings: Settings) -> Model:
    """What makes the vectors, by the settings."""
    models = build_models(models_config(settings), LocalVision(None, nsfw=False))
    try:
        return Model(str(models.embedder.identity), models.embedder.size)
    finally:
        await models.close()
