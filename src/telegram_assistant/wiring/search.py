"""Search, wired: for the commands, and for every role that lets people search."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime

from redis.asyncio import Redis
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.access import owners_for
from telegram_assistant.ingest.lock import Lock
from telegram_assistant.language.inflection import Inflection
from telegram_assistant.language.lexemes import Lexicon
from telegram_assistant.names import ALERTS_LOCK
from telegram_assistant.search.alerts import LOCK_TTL, Alerts, Webhooks
from telegram_assistant.search.planning import Meaning, Planner
from telegram_assistant.search.service import Search
from telegram_assistant.stores.postgres.saved_searches import SavedSearches, SearchAlerts
from telegram_assistant.stores.postgres.search import SearchDocuments
from telegram_assistant.stores.postgres.visible_posts import VisiblePosts
from telegram_assistant.stores.sealed import Sealer


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


def open_alerts(
    database: AsyncEngine,
    redis: Redis,
    sealer: Sealer,
    webhooks: Webhooks,
    *,
    owner: str,
    lexicon: Lexicon | None = None,
) -> Alerts:
    """`owner`: this process, for the lock. To be called where an event loop runs."""
    documents, posts = SearchDocuments(database), VisiblePosts(database)
    return Alerts(
        SavedSearches(database),
        SearchAlerts(database),
        documents,
        posts,
        Planner(documents, posts, lexicon or Lexicon(Inflection())),
        webhooks,
        sealer,
        redis,
        Lock(redis, ALERTS_LOCK, owner, ttl=LOCK_TTL, monotonic=asyncio.get_running_loop().time),
    )
