"""The first page: stories with their pictures and tellers, what is new meanwhile, and how a fresh install begins."""

from __future__ import annotations

import re
from typing import Any

import pytest

from telegram_assistant.errors import Retry
from telegram_assistant.services.services import Services
from tests.integration.api.newsroom import Newsroom
from tests.integration.search.archive import SPORT
from tests.integration.stages.desk import Desk

pytestmark = pytest.mark.integration

Town = Any  # of conftest.py, which cannot be imported
ClientOf = Any
PRIVATE = 300
METRO = (
    "Мэр открыл новую станцию метро на севере города: первые поезда пошли в шесть утра, люди стояли всю ночь,"
    " и через час станцию посмотрели больше десяти тысяч человек."
)


@pytest.fixture
def newsroom(town: Town, services: Services) -> Newsroom:
    return Newsroom(town.archive, Desk(services.database, services.redis, services.media))


def stories(page: str) -> list[str]:
    return re.findall(r"<article.*?</article>", page, re.DOTALL)


async def test_what_is_new_comes_by_story(town: Town, client_of: ClientOf, newsroom: Newsroom) -> None:
    sport = Newsroom(town.archive, newsroom.desk, SPORT)
    (first,) = await sport.save(sport.post(1, METRO))
    await newsroom.save(newsroom.post(2, METRO))
    await newsroom.save(newsroom.post(3, "<script>alert(1)</script> Снег"))
    shown = stories((await client_of(town.member, page=True).get("/")).text)
    assert len(shown) == 2, "what two channels tell is one story"
    assert "&lt;script&gt;alert(1)&lt;/script&gt; Снег" in shown[0]
    assert "First source" in shown[1]
    assert f"/posts/{first}" in shown[1]


async def test_an_album_is_one_story_with_its_words(town: Town, client_of: ClientOf, newsroom: Newsroom) -> None:
    items, hashes = await newsroom.album(10, 6)
    (shown,) = stories((await client_of(town.member, page=True).get("/")).text)
    assert "Альбом про снег" in shown
    assert f"/posts/{items[0].id}" in shown, "the post that has the words"
    assert re.findall(r"/api/v1/media/(\w+)/thumbnail", shown) == hashes[:4]
    assert "+2" in shown


async def test_there_are_earlier_ones(town: Town, client_of: ClientOf, newsroom: Newsroom) -> None:
    await newsroom.save(*(newsroom.post(number, f"Новость номер {number} совсем другая") for number in range(1, 16)))
    client = client_of(town.member, page=True)
    page = (await client.get("/")).text
    (more,) = re.findall(r'hx-get="(/home/stories[^"]+)"', page)
    rest = (await client.get(more, headers={"HX-Request": "true"})).text
    assert (len(stories(page)), len(stories(rest))) == (12, 3)
    assert "<html" not in rest
    whole = (await client.get(more.replace("/home/stories", "/"))).text
    assert len(stories(whole)) == 3, "without a script it is a page"
    assert (await client.get("/?cursor=nonsense")).status_code == 422


async def test_new_posts_are_announced(town: Town, client_of: ClientOf, newsroom: Newsroom) -> None:
    await newsroom.save(newsroom.post(1, "Снег"))
    client = client_of(town.member, page=True)
    page = (await client.get("/")).text
    assert 'sse-connect="/api/v1/events"' in page
    new = re.findall(r'hx-get="(/home/new[^"]+)"', page)[0]
    assert "new" not in (await client.get(new)).text
    await newsroom.save(newsroom.post(2, "Дождь"))
    await newsroom.album(10, 3)
    secret = Newsroom(town.archive, newsroom.desk, PRIVATE)
    await secret.save(secret.post(20, "Тайна"))
    assert "2 new stories" in (await client.get(new)).text, "an album counts once, another's post not at all"
    for wrong in ("", "?after=nonsense", "?after=WzEsImEiXQ"):
        assert (await client.get(f"/home/new{wrong}")).status_code == 422


async def test_a_fresh_install_explains_itself(town: Town, client_of: ClientOf, newsroom: Newsroom) -> None:
    client = client_of(town.other_member, page=True)
    await town.archive.run("DELETE FROM subscriptions WHERE channel_id = :id", id=PRIVATE)
    assert "Add a channel" in (await client.get("/")).text
    await Newsroom(town.archive, newsroom.desk, PRIVATE).subscribe(town.other.tenant_id)
    page = (await client.get("/")).text
    assert "Your news is on its way" in page
    assert "1 of 1" in page
    starting = await client.get("/home/starting", headers={"HX-Request": "true"})
    assert "Your news is on its way" in starting.text
    secret = Newsroom(town.archive, newsroom.desk, PRIVATE)
    await secret.save(secret.post(1, "Первый"))
    starting = await client.get("/home/starting", headers={"HX-Request": "true"})
    assert starting.headers["HX-Refresh"] == "true"


async def test_another_tenants_posts_are_not_there(town: Town, client_of: ClientOf, newsroom: Newsroom) -> None:
    secret = Newsroom(town.archive, newsroom.desk, PRIVATE)
    await secret.save(secret.post(1, "Тайна"))
    assert "Тайна" in (await client_of(town.other, page=True).get("/")).text
    for address in ("/", "/home/stories"):
        assert "Тайна" not in (await client_of(town.admin, page=True).get(address)).text
        assert (await client_of(page=True).get(address)).status_code == 303


async def test_troubles_are_told_to_who_runs_it(town: Town, client_of: ClientOf, services: Services) -> None:
    async def away() -> None:
        raise Retry("the secret channel of B is away")

    client = client_of(town.admin, page=True)
    assert "Something needs attention" not in (await client.get("/")).text
    services.health.engines["postgres"] = away
    assert "the secret channel of B is away" in (await client.get("/")).text
    for person in (town.member, town.other):
        page = (await client_of(person, page=True).get("/")).text
        assert "Something needs attention" in page
        assert "the secret channel of B" not in page
