"""The `api` role: the API and the pages, with the indexes of the pipeline where that runs in the same process."""

from __future__ import annotations

import socket
from functools import partial

from telegram_assistant.access.service import Access
from telegram_assistant.access.signing import open_signer
from telegram_assistant.ai.local_vision import LocalVision
from telegram_assistant.ai.ocr import find_trained_data
from telegram_assistant.ai.providers import Models, build_models
from telegram_assistant.api.app import make_app
from telegram_assistant.api.beside import start_beside
from telegram_assistant.api.services import Services
from telegram_assistant.health import serve
from telegram_assistant.index.graph import Graph
from telegram_assistant.index.vectors import Vectors
from telegram_assistant.ingest.role import open_media_store
from telegram_assistant.runtime import Runtime
from telegram_assistant.search.ask import Asking
from telegram_assistant.search.meaning import Meaning
from telegram_assistant.search.role import open_search
from telegram_assistant.stages.models import model_budget, models_config, open_graph, open_vectors
from telegram_assistant.stages.role import Pipeline
from telegram_assistant.stores.postgres.models import ModelResults
from telegram_assistant.web.thumbnails import Thumbnails

APART = "the vector index is embedded and belongs to another process: set QDRANT_URL, or run tga up"


async def start_api(runtime: Runtime, listener: socket.socket, address: str, pipeline: Pipeline | None) -> Services:
    """Serve, and say where the first admin chooses a password while there is none."""
    services = build_services(runtime, pipeline)
    app = make_app(services)
    app.state.thumbnails = Thumbnails(services.media)
    runtime.stack.push_async_callback(app.state.thumbnails.close)
    await runtime.start_task("api", partial(serve, app, listener))
    await start_beside(runtime, app, services, pipeline.models.answerer if pipeline else None)
    token = await services.access.first_link()
    if token:
        runtime.welcome = f"{runtime.settings.api_public_url or address}/welcome?token={token}"
    return services


def build_services(runtime: Runtime, pipeline: Pipeline | None) -> Services:
    models = pipeline.models if pipeline else _models(runtime)
    vectors = pipeline.indexes.vectors if pipeline else _vectors(runtime)
    graph = pipeline.indexes.graph if pipeline else _graph(runtime)
    media = open_media_store(runtime)
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
