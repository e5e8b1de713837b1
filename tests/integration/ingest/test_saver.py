"""The saver on a real PostgreSQL: one transaction per reading, and a repeat changes nothing (G2, SPEC 2.4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from redis.asyncio import Redis
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.bus.streams import FIELD, Publisher, decode
from telegram_assistant.domain.events import AlbumParsed, Event, PostDeleted, PostParsed
from telegram_assistant.domain.ledger import Coverage
from telegram_assistant.domain.media_rules import MediaDecision
from telegram_assistant.domain.post import Counters, Media, MediaKind, Poll, Post
from telegram_assistant.errors import Skip
from telegram_assistant.ingest.relay import Relay
from telegram_assistant.ingest.saver import Reading, Saver
from telegram_assistant.names import ALBUMS_PARSED, POSTS_DELETED, POSTS_PARSED, stream
from telegram_assistant.stores.postgres.channels import Channels

pytestmark = pytest.mark.integration

CHANNEL = 77
START = datetime(2026, 1, 5, 12, tzinfo=UTC)


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = START + timedelta(hours=1)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def make_saver(database: AsyncEngine, clock: Clock) -> Callable[..., Saver]:
    async with database.begin() as connection:
        await connection.execute(
            text("INSERT INTO channels (id, title, username, requested_from) VALUES (:id, 'Test', 'test', 1)"),
            {"id": CHANNEL},
        )

    def make(retention: str = "keep") -> Saver:
        return Saver(database, clock=clock, decide_media=lambda _: MediaDecision("pending"), retention=retention)

    return make


def post(message_id: int, words: str = "", **fields: Any) -> Post:
    return Post(
        channel_id=CHANNEL,
        message_id=message_id,
        posted_at=fields.pop("posted_at", START + timedelta(seconds=message_id)),
        text=words or f"post {message_id}",
        **fields,
    )


def reading(*posts: Post, upto: int | None = None, after: int = 0) -> Reading:
    last = max([p.message_id for p in posts] + ([upto] if upto else []))
    return Reading(channel_id=CHANNEL, posts=posts, proven=Coverage.of_spans((after + 1, last + 1)), cursor_id=last)


async def rows(database: AsyncEngine, statement: str) -> list[Any]:
    async with database.connect() as connection:
        return list(await connection.execute(text(statement)))


async def published(database: AsyncEngine, redis: Redis, saver: Saver, event: str, kind: type[Event]) -> list[Event]:
    relay = Relay(database, Publisher(redis), saver.committed)
    while await relay.step():
        pass
    entries: Any = await redis.xrange(stream(event))
    return [found for _, entry in entries for found in decode(kind, entry[FIELD])]


async def test_spec_2_4_a_repeat_changes_nothing(
    make_saver: Callable[..., Saver], database: AsyncEngine, redis: Redis
) -> None:
    saver = make_saver()
    page = reading(post(1), post(2), post(5), upto=6)
    first = await saver.save(page)
    second = await saver.save(page)
    assert [p.message_id for p in first.new] == [1, 2, 5]
    assert not second.changed
    assert len(await rows(database, "SELECT 1 FROM posts")) == 3
    events = await published(database, redis, saver, POSTS_PARSED, PostParsed)
    assert [e.telegram_message_id for e in events if isinstance(e, PostParsed)] == [1, 2, 5]
    ledger = await Channels(database).ledger(CHANNEL)
    assert (ledger.captured, ledger.empty, ledger.unknown) == (3, 2, 0)


async def test_an_edit_is_a_version_and_an_event(
    make_saver: Callable[..., Saver], database: AsyncEngine, redis: Redis
) -> None:
    saver = make_saver()
    await saver.save(reading(post(1, "before")))
    saved = await saver.save(reading(post(1, "after", edited_at=START + timedelta(hours=2))))
    assert [p.text for p in saved.edited] == ["after"]
    assert [tuple(r) for r in await rows(database, "SELECT version, text FROM post_versions")] == [(1, "before")]
    assert [tuple(r) for r in await rows(database, "SELECT version, text FROM posts")] == [(2, "after")]
    events = await published(database, redis, saver, POSTS_PARSED, PostParsed)
    assert {(e.version, e.text) for e in events if isinstance(e, PostParsed)} >= {(2, "after")}


async def test_counters_are_a_series_and_never_an_edit(
    make_saver: Callable[..., Saver], database: AsyncEngine, redis: Redis, clock: Clock
) -> None:
    saver = make_saver()
    for views in (10, 25, 25, 40):
        clock.now += timedelta(minutes=5)
        await saver.save(reading(post(1, counters=Counters.counted(views=views, reactions={"🔥": views // 10}))))
    series = await rows(database, "SELECT views FROM post_counters ORDER BY at")
    assert [row.views for row in series] == [10, 25]
    assert [tuple(r) for r in await rows(database, "SELECT views, version FROM posts")] == [(40, 1)]
    events = await published(database, redis, saver, POSTS_PARSED, PostParsed)
    assert len(events) == 1


async def test_what_a_page_proves_absent_is_marked_deleted_and_may_come_back(
    make_saver: Callable[..., Saver], database: AsyncEngine, redis: Redis
) -> None:
    saver = make_saver()
    await saver.save(reading(post(1), post(2), post(3)))
    gone = await saver.save(reading(post(1), post(3)))
    assert gone.deleted == [2]
    assert [
        r.message_id for r in await rows(database, "SELECT message_id FROM posts WHERE deleted_at IS NOT NULL")
    ] == [2]
    events = await published(database, redis, saver, POSTS_DELETED, PostDeleted)
    assert [e.post_id for e in events if isinstance(e, PostDeleted)] == [post(2).id]
    back = await saver.save(reading(post(1), post(2), post(3)))
    assert [p.message_id for p in back.restored] == [2]
    assert not await rows(database, "SELECT 1 FROM posts WHERE deleted_at IS NOT NULL")


async def test_what_lies_outside_the_proof_is_left_alone(make_saver: Callable[..., Saver]) -> None:
    saver = make_saver()
    await saver.save(reading(post(1), post(2), post(3)))
    saved = await saver.save(reading(post(3), after=2))
    assert saved.deleted == []


@pytest.mark.parametrize("retention, left", [("keep", (1, "post 2")), ("redact", (1, "")), ("mirror", (0, None))])
async def test_retention_of_deleted_posts(
    make_saver: Callable[..., Saver], database: AsyncEngine, retention: str, left: tuple[int, str | None]
) -> None:
    saver = make_saver(retention)
    await saver.save(reading(post(1), post(2)))
    await saver.delete(CHANNEL, [2])
    found = await rows(database, "SELECT text FROM posts WHERE message_id = 2")
    assert (len(found), found[0].text if found else None) == left
    captured = (await rows(database, "SELECT captured FROM channels"))[0].captured
    assert captured == (1 if retention == "mirror" else 2)


async def test_what_was_made_of_a_redacted_post_is_gone_too(
    make_saver: Callable[..., Saver], database: AsyncEngine
) -> None:
    saver = make_saver("redact")
    await saver.save(reading(post(1), post(2)))
    tags = "SELECT id, 'tags', content_hash, '{}', 'local' FROM posts"
    steps = "SELECT id, 'tagging', 'done', text, content_hash, '', 0 FROM posts"
    async with database.begin() as connection:
        for statement in (
            f"INSERT INTO post_enrichment (post_id, kind, content_hash, data, provider) {tags}",
            "INSERT INTO web_pages (url) VALUES ('https://example.org/')",
            "INSERT INTO post_pages (post_id, link, url) SELECT id, 'link', 'https://example.org/' FROM posts",
            f"INSERT INTO post_steps (post_id, stage, outcome, note, content_hash, trace_id, duration_ms) {steps}",
        ):
            await connection.execute(text(statement))
    await saver.delete(CHANNEL, [2])
    both = "SELECT post_id FROM post_enrichment UNION ALL SELECT post_id FROM post_pages"
    assert [row.post_id for row in await rows(database, both)] == [post(1).id] * 2
    assert {row.note for row in await rows(database, "SELECT note FROM post_steps")} == {"", "post 1"}


def picture(message_id: int, group: int = 900, words: str = " ") -> Post:
    media = (Media(kind=MediaKind.PHOTO, file_id=str(message_id), size=10),)
    return post(message_id, words, grouped_id=group, media=media, posted_at=START)


async def test_lesson_20_an_album_over_two_pages_is_one_and_told_once_it_is_whole(
    make_saver: Callable[..., Saver], database: AsyncEngine, redis: Redis
) -> None:
    saver = make_saver()
    first = await saver.save(reading(*(picture(i) for i in (1, 2, 3))))
    assert first.albums_open == 0  # an hour later nothing can follow, as far as is known
    more = await saver.save(reading(picture(4), picture(5, words="caption"), post(20), after=3))
    assert more.albums_open == 0
    events = await published(database, redis, saver, ALBUMS_PARSED, AlbumParsed)
    last = [e for e in events if isinstance(e, AlbumParsed)][-1]
    assert (last.items_count, last.album_kind, last.caption_text.strip()) == (5, "photo", "caption")
    assert last.post_ids == tuple(picture(i).id for i in range(1, 6))
    assert len(await rows(database, "SELECT 1 FROM media_groups")) == 1


async def test_lesson_20_an_album_at_the_newest_end_waits(
    make_saver: Callable[..., Saver], database: AsyncEngine, redis: Redis, clock: Clock
) -> None:
    clock.now = START + timedelta(seconds=2)
    saver = make_saver()
    fresh = await saver.save(reading(picture(1), picture(2)))
    assert fresh.albums_open == 1
    assert not await published(database, redis, saver, ALBUMS_PARSED, AlbumParsed)
    clock.now = START + timedelta(seconds=60)
    later = await saver.save(reading(picture(1), picture(2)))
    assert later.albums_open == 0
    events = await published(database, redis, saver, ALBUMS_PARSED, AlbumParsed)
    assert len(events) == 1


async def test_lesson_13_what_was_not_published_is_published_by_another(
    make_saver: Callable[..., Saver], database: AsyncEngine, redis: Redis
) -> None:
    await make_saver().save(reading(post(1)))  # this process dies before its relay runs
    assert len(await rows(database, "SELECT 1 FROM outbox")) == 1
    other = Saver(database, clock=lambda: START, decide_media=lambda _: MediaDecision("pending"))
    events = await published(database, redis, other, POSTS_PARSED, PostParsed)
    assert len(events) == 1
    assert not await rows(database, "SELECT 1 FROM outbox")


async def test_a_removed_channel_is_skipped(make_saver: Callable[..., Saver], database: AsyncEngine) -> None:
    saver = make_saver()
    async with database.begin() as connection:
        await connection.execute(text("DELETE FROM channels"))
    with pytest.raises(Skip, match="77"):
        await saver.save(reading(post(1)))


async def test_votes_of_a_poll_are_kept_up_to_date_and_are_no_edit(
    make_saver: Callable[..., Saver], database: AsyncEngine
) -> None:
    saver = make_saver()
    asked = Poll(question="Tea or coffee?", answers=("Tea", "Coffee"), voters=3)
    await saver.save(reading(post(1, poll=asked)))
    again = await saver.save(reading(post(1, poll=replace(asked, voters=250, closed=True))))
    assert not again.changed
    found = await rows(database, "SELECT details -> 'poll' AS poll, version FROM posts")
    assert [(row.poll["voters"], row.poll["closed"], row.version) for row in found] == [(250, True, 1)]
