"""The query language on a real index: what is found, in which order, and what is shown of it."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest

from telegram_assistant.domain.query import Trouble
from telegram_assistant.domain.results import Origin, Results, Sort
from telegram_assistant.errors import Reject
from telegram_assistant.search.service import Search
from tests.integration.search.archive import NEWS, SPORT, SYSTEM, Archive

pytestmark = pytest.mark.integration

STORY = (
    "Международный уголовный суд выдал ордер на арест премьера и бывшего министра обороны за предполагаемые военные"
    " преступления, сообщили в суде. Решение приняли трое судей единогласно."
)


QUERIES: list[tuple[str, set[int]]] = [
    ("нефти", {2, 7}),
    ("сталь", {1, 2}),
    ("=стали -нефть", {1}),
    ("=сталь", set()),
    ("rise city", {3}),
    ('"цены на нефть"', {2}),
    ('"цена нефть"', {7}),
    ('"нефть цена"', set()),
    ('"рост цены на нефть" OR спартак', {4}),
    ("нефть OR спартак", {2, 4, 7}),
    ("+кубок +нефть", {7}),
    ("газ", {5, 7}),
    ("вышка", {6}),
    ("металлургия", {1}),
    ("tag:металлургия", {1}),
    ("topic:economy", {2}),
    ("lang:en", {3}),
    ("lang:en OR lang:ru has:photo", {2, 3}),
    ("has:photo has:link", {3}),
    ("has:photo -has:link", {2, 5}),
    ("channel:@sport", {4, 7}),
    ("channel:@SPORT кубок -channel:@daily_news", {4, 7}),
    ("channel:Sport", {4, 7}),
    ("channel:t.me/sport", {4, 7}),
    ("-channel:@sport has:link", {3, 6}),
    ("is:edited", {4}),
    ("is:forwarded", {6}),
    ("-is:forwarded has:link", {3}),
    ("after:2026-11-05", {4, 5}),
    ("before:2026-10-01", {7}),
    ("after:2026-11-05 before:2026-11-15", {4}),
    ("нефть after:2026-10-15", {2}),
    ("is:deleted", {8}),
    ("нефть is:deleted", {8}),
    ("новость", set()),
]


ODD_QUERIES = [
    '"нефть',
    "нефть " * 2_000,
    "нефть\0",
    "\0",
    "нефть' OR 1=1; DROP TABLE posts; --",
    "<script>alert('нефть')</script>",
    "нефть \\ ' '' \" & | ! ( ) <-> :* %",
    "((((((",
    "нефть:*",
    "has:everything is:new lang:xxxx after:never нефть",
    "channel:@nobody нефть",
    "\ud800 нефть",
    "'",
    "-",
    "\u202e нефть 😀",
    "x" * 10_000,
]


def numbers(results: Results) -> list[int]:
    return [hit.post.message_id for hit in results.hits]


@pytest.fixture
async def posts(archive: Archive) -> Archive:
    """A handful of everything."""
    await archive.post(
        1, "Завод выпустил новые стали", tags=("металлургия",), sections=[("B", "металлургия")], language="ru"
    )
    await archive.post(2, "Цены на нефть стали расти", topics=("economy",), language="ru", has=("photo",))
    await archive.post(3, "Oil prices are rising in European cities", language="en", has=("link", "photo"))
    await archive.post(4, "Спартак выиграл Кубок России", channel=SPORT, language="ru", marks=("edited",), when=10)
    await archive.post(5, "Смотрите сами", sections=[("C", "квитанция за газ")], has=("photo",), when=20)
    await archive.post(6, "Читайте", sections=[("D", "нефтяная вышка в море")], marks=("forwarded",), has=("link",))
    await archive.post(7, "Кубок цен: нефть, газ", channel=SPORT, when=-40)
    await archive.post(8, "Удалённая новость про нефть", marks=("deleted",))
    await archive.documents.count_terms()
    return archive


@pytest.mark.usefixtures("posts")
async def test_what_queries_find(search: Search) -> None:
    for query, found in QUERIES:
        results = await search.search(SYSTEM, query)
        assert set(numbers(results)) == found, query
        assert not results.notes, query


@pytest.mark.usefixtures("posts")
async def test_posts_with_more_of_the_words_come_first(search: Search) -> None:
    assert numbers(await search.search(SYSTEM, "рост цен на нефть: они растут"))[0] == 2
    assert numbers(await search.search(SYSTEM, "кубок нефть россии спартак"))[:2] == [4, 7]


@pytest.mark.usefixtures("posts")
async def test_without_words_the_newest_come_first(search: Search) -> None:
    assert numbers(await search.search(SYSTEM, "")) == [5, 4, 6, 3, 2, 1, 7]
    only_minus = await search.search(SYSTEM, "-нефть -спартак")
    assert numbers(only_minus) == [5, 6, 3, 1]
    assert [note.trouble for note in only_minus.notes] == [Trouble.ONLY_LEFT_OUT]


@pytest.mark.usefixtures("posts")
async def test_words_can_be_ordered_by_time_too(search: Search) -> None:
    assert numbers(await search.search(SYSTEM, "нефть", sort=Sort.NEWEST)) == [2, 7]
    assert numbers(await search.search(SYSTEM, "нефть кубок", sort=Sort.NEWEST)) == [7], "all of the words"


@pytest.mark.usefixtures("posts")
async def test_odd_queries_get_an_answer(search: Search, archive: Archive) -> None:
    for query in ODD_QUERIES:
        results = await search.search(SYSTEM, query)
        assert results.hits or results.notes or not query.strip(" x'-(\0"), query
    assert len(await archive.rows("SELECT 1 FROM posts")) == 8


@pytest.mark.usefixtures("posts")
async def test_a_channel_that_is_not_there_is_told(search: Search) -> None:
    results = await search.search(SYSTEM, "нефть channel:@nobody")
    assert results.hits == ()
    assert [str(note) for note in results.notes] == ["you have no channel @nobody"]


@pytest.mark.usefixtures("posts")
async def test_snippets_show_where_the_words_are(search: Search) -> None:
    [hit] = (await search.search(SYSTEM, "цена рост нефть -кубок")).hits
    assert [hit.snippet.text[start:end] for start, end in hit.snippet.spans] == ["Цены", "нефть"]
    assert hit.post.url == "https://t.me/daily_news/2"
    [page] = (await search.search(SYSTEM, "вышка")).hits
    assert page.snippet.origin is Origin.TEXT  # the page itself is not stored in this test


@pytest.mark.usefixtures("posts")
async def test_facets(search: Search) -> None:
    facets = (await search.search(SYSTEM, "")).facets
    assert [(one.value, one.title, one.name, one.posts) for one in facets.channels] == [
        (str(NEWS), "Daily_News", "@daily_news", 5),
        (str(SPORT), "Sport", "@sport", 2),
    ]
    assert [(one.value, one.posts) for one in facets.has] == [("photo", 3), ("link", 2)]
    assert [(one.value, one.posts) for one in facets.languages] == [("ru", 3), ("en", 1)]
    assert [one.value for one in facets.tags] == ["металлургия"]


@pytest.mark.parametrize("query", ["погода", ""])
async def test_pages_fit_together_while_posts_come(search: Search, archive: Archive, query: str) -> None:
    for number in range(1, 26):
        await archive.post(number, f"погода {'снег ' * (number % 4)} день{number}")
    whole = numbers(await search.search(SYSTEM, query, limit=100))
    first = await search.search(SYSTEM, query, limit=10)
    await archive.post(100, "погода погода погода")
    seen, cursor = numbers(first), first.cursor
    while cursor:
        page = await search.search(SYSTEM, query, limit=10, cursor=cursor)
        assert page.facets == type(page.facets)()
        seen += numbers(page)
        cursor = page.cursor
    assert seen == whole
    assert len(whole) == 25
    assert 100 in numbers(await search.search(SYSTEM, query, limit=100))


async def test_pages_fit_together_while_words_are_counted_anew(search: Search, archive: Archive) -> None:
    for number in range(1, 26):
        await archive.post(number, f"{'погода ' * (number % 5)} {'снег ' * (number % 3)} день{number}")
    await archive.documents.count_terms()
    whole = numbers(await search.search(SYSTEM, "погода снег", limit=100))
    page = await search.search(SYSTEM, "погода снег", limit=4)
    seen = numbers(page)
    while page.cursor:
        new = 100 + len(seen)
        await archive.post(new, f"погода {'погода ' * len(seen)} сегодня{new}")
        await archive.documents.count_terms()
        page = await search.search(SYSTEM, "погода снег", limit=4, cursor=page.cursor)
        seen += numbers(page)
    assert seen == whole


async def test_the_newest_are_paged_through_beyond_one_window(
    search: Search, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("telegram_assistant.search.service.WINDOW", 7)
    for number in range(1, 26):
        await archive.post(number, "погода")
    seen: list[int] = []
    cursor: str | None = None
    while cursor or not seen:
        page = await search.search(SYSTEM, "", limit=4, cursor=cursor)
        seen += numbers(page)
        cursor = page.cursor
    assert seen == list(range(25, 0, -1))


@pytest.mark.usefixtures("posts")
async def test_cursors_of_others_are_refused(search: Search, archive: Archive) -> None:
    cursor = (await search.search(SYSTEM, "", limit=2)).cursor
    stranger = await archive.tenant("stranger")
    for tenant, query, sort, wrong in (
        (SYSTEM, "нефть", Sort.BEST, cursor),
        (stranger, "", Sort.BEST, cursor),
        (SYSTEM, "", Sort.NEWEST, cursor),
        (SYSTEM, "", Sort.BEST, "nonsense"),
        (SYSTEM, "", Sort.BEST, "é" * 1_000),
    ):
        with pytest.raises(Reject, match="cursor"):
            await search.search(tenant, query, cursor=wrong, sort=sort)


async def test_an_album_is_one_hit(search: Search, archive: Archive) -> None:
    album = uuid4()
    posts = [
        await archive.post(number, "Парад на площади" if number == 2 else "", album_id=album) for number in (1, 2, 3)
    ]
    await archive.run(
        "INSERT INTO media_groups (id, channel_id, grouped_id, album_kind, items_count, posted_at)"
        " VALUES (:id, :channel, 1, 'photo', 3, now())",
        id=album,
        channel=NEWS,
    )
    for place, post in enumerate(posts):
        await archive.run(
            "INSERT INTO media_group_items (group_id, post_id, position) VALUES (:group, :post, :place)",
            group=album,
            post=post,
            place=place,
        )
    await archive.picture(posts[2], "a" * 64)
    await archive.picture(posts[0], "b" * 64)
    [hit] = (await search.search(SYSTEM, "парад")).hits
    assert hit.album == tuple(posts)
    assert hit.pictures == ("b" * 64, "a" * 64)
    assert len((await search.search(SYSTEM, "")).hits) == 1


async def test_a_story_is_one_hit_with_its_first_source(search: Search, archive: Archive) -> None:
    first = await archive.post(1, f"Срочно. {STORY}", channel=SPORT)
    again = await archive.post(2, STORY, when=1)
    await archive.post(3, "Ордер на арест премьера никто не видел", when=2)
    results = await search.search(SYSTEM, "ордер арест премьера суд")
    story, other = results.hits
    assert [teller.post_id for teller in story.tellers] == [first, again]
    assert story.tellers[0].channel_title == "Sport"
    assert other.tellers == ()
    assert results.found == 2
    [narrowed] = (await search.search(SYSTEM, "ордер суд after:2026-11-02 before:2026-11-03")).hits
    assert narrowed.post.post_id == again
    assert [teller.post_id for teller in narrowed.tellers] == [first, again]
    [there] = (await search.search(SYSTEM, "ордер суд channel:@sport")).hits
    assert there.post.post_id == first
    assert [teller.post_id for teller in there.tellers] == [first, again], "also who tells it elsewhere"


async def test_a_hit_that_is_gone_meanwhile_is_left_out(search: Search, archive: Archive) -> None:
    await archive.post(1, "погода")
    hidden: UUID = await archive.post(2, "погода")
    await archive.run("DELETE FROM subscriptions WHERE channel_id = :id", id=SPORT)
    await archive.run("UPDATE posts SET channel_id = :id WHERE id = :post", id=SPORT, post=hidden)
    assert numbers(await search.search(SYSTEM, "погода")) == [1]
