"""A search by words over the archive."""

from __future__ import annotations

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.language.lexemes import Lexicon
from telegram_assistant.search.service import Search
from telegram_assistant.wiring.models import open_search
from telegram_assistant.wiring.runtime import utc_now


@pytest.fixture
def search(database: AsyncEngine, lexicon: Lexicon) -> Search:
    return open_search(database, clock=utc_now, lexicon=lexicon)
