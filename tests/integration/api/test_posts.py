"""Posts through the API: everything that hangs on one, in pages, and nothing of another tenant."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from telegram_assistant.domain.post import post_id
from telegram_assistant.index.graph import PostNode
from telegram_assistant.services.services import Services
from tests.integration.api.newsroom import FIRST, LAST, LINK, SECOND, Newsroom
from tests.integration.search.archive import NEWS, SPORT, SYSTEM
from tests.integration.stages.desk import POSTED, Desk

pytestmark = pytest.mark.integration

Town = Any  # of conftest.py, which cannot be imported
ClientOf = Any
POSTS = "/api/v1/posts"
PRIVATE = 300
PARTS = ("", "/versions", "/counters", "/trace", "/similar", "/neighbours")


@pytest.fixture
def newsroom(town: Town, services: Services) -> Newsroom:
    return Newsroom(town.archive, Desk(services.database, services.redis, services.media))


async def test_a_post_comes_with_all_that_hangs_on_it(town: Town, client_of: ClientOf, newsroom: Newsroom) -> None:
    story = await newsroom.story()
    answer = (await client_of(town.member).get(f"{POSTS}/{story.id}")).json()
    assert answer["text"] == LAST
    assert (answer["channel"]["id"], answer["channel"]["username"]) == (NEWS, "daily_news")
    assert answer["url"] == "https://t.me/daily_news/2"
    assert (answer["version"], answer["views"], answer["reactions"]) == (3, 12_000, {"👍": 240})
    assert answer["edited_at"] is not None
    assert answer["found"]["topics"] == ["погода"]
    assert {"kind": "place", "name": "Москва"} in answer["found"]["entities"]
    assert [(page["link"], page["title"]) for page in answer["pages"]] == [(LINK, "Погода <в> Москве")]
    origin = str(post_id(NEWS, 1))
    assert (answer["forward"]["post_id"], answer["forward"]["channel"]["title"]) == (origin, "Daily_News")
    assert (answer["reply_to"]["post_id"], answer["reply_to"]["text"]) == (origin, "Прежний пост")
    assert answer["author"] == "Редакция"
    assert {one["kind"] for one in answer["entities"]} == {"bold", "mention", "hashtag", "text_url", "italic"}


async def test_posts_of_a_forum_by_topic(town: Town, client_of: ClientOf) -> None:
    await town.archive.run("UPDATE channels SET is_group = true WHERE id = :id", id=NEWS)
    await town.archive.run(
        "INSERT INTO forum_topics (channel_id, id, title, closed) VALUES (:id, 1, 'General', false),"
        " (:id, 2, 'Help', true), (300, 2, 'Secret', false)",
        id=NEWS,
    )
    for number in range(1, 5):
        await town.archive.post(number, f"Post {number}")
    await town.archive.run(
        'UPDATE posts SET details = \'{"reply_to": {"message_id": 2, "thread_id": 2}}\' WHERE message_id = 4'
    )
    client = client_of(town.member)
    topics = (await client.get(f"/api/v1/channels/{NEWS}/topics")).json()["items"]
    assert [(one["channel_id"], one["id"], one["title"], one["closed"]) for one in topics] == [
        (NEWS, 1, "General", False),
        (NEWS, 2, "Help", True),
    ]
    listed = (await client.get(POSTS, params={"channel": NEWS, "thread": 2})).json()["items"]
    assert [one["text"] for one in listed] == ["Post 4", "Post 2"]
    listed = (await client.get(POSTS, params={"channel": NEWS, "thread": 1})).json()["items"]
    assert [one["text"] for one in listed] == ["Post 3", "Post 1"]
    assert (await client.get(f"{POSTS}/{post_id(NEWS, 4)}")).json()["thread"]["title"] == "Help"
    assert (await client.get(POSTS, params={"thread": 2})).status_code == 422
    assert (await client.get("/api/v1/channels/300/topics")).status_code == 404
    page = client_of(town.member, page=True)
    assert f'<a href="/channels/{NEWS}/topics/2">Help</a>' in (await page.get(f"/channels/{NEWS}")).text
    shown = (await page.get(f"/channels/{NEWS}/topics/2")).text
    assert "Post 4" in shown
    assert "Post 3" not in shown
    assert (await page.get(f"/channels/{NEWS}/topics/3")).status_code == 404
    assert "Topic of the forum: Help" in (await page.get(f"/posts/{post_id(NEWS, 4)}")).text


async def test_what_it_said_before_and_how_it_grew(town: Town, client_of: ClientOf, newsroom: Newsroom) -> None:
    story = await newsroom.story()
    client = client_of(town.member)
    versions = (await client.get(f"{POSTS}/{story.id}/versions")).json()["items"]
    assert [(one["version"], one["text"]) for one in versions] == [(3, LAST), (2, SECOND), (1, FIRST)]
    assert [one["until"] is None for one in versions] == [True, False, False]
    counters = (await client.get(f"{POSTS}/{story.id}/counters")).json()["items"]
    assert [(one["views"], one["reactions"]) for one in counters] == [(10, 0), (2500, 50), (12_000, 240)]
    steps = (await client.get(f"{POSTS}/{story.id}/trace")).json()["items"]
    assert [(one["stage"], one["outcome"]) for one in steps] == [
        ("telethon-ingest", "done"),
        ("tagging", "done"),
        ("indexing", "waiting"),
    ]


async def test_an_album_comes_as_one(town: Town, client_of: ClientOf, newsroom: Newsroom) -> None:
    items, hashes = await newsroom.album(10, 3)
    client = client_of(town.member)
    answer = (await client.get(f"{POSTS}/{items[1].id}")).json()
    assert answer["album"] == [str(one.id) for one in items]
    assert [file["sha256"] for file in answer["files"]] == hashes
    file = answer["files"][0]
    assert (file["kind"], file["status"], file["width"], file["seen"]["ocr"]["text"]) == (
        *("photo", "stored", 400),
        "СНЕГОПАД & ветер",
    )
    nobody = client_of()
    assert (await nobody.get(file["url"])).status_code == 200, "a signed address needs no credential"


async def test_a_file_that_is_not_stored_says_why(town: Town, client_of: ClientOf, newsroom: Newsroom) -> None:
    one = newsroom.photo(20)
    await newsroom.save(one)
    await newsroom.desk.skip(one, "it has 99 MB")
    (file,) = (await client_of(town.member).get(f"{POSTS}/{one.id}")).json()["files"]
    assert (file["status"], file["reason"], file["url"]) == ("skipped", "it has 99 MB", None)


async def test_the_newest_come_in_pages(town: Town, client_of: ClientOf, newsroom: Newsroom) -> None:
    await newsroom.save(*(newsroom.post(number, f"Post {number}") for number in range(1, 6)))
    sport = Newsroom(town.archive, newsroom.desk, SPORT)
    # At the same moment as another, so that only the id tells them apart.
    await sport.save(sport.post(3, "Sport", posted_at=newsroom.post(3).posted_at))
    await newsroom.desk.delete(newsroom.post(2))
    client, texts, cursor = client_of(town.member), [], None
    while True:
        answer = (await client.get(POSTS, params={"limit": 2, **({"cursor": cursor} if cursor else {})})).json()
        texts += [one["text"] for one in answer["items"]]
        cursor = answer["next"]
        if cursor is None:
            break
    assert sorted(texts) == ["Post 1", "Post 3", "Post 4", "Post 5", "Sport"]
    assert texts[:2] == ["Post 5", "Post 4"]
    assert texts[-1] == "Post 1"


async def test_the_newest_can_be_narrowed(town: Town, client_of: ClientOf, newsroom: Newsroom) -> None:
    await newsroom.save(*(newsroom.post(number, f"Post {number}") for number in range(1, 4)))
    client = client_of(town.member)
    for channel in ("@daily_news", "daily_news", "DAILY_NEWS", str(NEWS)):
        assert len((await client.get(POSTS, params={"channel": channel})).json()["items"]) == 3, channel
    assert (await client.get(POSTS, params={"channel": "sport"})).json() == {"items": [], "next": None}
    moment = newsroom.post(2).posted_at.isoformat()
    later = (await client.get(POSTS, params={"after": moment})).json()["items"]
    assert [one["text"] for one in later] == ["Post 3", "Post 2"]
    earlier = (await client.get(POSTS, params={"before": moment})).json()["items"]
    assert [one["text"] for one in earlier] == ["Post 1"]


WRONG_QUESTIONS: list[tuple[dict[str, Any], int]] = [
    ({"limit": 0}, 422),
    ({"limit": 101}, 422),
    ({"limit": 10**30}, 422),
    ({"channel": "secret_of_b"}, 404),
    ({"channel": str(PRIVATE)}, 404),
    ({"channel": "nobody_here"}, 404),
    ({"channel": "9" * 30}, 422),
    ({"channel": "\0"}, 422),
    ({"channel": "a" * 10_000}, 422),
    ({"before": "2026-01-01T00:00:00"}, 422),
    ({"before": "0001-01-01T00:00:00+14:00"}, 422),
    ({"after": "9999-12-31T23:59:59-14:00"}, 422),
    ({"after": "yesterday"}, 422),
    ({"cursor": "nonsense"}, 422),
    ({"cursor": "WzEsICJhIl0"}, 422),
    ({"cursor": "Wzk5OTk5OTk5OTk5OTk5OTk5OTksICJhIl0"}, 422),
]


async def test_wrong_questions_get_a_sentence(town: Town, client_of: ClientOf, subtests: pytest.Subtests) -> None:
    for params, status in WRONG_QUESTIONS:
        with subtests.test(params=params, status=status):
            answer = await client_of(town.member).get(POSTS, params=params)
            assert answer.status_code == status
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["detail"]


WRONG_IDS: list[str] = [str(UUID(int=77)), "nonsense", "1", "%00", str(UUID(int=0))]


async def test_a_wrong_id_is_no_post(town: Town, client_of: ClientOf, subtests: pytest.Subtests) -> None:
    for wrong in WRONG_IDS:
        for part in PARTS:
            with subtests.test(part=part, wrong=wrong):
                assert (await client_of(town.member).get(f"{POSTS}/{wrong}{part}")).status_code in {404, 422}


async def test_another_tenants_post_is_not_there(
    town: Town, client_of: ClientOf, newsroom: Newsroom, subtests: pytest.Subtests
) -> None:
    secret = Newsroom(town.archive, newsroom.desk, PRIVATE)
    (post,) = await secret.save(secret.post(1, "Тайна"))
    for part in PARTS:
        with subtests.test(part=part):
            own = await client_of(town.other_member).get(f"{POSTS}/{post}{part}")
            assert own.status_code in {200, 503}, "503: there is no vector index here"
            for person in (town.admin, town.member):
                assert (await client_of(person).get(f"{POSTS}/{post}{part}")).status_code == 404
            assert (await client_of().get(f"{POSTS}/{post}{part}")).status_code == 401
    assert "Тайна" not in (await client_of(town.admin).get(POSTS)).text


async def test_a_channel_that_was_left_shows_nothing_any_more(
    town: Town, client_of: ClientOf, newsroom: Newsroom
) -> None:
    (post,) = await newsroom.save(newsroom.post(1, "Снег"))
    client = client_of(town.member)
    assert (await client.get(f"{POSTS}/{post}")).status_code == 200
    await newsroom.unsubscribe()
    for part in PARTS:
        assert (await client.get(f"{POSTS}/{post}{part}")).status_code == 404, part


async def test_a_forward_of_what_one_does_not_watch_has_no_name(
    town: Town, client_of: ClientOf, newsroom: Newsroom
) -> None:
    secret = Newsroom(town.archive, newsroom.desk, PRIVATE)
    await secret.save(secret.post(1, "Тайна"))
    story = await newsroom.story()
    await town.archive.run(
        "UPDATE posts SET details = jsonb_set(jsonb_set(details, '{forward,channel_id}', '300'),"
        " '{reply_to,channel_id}', '300') WHERE id = :id",
        id=story.id,
    )
    answer = (await client_of(town.member).get(f"{POSTS}/{story.id}")).json()
    assert (answer["forward"]["channel"], answer["forward"]["post_id"]) == (None, None)
    assert (answer["reply_to"]["post_id"], answer["reply_to"]["text"]) == (None, "")


async def test_its_tag_saves_reading_it_again(town: Town, client_of: ClientOf, newsroom: Newsroom) -> None:
    (post,) = await newsroom.save(newsroom.post(1, "Снег"))
    client = client_of(town.member)
    tag = (await client.get(f"{POSTS}/{post}")).headers["etag"]
    again = await client.get(f"{POSTS}/{post}", headers={"If-None-Match": tag})
    assert (again.status_code, again.content) == (304, b"")
    await newsroom.save(newsroom.post(1, "Дождь"))
    assert (await client.get(f"{POSTS}/{post}", headers={"If-None-Match": tag})).status_code == 200


async def test_neighbours_are_those_one_may_see(
    town: Town, client_of: ClientOf, newsroom: Newsroom, services: Services
) -> None:
    secret = Newsroom(town.archive, newsroom.desk, PRIVATE)
    await secret.save(secret.post(1, "Тайна про снег"))
    ids = await newsroom.save(newsroom.post(1, "Снег"), newsroom.post(2, "Опять снег"))
    assert services.graph is not None
    # As if it had come into the shared graph by mistake.
    await services.graph.put(
        [
            PostNode(
                tenant_id=SYSTEM,
                post_id=id_,
                channel_id=NEWS,
                channel_title="",
                message_id=number,
                posted_at=POSTED,
                tags=("снег",),
            )
            for number, id_ in enumerate([*ids, post_id(PRIVATE, 1)], 1)
        ]
    )
    answer = (await client_of(town.member).get(f"{POSTS}/{ids[0]}/neighbours")).json()
    assert [(one["text"], one["shared"]) for one in answer["near"]] == [("Опять снег", ["снег"])]


async def test_a_poll_and_a_deleted_post_are_shown(town: Town, client_of: ClientOf, newsroom: Newsroom) -> None:
    poll = newsroom.poll(1, "Снег?", ["Да", "Нет"])
    await newsroom.save(poll)
    await newsroom.desk.delete(poll)
    answer = (await client_of(town.member).get(f"{POSTS}/{poll.id}")).json()
    assert answer["poll"] == {
        "question": "Снег?",
        "answers": ["Да", "Нет"],
        "quiz": False,
        "closed": False,
        "voters": 7,
    }
    assert datetime.fromisoformat(answer["deleted_at"]) <= datetime.now(UTC)
