"""Search through the API: pages that fit, remarks, and no query that breaks it."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

import msgspec
import pytest

from tests.integration.search.archive import SPORT
from tests.integration.search.test_search import ODD_QUERIES

pytestmark = pytest.mark.integration

Town = Any  # of conftest.py, which cannot be imported
ClientOf = Any
SEARCH = "/api/v1/search"
PRIVATE = 300


@pytest.fixture
async def posts(town: Town) -> None:
    await town.archive.post(1, "Цены на нефть стали расти", topics=("economy",), tags=("нефть",), language="ru")
    await town.archive.post(2, "<b>Нефть</b> <script>alert(1)</script>", has=("photo",), language="ru")
    await town.archive.post(3, "Спартак выиграл Кубок", channel=SPORT, marks=("edited",))
    await town.archive.post(4, "Нефть принадлежит тенанту Б", channel=PRIVATE)
    await town.archive.documents.count_terms()


@pytest.mark.usefixtures("posts")
async def test_what_is_found_has_all_that_a_page_needs(town: Town, client_of: ClientOf) -> None:
    answer = (await client_of(town.member).get(SEARCH, params={"q": "нефть"})).json()
    by_url = {hit["post"]["url"]: hit for hit in answer["items"]}
    assert set(by_url) == {"https://t.me/daily_news/1", "https://t.me/daily_news/2"}
    hit = by_url["https://t.me/daily_news/1"]
    [(start, end)] = hit["snippet"]["spans"]
    assert hit["snippet"]["text"][start:end] == "нефть"
    assert (hit["post"]["channel"], hit["by_words"], hit["tellers"]) == ("Daily_News", True, [])
    assert answer["facets"]["channels"] == [{"value": "@daily_news", "posts": 2, "title": "Daily_News"}]
    assert answer["facets"]["tags"] == [{"value": "нефть", "posts": 1, "title": ""}]
    assert (answer["found"], answer["next"], answer["notes"]) == (2, None, [])
    assert (answer["near"], answer["at_least"], answer["offers"]) == (0, False, [])
    empty = (await client_of(town.member).get(SEARCH, params={"q": "нефть lang:en has:photo"})).json()
    assert empty["offers"] == [{"query": "нефть has:photo", "found": 1, "without": "lang:en"}]
    foreign = (await client_of(town.member).get(SEARCH, params={"q": "принадлежит lang:en"})).json()
    assert foreign["offers"] == [], "what others have is not offered"


@pytest.mark.usefixtures("posts")
async def test_another_tenant_finds_its_own(town: Town, client_of: ClientOf) -> None:
    answer = (await client_of(town.other).get(SEARCH, params={"q": "нефть"})).json()
    assert [hit["post"]["channel_id"] for hit in answer["items"]] == [PRIVATE]
    assert [one["title"] for one in answer["facets"]["channels"]] == ["Secret_Of_B"]
    none = (await client_of(town.other).get(SEARCH, params={"q": "нефть channel:@daily_news"})).json()
    assert none["items"] == []
    assert none["notes"] == [
        {"kind": "no_such_channel", "value": "@daily_news", "text": "you have no channel @daily_news"}
    ]


async def test_pages_fit_together(town: Town, client_of: ClientOf) -> None:
    for number in range(1, 8):
        await town.archive.post(number, f"погода день{number}")
    client = client_of(town.member)
    seen: list[str] = []
    params = {"q": "погода", "limit": 3}
    while True:
        answer = (await client.get(SEARCH, params=params)).json()
        seen += [hit["post"]["url"] for hit in answer["items"]]
        if answer["next"] is None:
            break
        params["cursor"] = answer["next"]
    assert len(seen) == len(set(seen)) == 7
    wrong = await client.get(SEARCH, params={**params, "q": "снег"})
    assert wrong.status_code == 422
    assert wrong.headers["content-type"] == "application/problem+json"
    assert "cursor" in wrong.json()["detail"]


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59-14:00"])
@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
@pytest.mark.usefixtures("posts")
async def test_a_cursor_whose_times_were_changed_is_refused(
    town: Town, client_of: ClientOf, moment: str, zone: str
) -> None:
    client = client_of(town.member)
    params = {"q": "-погода after:2026-01-01 before:today", "limit": 1, "zone": zone}
    given = (await client.get(SEARCH, params=params)).json()["next"]
    asked, as_of, last, base = msgspec.json.decode(urlsafe_b64decode(given + "=" * (-len(given) % 4)))[:4]
    for parts in ([asked, moment, last, base], [asked, as_of, last, [moment, last[2]]]):
        forged = urlsafe_b64encode(msgspec.json.encode(parts)).decode()
        answer = await client.get(SEARCH, params={**params, "cursor": forged})
        assert answer.status_code == 422, parts
        assert "cursor" in answer.json()["detail"]


@pytest.mark.usefixtures("posts")
async def test_odd_queries_get_an_answer(town: Town, client_of: ClientOf) -> None:
    client = client_of(town.member)
    for query in ODD_QUERIES:
        answer = await client.get(SEARCH, params={"q": query.encode("utf-8", "replace").decode()})
        assert answer.status_code == 200, query
    raw = await client.get(f"{SEARCH}?q=%ff%fe%00%ED%A0%80&sort=newest")
    assert raw.status_code == 200


WRONG_VALUES: list[dict[str, Any]] = [
    {"limit": 0},
    {"limit": 10**30},
    {"sort": "worst"},
    {"zone": "Nowhere/City"},
    {"zone": "../etc/passwd"},
    {"cursor": "x" * 5_000},
    {"cursor": "\0"},
    {"q": "x" * 20_000},
]


async def test_wrong_values_are_told(town: Town, client_of: ClientOf, subtests: pytest.Subtests) -> None:
    for params in WRONG_VALUES:
        with subtests.test(params=params):
            answer = await client_of(town.member).get(SEARCH, params=params)
            assert answer.status_code == 422
            assert answer.json()["detail"]


async def test_nobody_else_searches(client_of: ClientOf) -> None:
    assert (await client_of().get(SEARCH)).status_code == 401


async def test_dates_are_meant_where_the_reader_is(town: Town, client_of: ClientOf) -> None:
    await town.archive.post(1, "полночь")  # on 2026-11-01 at 12:01 UTC
    client = client_of(town.member)
    for zone, found in (("UTC", 1), ("Pacific/Kiritimati", 0)):
        params = {"q": "after:2026-11-01 before:2026-11-02", "zone": zone}
        assert (await client.get(SEARCH, params=params)).json()["found"] == found, zone
