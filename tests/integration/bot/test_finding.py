"""Search in the bot: pages by buttons, the other order, saving; and in any chat."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from redis.asyncio import Redis

from telegram_assistant.bot.finding import INLINE_PER_PAGE, PER_PAGE
from telegram_assistant.stores.postgres.saved_searches import SavedSearches
from tests.integration.bot.bot_api import BotApi, Person

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("bot")]

Town = Any  # of a conftest.py, which cannot be imported
Link = Any
WORDS = ("apple", "bridge", "copper", "desert", "engine", "forest", "garden", "harbour", "island", "jungle", "kettle")


@pytest.fixture
async def many(town: Town) -> int:
    """Posts that are different stories."""
    for number, word in enumerate(WORDS, 1):
        await town.archive.post(number, f"Oil and the {word} number {number} in a tale of {word}s told at length.")
    return len(WORDS)


async def test_pages_are_turned_in_place(ann: Person, many: int) -> None:
    found = await ann.asks("/search oil")
    assert f"oil: {many} stories" in found.text
    assert not found.has_button("Back")
    pages = [found.links]
    for number in (2, 3):
        assert await ann.toast(await ann.presses(found, "Next")) == ""
        assert f"page {number}" in found.text
        pages.append(found.links)
    assert not found.has_button("Next")
    assert sum(map(len, pages)) == len({link for page in pages for link in page}) == many
    await ann.toast(await ann.presses(found, "Back"))
    assert found.links == pages[1]
    assert [len(page) for page in pages] == [PER_PAGE, PER_PAGE, 1]
    assert found.edits == 3


@pytest.mark.usefixtures("many")
async def test_the_other_order(ann: Person) -> None:
    found = await ann.asks("/search oil apple OR bridge")
    assert found.links[0] in ("https://t.me/daily_news/1", "https://t.me/daily_news/2")
    await ann.toast(await ann.presses(found, "Newest first"))
    assert found.links == ["https://t.me/daily_news/2", "https://t.me/daily_news/1"]
    assert found.has_button("Best first")


@pytest.mark.usefixtures("many")
async def test_the_query_language_and_its_remarks(ann: Person, bob: Person) -> None:
    assert "1 story" in (await ann.asks("/search oil +island")).text
    odd = await ann.asks("/search oil has:unicorn before:someday")
    assert "has:unicorn is not known" in odd.text
    assert "someday is no date" in odd.text
    assert "has:unicorn неизвестно" in (await bob.asks("/search oil has:unicorn")).text


@pytest.mark.usefixtures("many")
async def test_a_search_is_saved_by_a_button(ann: Person, town: Town) -> None:
    found = await ann.asks("/search oil +harbour")
    assert "Saved" in await ann.toast(await ann.presses(found, "Tell me of new ones"))
    saved = await SavedSearches(town.archive.database).of_user(town.admin.tenant_id, town.admin.user_id)
    assert [one.query for one in saved] == ["oil +harbour"]


@pytest.mark.usefixtures("many")
async def test_pages_are_only_for_whose_search_it_is(ann: Person, bob: Person, redis: Redis) -> None:
    found = await ann.asks("/search oil")
    data = found.button("Next")["callback_data"]
    theirs = await bob.asks("/menu")
    assert "устарело" in await bob.toast(await bob.sends_data(theirs, data))
    async for key in redis.scan_iter("bot:search:*"):
        await redis.delete(key)  # as a day would
    assert "too old" in await ann.toast(await ann.presses(found, "Next"))
    assert "page" not in found.text


async def test_search_in_any_chat(ann: Person, bob: Person, town: Town) -> None:
    for number in range(1, INLINE_PER_PAGE + 4):
        word = f"{WORDS[number % 11]}{number}"
        await town.archive.post(number, f"Oil & <gas> of {word}: {word} told {word} at length, {word} again {number}.")
    first = await ann.types("oil")
    assert first["personal"]
    assert len(first["results"]) == INLINE_PER_PAGE
    second = await ann.types("oil", first["next"])
    assert len(second["results"]) == 3
    assert second["next"] == ""
    ids = {one["id"] for one in (*first["results"], *second["results"])}
    assert len(ids) == INLINE_PER_PAGE + 3
    text = first["results"][0]["input_message_content"]["message_text"]
    assert "&lt;gas&gt;" in text
    assert '<a href="https://t.me/daily_news/' in text
    # Another tenant, another's page, and a page that never was.
    assert (await bob.types("oil"))["results"] == []
    assert (await bob.types("oil", first["next"]))["results"] == []
    assert (await ann.types("oil", "made:up"))["results"] == []
    assert len((await ann.types(""))["results"]) == INLINE_PER_PAGE


async def test_too_fast_is_told_once(ann: Person, api: BotApi) -> None:
    def told() -> int:
        return sum("Too fast" in one.text for one in api.spoken[ann.id])

    for _ in range(40):
        await ann.says("/nonsense")
    while not told():  # on a slow machine the thirty of a minute last for some more
        await asyncio.sleep(0.1)
        await ann.says("/nonsense")
    assert (await ann.types("oil"))["results"] == []  # has a limit of its own
    assert told() == 1
    assert len(api.spoken[ann.id]) >= 31
