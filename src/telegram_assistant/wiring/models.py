"""Models, indexes, search and files as the settings say; nothing is connected before it is needed."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path

from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.ai.providers import (
    GIGACHAT_DEFAULTS,
    OPENAI_DEFAULTS,
    ModelsConfig,
    Provider,
    RemoteConfig,
)
from telegram_assistant.ai.remote.connections import GigaChatAccount, OpenAiServer
from telegram_assistant.ai.spend import ModelBudget, ModelLimits, Price
from telegram_assistant.config import Settings
from telegram_assistant.domain.access import owners_for
from telegram_assistant.domain.media_rules import MEGABYTE, MediaDecision, MediaRules, decide
from telegram_assistant.domain.post import Media, MediaKind
from telegram_assistant.index.cypher_graph import Graph
from telegram_assistant.index.vectors import Vectors
from telegram_assistant.ingest.saver import Saver
from telegram_assistant.language.inflection import Inflection
from telegram_assistant.language.lexemes import Lexicon
from telegram_assistant.search.planning import Meaning
from telegram_assistant.search.service import Search
from telegram_assistant.stores.media import MediaStore, S3Access
from telegram_assistant.stores.postgres.budgets import Budgets, ModelUsage
from telegram_assistant.stores.postgres.search import SearchDocuments
from telegram_assistant.stores.postgres.visible_posts import VisiblePosts
from telegram_assistant.wiring.runtime import Runtime


def models_config(settings: Settings) -> ModelsConfig:
    """What `ai.providers` needs, from the settings."""
    return ModelsConfig(
        tag=Provider(settings.ai_tag_provider),
        describe=Provider(settings.ai_vision_provider),
        embed=Provider(settings.ai_embed_provider),
        answer=Provider(settings.ai_answer_provider),
        topics_file=settings.ai_topics_file,
        gigachat_account=_gigachat(settings),
        gigachat=_remote(
            settings,
            GIGACHAT_DEFAULTS,
            settings.gigachat_model,
            settings.gigachat_vision_model,
            (settings.gigachat_embedding_model, settings.gigachat_embedding_size),
        ),
        openai_server=_openai(settings),
        openai=_remote(
            settings,
            OPENAI_DEFAULTS,
            settings.openai_model,
            settings.openai_vision_model,
            (settings.openai_embedding_model, settings.openai_embedding_size),
        ),
    )


def model_budget(settings: Settings, database: AsyncEngine, clock: Callable[[], datetime]) -> ModelBudget:
    """What the remote models of all processes share."""
    limits = ModelLimits(
        tokens_per_day=settings.model_tokens_per_day,
        vision_per_day=settings.vision_tokens_per_day,
        vision_at_once=settings.vision_max_concurrency,
    )
    return ModelBudget(Budgets(database), ModelUsage(database, clock), limits, clock=clock)


def _gigachat(settings: Settings) -> GigaChatAccount | None:
    if settings.gigachat_credentials is None:
        return None
    account = GigaChatAccount(
        credentials=settings.gigachat_credentials.get_secret_value(),
        scope=settings.gigachat_scope,
        timeout=settings.ai_timeout_sec,
        ca_file=settings.gigachat_ca_file or settings.tls_ca_file,
    )
    return replace(
        account,
        base_url=settings.gigachat_base_url or account.base_url,
        auth_url=settings.gigachat_auth_url or account.auth_url,
    )


def _openai(settings: Settings) -> OpenAiServer | None:
    if settings.openai_base_url is None:
        return None
    key = settings.openai_api_key
    return OpenAiServer(
        base_url=settings.openai_base_url,
        api_key=key.get_secret_value() if key else "",
        timeout=settings.ai_timeout_sec,
        ca_file=settings.openai_ca_file or settings.tls_ca_file,
    )


def _remote(
    settings: Settings, defaults: RemoteConfig, model: str, vision_model: str, embedding: tuple[str, int]
) -> RemoteConfig:
    return replace(
        defaults,
        model=model,
        vision_model=vision_model,
        embedding_model=embedding[0],
        embedding_size=embedding[1],
        price=Price(settings.ai_price_per_1k_in, settings.ai_price_per_1k_out),
    )


def open_vectors(settings: Settings, folder: Path) -> Vectors:
    """A Qdrant server where one is configured, else its embedded brother in the data folder."""
    if settings.qdrant_url:
        from telegram_assistant.index.qdrant_vectors import QdrantVectors  # noqa: PLC0415 - heavy, and seldom used

        key = settings.qdrant_api_key
        return QdrantVectors.connect(
            settings.qdrant_url, key.get_secret_value() if key else None, ca_file=settings.tls_ca_file
        )
    from telegram_assistant.index.edge_vectors import EdgeVectors  # noqa: PLC0415 - heavy

    return EdgeVectors(folder / "vectors")


def open_graph(settings: Settings, folder: Path) -> Graph:
    """A Neo4j server where one is configured, else Ladybug in the data folder."""
    if settings.neo4j_url:
        from telegram_assistant.index.neo4j_graph import Neo4jGraph  # noqa: PLC0415 - heavy, and seldom used

        password = settings.neo4j_password
        return Neo4jGraph(
            settings.neo4j_url,
            settings.neo4j_user,
            password.get_secret_value() if password else "",
            settings.neo4j_database,
            ca_file=settings.tls_ca_file,
        )
    from telegram_assistant.index.ladybug_graph import LadybugGraph  # noqa: PLC0415 - heavy

    return LadybugGraph(folder / "graph")


def place_of_indexes(settings: Settings, folder: Path) -> str:
    """Where they are: two workers with different answers would each hold a part of the posts."""
    here = f"{socket.gethostname()}:{folder.absolute()}"
    return f"vectors {settings.qdrant_url or here}, graph {settings.neo4j_url or here}"


def open_search(
    database: AsyncEngine,
    *,
    clock: Callable[[], datetime],
    meaning: Meaning | None = None,
    why_without: str = "",
    lexicon: Lexicon | None = None,
) -> Search:
    """An embedded vector index belongs to one process: give the one that indexing has, or say why there is none."""
    return Search(
        SearchDocuments(database),
        VisiblePosts(database),
        lexicon or Lexicon(Inflection()),
        clock=clock,
        owners=owners_for,
        meaning=meaning,
        why_without=why_without,
    )


def media_rules_of(settings: Settings) -> MediaRules:
    return MediaRules(
        kinds=frozenset(MediaKind(kind.strip()) for kind in settings.media_kinds.split(",")),
        picture_limit=settings.media_max_picture_mb * MEGABYTE,
        document_limit=settings.media_max_document_mb * MEGABYTE,
    )


def open_media_store(settings: Settings, folder: Path) -> MediaStore:
    secret = settings.media_s3_secret_access_key
    access = S3Access(
        endpoint=settings.media_s3_endpoint,
        region=settings.media_s3_region,
        access_key_id=settings.media_s3_access_key_id,
        secret_access_key=secret.get_secret_value() if secret else None,
        ca_file=settings.tls_ca_file,
    )
    return MediaStore.open(settings.media_url or folder / "media", s3=access)


def open_saver(runtime: Runtime, decide_media: Callable[[Media], MediaDecision] | None = None) -> Saver:
    rules = media_rules_of(runtime.settings)
    return Saver(
        runtime.database,
        clock=runtime.clock,
        decide_media=decide_media or partial(decide, rules=rules),
        retention=runtime.settings.retention_deleted,
        keep_protected=runtime.settings.media_protected_enabled,
    )
