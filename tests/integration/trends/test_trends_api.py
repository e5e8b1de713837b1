"""`/api/v1/trends` and the page: lists, one with its posts, looking now, and strange input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import httpx
import pytest
from fastapi import FastAPI

from telegram_assistant.domain.trends import DAY
from telegram_assistant.jobs.trends import find_trends
from telegram_assistant.services.services import Services
from tests.integration.conftest import Town
from tests.integration.search.archive import SYSTEM
from tests.integration.trends.rising import CHANNELS, NOW, Past

pytestmark = pytest.mark.integration

Clients = Callable[..., httpx.AsyncClient]


@pytest.fixture
def app(services: Services, app_of: Callable[[Services], FastAPI]) -> FastAPI:
    """It is five minutes after the midnight of these tests."""
    return app_of(replace(services, clock=lambda: NOW + timedelta(minutes=5)))


@pytest.fixture
async def risen(past: Past, services: Services) -> Past:
    """Two trends of the last day, one of them of the day before too."""
    await past.rise("Атлантида", CHANNELS[:7], before=timedelta(hours=36))
    await past.rise("Атлантида", CHANNELS[2:9])
    await past.rise("<b>Лемурия</b>", CHANNELS[3:])
    for back in (1, 0):
        await find_trends(services.database, SYSTEM, NOW - back * DAY)
    return past


@pytest.mark.usefixtures("risen")
async def test_trends_are_listed_with_all_that_is_known(town: Town, client_of: Clients) -> None:
    client = client_of(town.member)
    listed = (await client.get("/api/v1/trends")).json()
    assert listed["next"] is None
    first, second = sorted(listed["items"], key=lambda one: one["main"]["key"], reverse=True)
    assert (first["main"]["key"], first["goes_on"], first["posts"]) == ("Атлантида", True, 14)
    assert (second["main"]["key"], second["goes_on"], second["posts"]) == ("<b>Лемурия</b>", False, 7)
    assert second["channels"] == 7
    assert second["first"]["channel_id"] == CHANNELS[3]
    assert [step["channel_id"] for step in second["path"]] == list(CHANNELS[3:])
    assert second["counts"][-1] == 7

    got = await client.get(f"/api/v1/trends/{second['id']}")
    assert len(got.json()["items"]) == 7
    again = await client.get(f"/api/v1/trends/{second['id']}", headers={"If-None-Match": got.headers["ETag"]})
    assert again.status_code == 304


@pytest.mark.usefixtures("risen")
async def test_days_and_pages_of_the_list(town: Town, client_of: Clients) -> None:
    client = client_of(town.member)
    yesterday = (await client.get("/api/v1/trends", params={"day": str((NOW - 2 * DAY).date())})).json()
    assert [one["main"]["key"] for one in yesterday["items"]] == ["Атлантида"]
    assert (await client.get("/api/v1/trends", params={"day": "2026-10-01"})).json()["items"] == []
    assert (await client.get("/api/v1/trends", params={"state": "emerging"})).json()["items"] == []
    seen: list[str] = []
    cursor: str | None = None
    for _ in range(2):
        params = {"limit": "1"} | ({"cursor": cursor} if cursor else {})
        page = (await client.get("/api/v1/trends", params=params)).json()
        seen += [one["main"]["key"] for one in page["items"]]
        cursor = page["next"]
    assert cursor is None
    assert set(seen) == {"Атлантида", "<b>Лемурия</b>"}


@pytest.mark.usefixtures("risen")
async def test_another_tenant_finds_nothing_of_it(town: Town, client_of: Clients) -> None:
    own, other = client_of(town.admin), client_of(town.other)
    assert (await other.get("/api/v1/trends")).json() == {"items": [], "next": None}
    for trend in (await own.get("/api/v1/trends")).json()["items"]:
        assert (await other.get(f"/api/v1/trends/{trend['id']}")).status_code == 404
        assert (await client_of(town.other, page=True).get(f"/trends/{trend['id']}")).status_code == 404
    assert (await client_of(None).get("/api/v1/trends")).status_code == 401


async def test_looking_now_finds_what_rises_and_not_too_often(town: Town, past: Past, client_of: Clients) -> None:
    await past.rise("Атлантида", CHANNELS[:7])
    client = client_of(town.member)
    found = (await client.post("/api/v1/trends/find")).json()
    assert len(found["new"]) == 1
    assert (await client.post("/api/v1/trends/find")).json() == {"new": [], "going_on": found["new"]}
    answers = [await client.post("/api/v1/trends/find") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert int(answers[-1].headers["Retry-After"]) > 0


STRANGE: list[str] = [
    "cursor=nonsense",
    "cursor=WzEsIm5hbiIsIngiXQ",
    "day=10000-01-01",
    "day=0001-01-01",
    "days=0",
    "days=1e9",
]


async def test_strange_input_is_refused(town: Town, client_of: Clients, subtests: pytest.Subtests) -> None:
    for query in STRANGE:
        with subtests.test(query=query):
            assert (await client_of(town.member).get(f"/api/v1/trends?{query}")).status_code == 422


async def test_what_does_not_exist(town: Town, client_of: Clients) -> None:
    client = client_of(town.member)
    assert (await client.get(f"/api/v1/trends/{uuid4()}")).status_code == 404
    assert (await client.get("/api/v1/trends/nonsense")).status_code == 422


@pytest.mark.usefixtures("risen")
@pytest.mark.parametrize("language,words", [("ru", "7 независимых каналов"), ("en", "7 independent channels")])
async def test_the_page_shows_them(town: Town, client_of: Clients, language: str, words: str) -> None:
    client = client_of(town.member, page=True)
    client.cookies.set("tga_language", language)
    shown = await client.get("/trends")
    assert shown.status_code == 200
    assert words in shown.text
    assert "Атлантида" in shown.text
    assert "&lt;b&gt;Лемурия&lt;/b&gt;" in shown.text
    assert "<b>Лемурия" not in shown.text
    assert "Channel_1004" in shown.text
    [address] = {part.split('"')[0] for part in shown.text.split('href="/trends/')[1:] if "Лемурия" in part[:80]}
    whole = await client.get(f"/trends/{address}")
    assert whole.status_code == 200
    assert whole.text.count('class="card post"') == 7
    assert (await client.get("/trends?days=1")).status_code == 200
    assert (await client.get("/trends?days=1000")).status_code == 422


async def test_the_page_says_why_it_is_empty(town: Town, past: Past, client_of: Clients) -> None:
    assert "Nothing stood out" in (await client_of(town.member, page=True).get("/trends")).text
    assert "not enough history" in (await client_of(town.other, page=True).get("/trends")).text
    looked = await client_of(town.member, page=True).post("/trends/find")
    assert looked.headers["location"] == "/trends?days=1&looked=0"
    assert past.count
