"""The `api` role: the API and the pages, with the indexes of the pipeline where that runs in the same process."""

from __future__ import annotations

import socket
from dataclasses import replace
from functools import partial

from telegram_assistant.access.credentials import open_signer
from telegram_assistant.access.service import Access
from telegram_assistant.ai.providers import Models, build_models
from telegram_assistant.ai.vision.describer import LocalVision
from telegram_assistant.ai.vision.ocr import find_trained_data
from telegram_assistant.bus.observer import Sampler
from telegram_assistant.http.app import make_app
from telegram_assistant.http.serving import serve
from telegram_assistant.index.cypher_graph import Graph
from telegram_assistant.index.vectors import Vectors
from telegram_assistant.jobs import EMERGING, INTERESTS, STORAGE_USAGE, TRENDS, Work
from telegram_assistant.jobs.digests import Delivery, open_digest_maker
from telegram_assistant.jobs.interests import Advisor, sync_interests
from telegram_assistant.jobs.storage import measure, report
from telegram_assistant.jobs.trends import daily_trends, emerging_trends
from telegram_assistant.search.ask import Asking
from telegram_assistant.search.planning import Meaning
from telegram_assistant.services.live import make_feed
from telegram_assistant.services.media_links import Thumbnails
from telegram_assistant.services.services import Senders, Services
from telegram_assistant.stages import groups
from telegram_assistant.stores.postgres.budgets import ModelResults
from telegram_assistant.stores.postgres.media import Evictions
from telegram_assistant.stores.postgres.pipeline import DeadLetters
from telegram_assistant.stores.postgres.storage import Storage, StorageUsage
from telegram_assistant.wiring.connecting import open_connect_desk
from telegram_assistant.wiring.importing import open_import_desk
from telegram_assistant.wiring.jobs import open_alerts, open_places, start_alerting, start_jobs
from telegram_assistant.wiring.models import (
    model_budget,
    models_config,
    open_graph,
    open_media_store,
    open_search,
    open_vectors,
)
from telegram_assistant.wiring.runtime import Runtime
from telegram_assistant.wiring.worker import Pipeline

LIVE_PATIENCE = 60.0  # seconds without a sign after which the task counts as stuck
PATIENCE = 180.0
APART = "the vector index is embedded and belongs to another process: set QDRANT_URL, or run tga up"


async def start_api(runtime: Runtime, listener: socket.socket, address: str, pipeline: Pipeline | None) -> Services:
    """Serve, and say where the first admin chooses a password while there is none."""
    services = _with_what_the_api_needs(runtime, build_services(runtime, pipeline))
    assert services.connecting is not None  # noqa: S101 - made in the line above
    assert services.imports is not None  # noqa: S101 - see above
    await runtime.start_task("telegram_login", services.connecting.run)
    await runtime.start_task("imports", services.imports.run)
    await runtime.start_task("api", partial(serve, make_app(services), listener))
    await _start_live(runtime, services)
    await _start_saved_searches(runtime, services)
    await start_alerting(runtime, services)
    runtime.health.sections["storage"] = partial(report, _storage(services))
    await start_jobs(runtime, services, work=_work(services), deliveries=_deliveries(runtime, services))
    token = await services.access.first_link()
    if token:
        runtime.welcome = f"{runtime.settings.api_public_url or address}/welcome?token={token}"
    return services


def build_services(runtime: Runtime, pipeline: Pipeline | None) -> Services:
    models = pipeline.models if pipeline else _models(runtime)
    vectors = pipeline.indexes.vectors if pipeline else _vectors(runtime)
    graph = pipeline.indexes.graph if pipeline else _graph(runtime)
    media = open_media_store(runtime.settings, runtime.folder.path)
    runtime.health.engines.setdefault("media", media.answers)
    search = open_search(
        runtime.database,
        clock=runtime.clock,
        meaning=Meaning(vectors, models.embedder) if vectors else None,
        why_without="" if vectors else APART,
    )
    return Services(
        settings=runtime.settings,
        database=runtime.database,
        redis=runtime.redis,
        clock=runtime.clock,
        health=runtime.health,
        access=Access(runtime.database, runtime.redis, runtime.clock),
        signer=open_signer(runtime.settings, runtime.folder),
        search=search,
        asking=Asking(search, models.answerer, seconds=runtime.settings.ai_timeout_sec),
        graph=graph,
        media=media,
        digests=open_digest_maker(
            runtime.settings,
            runtime.database,
            runtime.clock,
            answerer=pipeline.models.answerer if pipeline else None,  # a language model that writes, if there is one
            interests=Advisor(runtime.database, runtime.clock),
        ),
    )


def _with_what_the_api_needs(runtime: Runtime, services: Services) -> Services:
    places, sealer = open_places(runtime.settings, runtime.clock), runtime.sealer()
    sampler = Sampler(
        runtime.redis,
        groups(),
        DeadLetters(runtime.database).counts,
        runs_here=lambda stage: stage in runtime.supervisor.tasks,
    )
    thumbnails = Thumbnails(services.media)
    runtime.stack.push_async_callback(thumbnails.close)
    return replace(
        services,
        senders=Senders(places, sealer),
        sampler=sampler,
        live=make_feed(runtime.redis, runtime.database, sampler),
        thumbnails=thumbnails,
        connecting=open_connect_desk(runtime),
        imports=open_import_desk(runtime),
    )


def _models(runtime: Runtime) -> Models:
    settings = runtime.settings
    vision = LocalVision(find_trained_data(settings.tessdata_prefix), nsfw=False)
    runtime.stack.push_async_callback(vision.close)
    budget = model_budget(settings, runtime.database, runtime.clock)
    models = build_models(models_config(settings), vision, budget)
    runtime.stack.push_async_callback(models.close)
    return models.cached(ModelResults(runtime.database))


def _vectors(runtime: Runtime) -> Vectors | None:
    """Only a server: an embedded index would be taken away from the worker."""
    if not runtime.settings.qdrant_url:
        return None
    vectors = open_vectors(runtime.settings, runtime.folder.path)
    runtime.stack.push_async_callback(vectors.close)
    return vectors


def _graph(runtime: Runtime) -> Graph | None:
    if not runtime.settings.neo4j_url:
        return None
    graph = open_graph(runtime.settings, runtime.folder.path)
    runtime.stack.push_async_callback(graph.close)
    return graph


def _deliveries(runtime: Runtime, services: Services) -> list[Delivery]:
    """Ways for digests besides e-mail."""
    if runtime.settings.telegram_bot_token is None:
        return []
    from telegram_assistant.bot.alerts import BotWay  # noqa: PLC0415 - its library takes seconds to load
    from telegram_assistant.wiring.bot import open_delivery  # noqa: PLC0415 - see above

    delivery = open_delivery(services)
    if delivery is None:
        return []
    runtime.stack.push_async_callback(delivery.close)
    return [BotWay(delivery)]


def _work(services: Services) -> dict[str, Work]:
    """What the jobs do; digests bring their own."""
    database, settings = services.database, services.settings
    work: dict[str, Work] = {
        TRENDS: daily_trends(database),
        EMERGING: emerging_trends(database),
        STORAGE_USAGE: measure(
            _storage(services),
            StorageUsage(database),
            Evictions(database),
            services.media,
            clock=services.clock,
            evict_after_days=settings.storage_evict_after_days,
        ),
    }
    if services.graph is not None:
        work[INTERESTS] = sync_interests(database, services.graph)
    return work


def _storage(services: Services) -> Storage:
    return Storage(services.database, default_mb=services.settings.storage_quota_mb)


async def _start_saved_searches(runtime: Runtime, services: Services) -> None:
    """They tell what is new."""
    assert services.senders is not None  # noqa: S101 - see above: the API has them
    sealer, webhooks = services.senders.sealer, services.senders.places.webhooks
    alerts = open_alerts(runtime.database, runtime.redis, sealer, webhooks, owner=runtime.settings.hostname)
    await runtime.start_task("alerts", alerts.run, patience=PATIENCE)


async def _start_live(runtime: Runtime, services: Services) -> None:
    """After the server was started: so the feed is stopped first, and open connections do not hold that up."""
    assert services.sampler is not None  # noqa: S101 - see above
    assert services.live is not None  # noqa: S101 - see above
    await runtime.start_task("stage_samples", services.sampler.run, patience=LIVE_PATIENCE)
    await runtime.start_task("live_events", services.live.run, patience=LIVE_PATIENCE)
