"""The page of a post: all that is known of it, for who may see it, and a stranger's words stay words."""

from __future__ import annotations

import re
from typing import Any
from uuid import uuid4

import pytest

from telegram_assistant.domain.post import Media, MediaKind
from telegram_assistant.services.services import Services
from tests.integration.api.newsroom import Newsroom
from tests.integration.stages.desk import Desk

pytestmark = pytest.mark.integration

Town = Any  # of conftest.py, which cannot be imported
ClientOf = Any
PRIVATE = 300


@pytest.fixture
def newsroom(town: Town, services: Services) -> Newsroom:
    return Newsroom(town.archive, Desk(services.database, services.redis, services.media))


async def test_everything_is_there_and_nothing_of_it_is_markup(
    town: Town, client_of: ClientOf, newsroom: Newsroom
) -> None:
    story = await newsroom.story()
    answer = await client_of(town.member, page=True).get(f"/posts/{story.id}")
    assert answer.status_code == 200
    page = answer.text
    assert "<script>document" not in page
    assert "&lt;script&gt;document" in page
    assert "javascript:" not in page
    for hostile in ("<b>Иван</b>", "<i>what came of it</i>", "<в>"):
        assert hostile not in page
    assert "<b>снег</b>" in page, "formatting"
    assert 'href="https://t.me/meteo"' in page
    assert "<del>" in page, "versions"
    assert "<ins>" in page
    assert page.count('<figure class="chart">') == 2, "counters"
    assert "Прогноз на неделю" in page, "pages"
    assert "Редакция" in page
    assert 'href="https://t.me/daily_news/2" rel="noopener noreferrer nofollow"' in page
    assert "12,000 views" in page


async def test_findings_lead_to_the_search(town: Town, client_of: ClientOf, newsroom: Newsroom) -> None:
    story = await newsroom.story()
    page = (await client_of(town.member, page=True).get(f"/posts/{story.id}")).text
    links = set(re.findall(r'class="chip" href="([^"]+)"', page))
    assert "/search?q=topic%3A%22%D0%BF%D0%BE%D0%B3%D0%BE%D0%B4%D0%B0%22" in links
    assert all(link.count("%22") == 2 for link in links), "a quote in a name ends nothing"


async def test_an_album_is_a_gallery(town: Town, client_of: ClientOf, newsroom: Newsroom) -> None:
    items, hashes = await newsroom.album(10, 4)
    for one in (items[0], items[3]):
        page = (await client_of(town.member, page=True).get(f"/posts/{one.id}")).text
        shown = re.findall(r'<a href="#picture-\d" id="thumb-\d"><img src="/api/v1/media/(\w+)/', page)
        assert shown == hashes
        assert "Альбом про снег" in page, "whichever of its posts has the words"
        assert re.findall(r'id="picture-(\d)"', page) == ["1", "2", "3", "4"]
        assert "Picture 10 &lt;of&gt; snow" in page
        assert "СНЕГОПАД &amp; ветер" in page


async def test_files_say_what_became_of_them(town: Town, client_of: ClientOf, newsroom: Newsroom) -> None:
    media = (
        Media(kind=MediaKind.DOCUMENT, file_id="a", mime="application/pdf", name="<plan>.pdf"),
        Media(kind=MediaKind.VIDEO, file_id="b", mime="video/mp4"),
        Media(kind=MediaKind.PHOTO, file_id="c", mime="image/png"),
    )
    one = newsroom.post(5, media=media)
    await newsroom.save(one)
    await newsroom.desk.store(one, b"%PDF", mime="application/pdf")
    await newsroom.desk.skip(one, "too <large>", position=1)
    page = (await client_of(town.member, page=True).get(f"/posts/{one.id}")).text
    assert "&lt;plan&gt;.pdf" in page
    assert "not fetched: too &lt;large&gt;" in page
    assert "is being fetched" in page
    assert page.count(" download>") == 1


async def test_a_bare_and_a_deleted_post(town: Town, client_of: ClientOf, newsroom: Newsroom) -> None:
    bare, poll = newsroom.post(6), newsroom.poll(7, "<Снег>?", ["Да"])
    await newsroom.save(bare, poll)
    await newsroom.desk.delete(poll)
    client = client_of(town.member, page=True)
    assert "This post has no words." in (await client.get(f"/posts/{bare.id}")).text
    page = (await client.get(f"/posts/{poll.id}")).text
    assert "This post was deleted in Telegram" in page
    assert "&lt;Снег&gt;?" in page


async def test_it_speaks_russian(town: Town, client_of: ClientOf, newsroom: Newsroom) -> None:
    story = await newsroom.story()
    client = client_of(town.member, page=True)
    client.cookies.set("tga_language", "ru")
    page = (await client.get(f"/posts/{story.id}")).text
    for words in ("Как этот пост попал сюда", "Получил метки", "ожидает", "12\u00a0000 просмотров", "Правки"):
        assert words in page


async def test_what_is_loaded_later_does_not_break_the_page(
    town: Town, client_of: ClientOf, newsroom: Newsroom
) -> None:
    (post,) = await newsroom.save(newsroom.post(1, "Снег"))
    client = client_of(town.member, page=True)
    similar = await client.get(f"/posts/{post}/similar", headers={"HX-Request": "true"})
    assert similar.status_code == 200
    assert "Try again" in similar.text, "there is no vector index here, and it says so"
    around = await client.get(f"/posts/{post}/around", headers={"HX-Request": "true"})
    assert "No other post forwards it" in around.text
    assert "<html" not in around.text


async def test_another_tenants_post_is_not_there(town: Town, client_of: ClientOf, newsroom: Newsroom) -> None:
    secret = Newsroom(town.archive, newsroom.desk, PRIVATE)
    (post,) = await secret.save(secret.post(1, "Тайна"))
    for part in ("", "/similar", "/around"):
        assert (await client_of(town.other_member, page=True).get(f"/posts/{post}{part}")).status_code == 200
        answer = await client_of(town.admin, page=True).get(f"/posts/{post}{part}")
        assert (answer.status_code, "Тайна" in answer.text) == (404, False), part
        stranger = await client_of(page=True).get(f"/posts/{post}{part}")
        assert (stranger.status_code, stranger.headers["location"][:8]) == (303, "/sign-in")
    for wrong in (uuid4(), "nonsense"):
        answer = await client_of(town.member, page=True).get(f"/posts/{wrong}")
        assert answer.status_code in {404, 422}
        assert "text/html" in answer.headers["content-type"]
