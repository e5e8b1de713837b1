"""An archive with two channels that the system's own tenant watches, and a search by words over it."""

from __future__ import annotations

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.ai.inflection import Inflection
from telegram_assistant.runtime import utc_now
from telegram_assistant.search.lexemes import Lexicon
from telegram_assistant.search.role import open_search
from telegram_assistant.search.service import Search
from tests.integration.search.archive import NEWS, SPORT, SYSTEM, Archive


@pytest.fixture(scope="session")
def lexicon() -> Lexicon:
    return Lexicon(Inflection())


@pytest.fixture
async def archive(database: AsyncEngine, lexicon: Lexicon) -> Archive:
    made = Archive(database, lexicon)
    await made.channel(NEWS, "daily_news", SYSTEM)
    await made.channel(SPORT, "sport", SYSTEM)
    return made


@pytest.fixture
def search(database: AsyncEngine, lexicon: Lexicon) -> Search:
    return open_search(database, clock=utc_now, lexicon=lexicon)
