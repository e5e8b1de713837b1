"""An English question to Russian posts, by words alone."""

from __future__ import annotations

import pytest

from telegram_assistant.search.service import Search
from tests.integration.search.archive import SYSTEM, Archive

pytestmark = pytest.mark.integration


@pytest.fixture
async def archive(archive: Archive) -> Archive:
    await archive.post(1, "Цены на кофе растут из-за плохого урожая в Бразилии", language="ru")
    await archive.post(2, "Кубок по шахматам выиграл школьник", language="ru")
    await archive.post(3, "Coffee is cheap again", language="en")
    await archive.documents.count_terms()
    return archive


@pytest.mark.usefixtures("archive")
async def test_english_words_find_russian_posts(search: Search) -> None:
    results = await search.search(SYSTEM, "bad harvest in Brazil")
    assert [hit.post.message_id for hit in results.hits] == [1]
    assert results.notes == ()


@pytest.mark.usefixtures("archive")
async def test_what_is_insisted_on_is_not_translated(search: Search) -> None:
    assert [hit.post.message_id for hit in (await search.search(SYSTEM, "+coffee")).hits] == [3]
