"""Pages and live updates overtake each other: what is stored never goes back, and each cause has a key of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from redis.asyncio import Redis
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.bus.streams import FIELD, Publisher, decode
from telegram_assistant.bus.supervisor import Supervisor
from telegram_assistant.domain.events import EVENTS
from telegram_assistant.domain.ledger import Coverage
from telegram_assistant.domain.media_rules import MediaDecision
from telegram_assistant.domain.post import Post
from telegram_assistant.ingest.relay import Relay
from telegram_assistant.ingest.saver import Reading, Saver
from telegram_assistant.names import ALBUMS_PARSED, POSTS_DELETED, POSTS_PARSED, stream
from telegram_assistant.stores.postgres import outbox
from telegram_assistant.stores.postgres.database import raw_transaction

pytestmark = pytest.mark.integration

CHANNEL = 7
START = datetime(2026, 1, 5, 12, tzinfo=UTC)


class Clock:
    """A clock that goes on a second with every look."""

    def __init__(self) -> None:
        self.now = START + timedelta(hours=1)

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def make_saver(database: AsyncEngine, clock: Clock) -> Callable[..., Saver]:
    async with database.begin() as connection:
        await connection.execute(text("INSERT INTO channels (id, title, requested_from) VALUES (7, 'Seven', 1)"))

    def make(retention: str = "keep") -> Saver:
        return Saver(database, clock=clock, decide_media=lambda _: MediaDecision("pending"), retention=retention)

    return make


def post(number: int, words: str, edited: int | None = None, group: int | None = None) -> Post:
    edited_at = None if edited is None else START + timedelta(minutes=edited)
    return Post(
        channel_id=CHANNEL, message_id=number, posted_at=START, text=words, edited_at=edited_at, grouped_id=group
    )


def page(*posts: Post, asked_at: datetime | None = None, last: int = 3) -> Reading:
    proven = Coverage.of_spans((1, last + 1))
    return Reading(channel_id=CHANNEL, posts=posts, proven=proven, newest_id=last, asked_at=asked_at)


def pushed(one: Post) -> Reading:
    ids = Coverage.of_ids([one.message_id])
    return Reading(channel_id=CHANNEL, posts=[one], proven=ids, reached_end=False, live=True)


async def stored(database: AsyncEngine) -> list[tuple[str, int, bool]]:
    statement = text("SELECT text, version, deleted_at IS NULL FROM posts ORDER BY message_id")
    async with database.connect() as connection:
        return [(row[0], row[1], row[2]) for row in await connection.execute(statement)]


async def told(database: AsyncEngine, redis: Redis, saver: Saver, event: str) -> list[Any]:
    relay = Relay(database, Publisher(redis), saver.committed)
    while await relay.step():
        pass
    entries: Any = await redis.xrange(stream(event))
    return [one for _, entry in entries for one in decode(EVENTS[event], entry[FIELD])]


async def test_an_old_page_does_not_undo_what_came_live_meanwhile(
    make_saver: Callable[..., Saver], database: AsyncEngine, clock: Clock
) -> None:
    saver, old = make_saver(), (post(1, "one"), post(2, "two"), post(3, "three"))
    await saver.save(page(*old))
    asked_at = clock()
    await saver.save(pushed(post(2, "two, edited", 5)))
    await saver.delete(CHANNEL, [3])
    saved = await saver.save(page(*old, asked_at=asked_at))
    assert not saved.changed
    assert await stored(database) == [("one", 1, True), ("two, edited", 2, True), ("three", 1, False)]
    later = await saver.save(page(*old, asked_at=clock()))
    assert [p.message_id for p in later.edited] == [2], "a page that was asked for later is right, whatever it says"
    assert [p.message_id for p in later.restored] == [3]
    assert await stored(database) == [("one", 1, True), ("two", 3, True), ("three", 2, True)]


async def test_an_old_page_does_not_undo_a_post_that_was_first_seen_after_its_edit(
    make_saver: Callable[..., Saver], database: AsyncEngine, clock: Clock
) -> None:
    saver, asked_at = make_saver(), clock()
    await saver.save(pushed(post(1, "edited at once", 1)))
    assert not (await saver.save(page(post(1, "first words"), asked_at=asked_at))).changed
    assert await stored(database) == [("edited at once", 1, True)]


async def test_a_live_update_that_waited_too_long_changes_nothing(
    make_saver: Callable[..., Saver], database: AsyncEngine
) -> None:
    saver = make_saver()
    await saver.save(page(post(1, "one, twice edited", 9), post(2, "two"), post(3, "three")))
    await saver.save(pushed(post(1, "one, thrice edited", 12)))
    await saver.delete(CHANNEL, [2])
    assert not (await saver.save(pushed(post(1, "one, once edited", 3)))).changed
    assert not (await saver.save(pushed(post(2, "two")))).changed, "only a page can bring a post back"
    assert await stored(database) == [("one, thrice edited", 2, True), ("two", 1, False), ("three", 1, True)]


async def test_a_redacted_post_that_comes_back_has_its_words_again(
    make_saver: Callable[..., Saver], database: AsyncEngine
) -> None:
    saver = make_saver("redact")
    await saver.save(page(post(1, "one"), last=1))
    await saver.delete(CHANNEL, [1])
    assert [words for words, _, _ in await stored(database)] == [""]
    await saver.save(page(post(1, "one"), last=1))
    assert [(words, there) for words, _, there in await stored(database)] == [("one", True)]


async def test_a_post_that_goes_twice_is_told_twice(
    make_saver: Callable[..., Saver], database: AsyncEngine, redis: Redis
) -> None:
    saver = make_saver()
    await saver.save(page(post(1, "one"), last=1))
    await saver.delete(CHANNEL, [1])
    await saver.save(page(post(1, "one"), last=1))
    await saver.delete(CHANNEL, [1])
    keys = [event.idempotency_key for event in await told(database, redis, saver, POSTS_DELETED)]
    assert len(keys) == len(set(keys)) == 2


async def test_an_album_with_other_items_has_another_key_although_they_are_as_many(
    make_saver: Callable[..., Saver], database: AsyncEngine, redis: Redis
) -> None:
    saver = make_saver()
    items = [post(number, f"item {number}", group=55) for number in (1, 2, 3)]
    await saver.save(page(*items[:2], last=2))
    await saver.save(page(*items))
    await saver.save(page(items[0], items[2]))
    events = await told(database, redis, saver, ALBUMS_PARSED)
    assert [event.items_count for event in events][-1] == 2
    assert len({event.idempotency_key for event in events}) == len({event.post_ids for event in events})
    await saver.save(page())
    async with database.connect() as connection:
        assert not list(await connection.execute(text("SELECT 1 FROM media_groups"))), "nothing is left of it"


async def test_an_album_that_a_page_cuts_is_not_told_before_the_next(
    make_saver: Callable[..., Saver], database: AsyncEngine, redis: Redis
) -> None:
    saver = make_saver()
    items = [post(number, f"item {number}", group=55) for number in (1, 2, 3, 4)]
    first = Reading(
        channel_id=CHANNEL, posts=items[:2], proven=Coverage.of_spans((1, 3)), newest_id=2, reached_end=False
    )
    await saver.save(first)
    assert await told(database, redis, saver, ALBUMS_PARSED) == []
    await saver.save(page(*items, last=4))
    assert [event.items_count for event in await told(database, redis, saver, ALBUMS_PARSED)] == [4]


async def test_one_relay_at_a_time(make_saver: Callable[..., Saver], database: AsyncEngine, redis: Redis) -> None:
    """A second one would publish a deletion while the first still holds the post itself."""
    saver = make_saver()
    await saver.save(page(post(1, "one"), last=1))
    async with raw_transaction(database) as connection:
        assert await outbox.take(connection, most=10, events=1000)
        assert await Relay(database, Publisher(redis), saver.committed).step() == 0
    assert await Relay(database, Publisher(redis), saver.committed).step() == 1


class Dies(Publisher):
    """As a process that is killed just before, or just after, Redis has the events."""

    def __init__(self, redis: Redis, *, after: bool) -> None:
        super().__init__(redis)
        self._after = after

    async def publish_all(self, batches: Iterable[tuple[str, Sequence[Any]]]) -> None:
        if self._after:
            await super().publish_all(batches)
        raise KeyboardInterrupt


async def test_many_small_batches_are_published_together_in_their_order(
    make_saver: Callable[..., Saver], database: AsyncEngine, redis: Redis
) -> None:
    """Live posts are a batch each; taken one by one they would cost a write to disk each."""
    saver = make_saver()
    for number in range(1, 31):
        one = [post(number, f"post {number}")]
        proven = Coverage.of_spans((number, number + 1))
        await saver.save(Reading(channel_id=CHANNEL, posts=one, proven=proven, newest_id=number, reached_end=False))
    relay = Relay(database, Publisher(redis), saver.committed)
    assert await relay.step() == 30
    assert await redis.xlen(stream(POSTS_PARSED)) == 1
    told_ids = [event.telegram_message_id for event in await told(database, redis, saver, POSTS_PARSED)]
    assert told_ids == list(range(1, 31))
    assert await relay.step() == 0


@pytest.mark.parametrize("after", [False, True], ids=["before Redis has them", "after Redis has them"])
async def test_g3_a_kill_while_publishing_loses_no_event_and_a_second_one_has_the_same_key(
    make_saver: Callable[..., Saver], database: AsyncEngine, redis: Redis, *, after: bool
) -> None:
    saver = make_saver()
    await saver.save(page(post(1, "one"), post(2, "two"), last=2))
    with pytest.raises(KeyboardInterrupt):
        await Relay(database, Dies(redis, after=after), saver.committed).step()
    keys = [event.idempotency_key for event in await told(database, redis, saver, POSTS_PARSED)]
    assert len(set(keys)) == 2, "none is lost"
    assert len(keys) == (4 if after else 2), "who handles a key once handles each post once"


class Slow(Publisher):
    """Redis has the events, and its answer is on its way."""

    def __init__(self, redis: Redis) -> None:
        super().__init__(redis)
        self.published = asyncio.Event()

    async def publish_all(self, batches: Iterable[tuple[str, Sequence[Any]]]) -> None:
        await super().publish_all(batches)
        self.published.set()
        await asyncio.sleep(0.2)


async def test_g3_a_stop_while_publishing_tells_nothing_twice(
    make_saver: Callable[..., Saver], database: AsyncEngine, redis: Redis
) -> None:
    saver, publisher, supervisor = make_saver(), Slow(redis), Supervisor()
    await saver.save(page(post(1, "one"), post(2, "two"), last=2))
    await supervisor.start("relay", Relay(database, publisher, saver.committed).run)
    await publisher.published.wait()
    await supervisor.stop()
    keys = [event.idempotency_key for event in await told(database, redis, saver, POSTS_PARSED)]
    assert len(keys) == len(set(keys)) == 2


async def test_only_a_new_post_that_was_pushed_counts_as_parsed_outside_of_a_visit(
    make_saver: Callable[..., Saver], database: AsyncEngine, clock: Clock
) -> None:
    saver = make_saver()

    async def parsed_at() -> datetime | None:
        async with database.connect() as connection:
            found: datetime | None = await connection.scalar(text("SELECT last_parsed_at FROM channels"))
            return found

    await saver.save(pushed(post(1, "one")))
    assert await parsed_at() is None  # it was never visited, and is still to be
    async with database.begin() as connection:
        await connection.execute(text("UPDATE channels SET last_parsed_at = :start"), {"start": START})
    await saver.save(pushed(post(1, "one, edited", edited=5)))
    await saver.save(page(post(1, "one, edited", edited=5), post(2, "two")))
    assert await parsed_at() == START
    await saver.save(pushed(post(4, "four")))
    assert await parsed_at() == clock.now
