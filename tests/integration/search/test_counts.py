"""What is counted is what one gets: facets by clicking through them, offers where nothing was found."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.query import has_filter, with_filter
from telegram_assistant.domain.results import Results, Sort
from telegram_assistant.language.lexemes import Lexicon
from telegram_assistant.search.service import Search
from telegram_assistant.wiring.models import open_search
from tests.integration.search.archive import NEWS, POSTED, SPORT, SYSTEM, Archive

pytestmark = pytest.mark.integration

TOLD = (
    "Международный уголовный суд выдал ордер на арест премьера и бывшего министра обороны за предполагаемые военные"
    " преступления, сообщили в суде. Решение приняли трое судей единогласно."
)
QUERIES = (
    "",
    "суд",
    "нефть",
    "цены нефть суд",
    "topic:economy",
    "нефть OR суд",
    "has:photo нефть",
    "цены на нефть сегодня",
)


def numbers(results: Results) -> list[int]:
    return [hit.post.message_id for hit in results.hits]


@pytest.fixture
async def archive(archive: Archive) -> Archive:
    await archive.post(1, TOLD, language="ru", tags=("суд", "война"), topics=("politics",), has=("photo",))
    await archive.post(1, TOLD, channel=SPORT, language="ru", tags=("суд",), topics=("world",), has=("link",))
    await archive.post(2, TOLD, channel=SPORT, language="uk", has=("link", "photo"), when=1)
    for number in range(10, 16):
        await archive.post(
            number,
            f"Цены на нефть марки {number} изменились",
            channel=SPORT if number % 2 else NEWS,
            language="ru" if number % 3 else "en",
            tags=("нефть", "c (plus)", f"метка {number % 3}"),
            topics=("economy", "energy") if number % 2 else ("economy",),
            has=("photo",) if number < 13 else (),
            when=number,
        )
    await archive.documents.count_terms()
    return archive


@pytest.mark.usefixtures("archive")
@pytest.mark.parametrize("sort", list(Sort))
async def test_a_facet_counts_what_clicking_it_gives(search: Search, sort: Sort) -> None:
    clicked = 0
    for query in QUERIES:
        results = await search.search(SYSTEM, query, sort=sort, limit=100)
        assert results.found == len(results.hits), query
        for kind in fields(results.facets):
            for facet in getattr(results.facets, kind.name):
                value = facet.name or facet.value
                if not has_filter(query, kind.name, value):
                    narrowed = await search.search(SYSTEM, with_filter(query, kind.name, value), sort=sort, limit=100)
                    assert narrowed.found == facet.posts == len(narrowed.hits), (query, kind.name, value)
                    clicked += 1
    assert clicked > 50


@pytest.mark.usefixtures("archive")
async def test_every_page_tells_the_same_counts(search: Search) -> None:
    first = await search.search(SYSTEM, "нефть", limit=2)
    assert first.cursor is not None
    second = await search.search(SYSTEM, "нефть", limit=2, cursor=first.cursor)
    assert second.counted == first.counted
    assert first.found == 6


@pytest.mark.usefixtures("archive")
async def test_where_nothing_is_found_other_queries_are_offered(search: Search) -> None:
    async def offered(query: str, sort: Sort = Sort.BEST) -> dict[str, tuple[str, int]]:
        results = await search.search(SYSTEM, query, sort=sort)
        assert results.hits == (), query
        for offer in results.offers:
            assert (await search.search(SYSTEM, offer.query, sort=sort)).found == offer.found, offer
        return {offer.without: (offer.query, offer.found) for offer in results.offers}

    assert await offered("нефть lang:uk") == {"lang:uk": ("нефть", 6)}
    assert await offered("нефть lang:uk", Sort.NEWEST) == {"lang:uk": ("нефть", 6)}
    assert await offered("нефть lang:uk has:photo") == {"lang:uk": ("нефть has:photo", 3)}
    assert await offered("нефть lang:fr has:voice") == {"lang:fr has:voice": ("нефть", 6)}
    assert await offered("+нефтть") == {"": ("+нефть", 6)}
    assert await offered('"цены на нефтть" has:photo') == {"": ('"цены на нефть" has:photo', 3)}
    assert await offered("lang:fr") == {}
    assert await offered("абракадабра lang:ru") == {}


async def test_what_is_new_counts_where_now_is_asked_for(
    archive: Archive, database: AsyncEngine, lexicon: Lexicon
) -> None:
    now = datetime(2026, 12, 1, tzinfo=UTC)
    days = (now - POSTED) / timedelta(days=1)
    await archive.post(20, "Доллар и курс доллара: курс вырос, доллар сегодня дорог")
    await archive.post(21, "Биржа открылась, курс доллара на утро изменился совсем немного", when=days - 0.2)
    await archive.documents.count_terms()
    search = open_search(database, clock=lambda: now, lexicon=lexicon)
    assert numbers(await search.search(SYSTEM, "курс доллара")) == [20, 21]
    for query in ("курс доллара сегодня", "какой курс доллара сейчас", "dollar latest курс доллара"):
        assert numbers(await search.search(SYSTEM, query))[0] == 21, query
    assert numbers(await search.search(SYSTEM, "курс доллара за последние годы"))[0] == 20
    page = await search.search(SYSTEM, "курс доллара сегодня", limit=1)
    assert page.cursor is not None
    assert numbers(await search.search(SYSTEM, "курс доллара сегодня", limit=1, cursor=page.cursor)) == [20]
