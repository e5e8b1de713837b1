"""Search, wired: for the commands, and for every role that lets people search."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.ai.inflection import Inflection
from telegram_assistant.search.lexemes import Lexicon
from telegram_assistant.search.meaning import Meaning
from telegram_assistant.search.service import Search
from telegram_assistant.stores.postgres.search import SearchDocuments
from telegram_assistant.stores.postgres.search_posts import SearchPosts
from telegram_assistant.stores.postgres.tables import SYSTEM_TENANT


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
        SearchPosts(database),
        lexicon or Lexicon(Inflection()),
        clock=clock,
        owners=owners_for,
        meaning=meaning,
        why_without=why_without,
    )


def owners_for(tenant_id: UUID) -> list[UUID]:
    """Public channels are in the indexes of the system, private ones in those of their tenant."""
    return list(dict.fromkeys((UUID(SYSTEM_TENANT), tenant_id)))
