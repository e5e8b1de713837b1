"""The search page: what was found, what narrows it, and nothing that runs."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest

from tests.integration.search.archive import SPORT
from tests.integration.search.test_search import ODD_QUERIES, STORY

pytestmark = pytest.mark.integration

Town = Any  # of conftest.py, which cannot be imported
ClientOf = Any
LINK = re.compile(r'href="([^"]*)"')


def links(html: str, part: str) -> list[str]:
    return [unescape(one) for one in LINK.findall(html) if part in unescape(one)]


@pytest.fixture
async def posts(town: Town) -> None:
    await town.archive.post(
        1, "Цены на нефть стали расти", topics=("economy",), tags=("нефть марки",), language="ru", has=("photo",)
    )
    await town.archive.post(2, "<script>document.title = 'hacked'</script> нефть <b>дорожает</b>", language="ru")
    await town.archive.post(3, "Спартак выиграл Кубок", channel=SPORT, marks=("edited",))
    await town.archive.documents.count_terms()


@pytest.mark.usefixtures("posts")
async def test_words_are_marked_and_nothing_of_a_post_is_markup(town: Town, client_of: ClientOf) -> None:
    answer = await client_of(town.member, page=True).get("/search", params={"q": "нефть"})
    assert answer.status_code == 200
    assert "<mark>нефть</mark>" in answer.text
    assert "<script>document" not in answer.text
    assert "&lt;script&gt;document" in answer.text
    assert 'value="нефть"' in answer.text, "the box keeps what was asked"
    assert "2 stories" in answer.text


@pytest.mark.usefixtures("posts")
async def test_filters_are_clicked_in_and_out(town: Town, client_of: ClientOf) -> None:
    client = client_of(town.member, page=True)
    html = (await client.get("/search", params={"q": "нефть"})).text
    [narrower] = links(html, "/search?q=%D0%BD%D0%B5%D1%84%D1%82%D1%8C+tag%3A")
    html = (await client.get(narrower)).text
    assert "1 story" in html
    assert "tag:&#34;нефть марки&#34;" in html
    wider = [one for one in links(html, "/search?q=") if one == "/search?q=%D0%BD%D0%B5%D1%84%D1%82%D1%8C"]
    assert wider, "the chip takes the filter out, and so does the facet"
    assert "2 stories" in (await client.get(wider[0])).text
    [channel] = set(links((await client.get("/search")).text, "channel%3A%40sport"))
    assert "Кубок" in (await client.get(channel)).text


@pytest.mark.usefixtures("posts")
async def test_remarks_are_in_the_readers_language(town: Town, client_of: ClientOf) -> None:
    client = client_of(town.member, page=True)
    params = {"q": 'нефть channel:@nobody has:everything "марки'}
    english = (await client.get("/search", params=params)).text
    assert "You have no channel @nobody." in english
    assert "A quotation mark has no pair" in english
    client.cookies.set("tga_language", "ru")
    russian = (await client.get("/search", params=params)).text
    assert "вас нет канала @nobody." in russian
    assert "has:everything не знаем" in russian
    assert "кавычки нет пары" in russian
    assert "Ничего не нашлось" in russian


@pytest.mark.usefixtures("posts")
async def test_odd_queries_make_a_page(town: Town, client_of: ClientOf) -> None:
    client = client_of(town.member, page=True)
    for query in (*ODD_QUERIES, "", "{{ 7*7 }}", "{% include 'x' %}", '" onmouseover="alert(1)'):
        for path in ("/search", "/ask"):
            answer = await client.get(path, params={"q": query.encode("utf-8", "replace").decode()})
            assert answer.status_code == 200, (path, query)
            assert "<script>alert" not in answer.text
            assert "onmouseover=&" not in answer.text.replace("&#34; onmouseover=&#34;", "")
    long = await client.get("/search", params={"q": "x" * 20_000})
    assert long.status_code == 422
    assert "text/html" in long.headers["content-type"]


async def test_more_comes_below(town: Town, client_of: ClientOf) -> None:
    for number in range(1, 20):
        await town.archive.post(number, f"погода и снег: сутки {number}")
    client = client_of(town.member, page=True)
    html = (await client.get("/search", params={"q": "погода"})).text
    [more] = set(links(html, "/search/more"))
    answer = await client.get(more, headers={"HX-Request": "true"})
    assert answer.text.count("<article") == 4
    assert "<html" not in answer.text
    wrong = await client.get(more.replace("cursor=", "cursor=x"), headers={"HX-Request": "true"})
    assert wrong.status_code == 422
    assert "cursor" in wrong.text


async def test_a_story_is_folded(town: Town, client_of: ClientOf) -> None:
    await town.archive.post(1, STORY)
    await town.archive.post(2, f"Срочно. {STORY}", channel=SPORT)
    html = (await client_of(town.member, page=True).get("/search", params={"q": "ордер суд"})).text
    assert html.count("<article") == 1
    assert "Also in 1 channel" in html
    assert "first source" in html


async def test_without_posts_there_is_something_kind(town: Town, client_of: ClientOf) -> None:
    html = (await client_of(town.member, page=True).get("/search")).text
    assert "There are no posts yet" in html
    assert "How to search" in html


async def test_pictures_are_shown_small(town: Town, client_of: ClientOf) -> None:
    post = await town.archive.post(1, "Смотрите", has=("photo",))
    await town.archive.picture(post, "a" * 64)
    html = (await client_of(town.member, page=True).get("/search", params={"q": "смотрите"})).text
    assert f'/api/v1/media/{"a" * 64}/thumbnail?width=320"' in html


async def test_strangers_are_led_to_the_sign_in(client_of: ClientOf) -> None:
    for path in ("/search", "/ask", "/saved", "/graph", "/ask/answer", "/search/more?cursor=x"):
        answer = await client_of(page=True).get(path)
        assert answer.status_code == 303
        assert answer.headers["location"].startswith("/sign-in")


@pytest.mark.usefixtures("posts")
async def test_an_empty_page_offers_looser_filters_the_likely_spelling_and_saving(
    town: Town, client_of: ClientOf
) -> None:
    client = client_of(town.member, page=True)
    html = (await client.get("/search", params={"q": "нефть lang:en has:photo"})).text
    assert "Nothing was found" in html
    assert "Without lang:en <small>1</small>" in html
    assert "you will be told when a post fits" in html
    assert html.count('name="query" value="нефть lang:en has:photo"') == 2
    [looser] = [one for one in links(html, "/search?q=") if one.endswith("+has%3Aphoto")][:1]
    assert "1 story" in (await client.get(looser)).text
    client.cookies.set("tga_language", "ru")
    russian = (await client.get("/search", params={"q": "+нефтть"})).text
    assert "Возможно, вы имели в виду «+нефть»? <small>2</small>" in russian
    assert "Сохраните поиск" in russian
