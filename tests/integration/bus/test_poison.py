"""What a stage cannot read, or not yet: parked or left waiting, and in nobody's way (G3, G4, LESSONS 15, 16)."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from random import Random
from uuid import UUID

import msgspec
import pytest
from redis.asyncio import Redis

from telegram_assistant.bus.consumer import Consumer, ConsumerTimes
from telegram_assistant.bus.retry_queue import RetryQueue, Waiting
from telegram_assistant.bus.stage import Done, Handler, Outcome, Stage
from telegram_assistant.bus.streams import FIELD, Publisher, lag_of, make_group
from telegram_assistant.bus.supervisor import Supervisor
from telegram_assistant.domain.events import SCHEMA_VERSION, DeadLetter, Event, MediaSettled, PostDeleted
from telegram_assistant.names import MEDIA_SETTLED, POSTS_DELETED, stream, waiting, waiting_taken
from telegram_assistant.stores.redis import text_of

pytestmark = pytest.mark.integration

STAGE = "stage"
QUICK = ConsumerTimes(block_ms=20)


def deleted(number: int) -> PostDeleted:
    return PostDeleted(
        trace_id="t",
        occurred_at=datetime(2026, 11, 1, tzinfo=UTC),
        idempotency_key=f"key-{number}",
        tenant_id=UUID(int=1),
        post_id=UUID(int=number),
    )


def settled(number: int) -> MediaSettled:
    event = deleted(number)
    return MediaSettled(
        trace_id="t",
        occurred_at=event.occurred_at,
        idempotency_key=event.idempotency_key,
        tenant_id=event.tenant_id,
        channel_id=1,
        post_id=event.post_id,
        content_hash="",
    )


def plain(event: Event) -> str:
    return msgspec.json.encode(event).decode()


@dataclass
class Worker:
    """A stage that notes what it is given, and what it gave up."""

    handled: list[str] = field(default_factory=list)
    letters: list[DeadLetter] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0

    async def add(self, letters: Sequence[DeadLetter]) -> None:
        self.letters += letters

    def has_handled(self, key: str) -> bool:
        return key in self.handled

    async def handle(self, events: Sequence[Event]) -> list[Outcome]:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        self.at_once -= 1
        self.handled += [event.idempotency_key for event in events]
        return [Done() for _ in events]

    @asynccontextmanager
    async def running(
        self, redis: Redis, handlers: Mapping[str, Handler] | None = None, *, batch: int = 100
    ) -> AsyncIterator[Supervisor]:
        stage = Stage(name=STAGE, handlers=handlers or {POSTS_DELETED: self.handle}, concurrency=1, batch=batch)
        supervisor = Supervisor(first_delay=0.01)
        await supervisor.start(STAGE, Consumer(redis, stage, name="one", letters=self, times=QUICK).run)
        try:
            yield supervisor
        finally:
            await supervisor.stop()
            assert supervisor.tasks[STAGE].restarts == 0, supervisor.tasks[STAGE].last_error


async def until(condition: Callable[[], bool | Awaitable[bool]]) -> None:
    """What is awaited happens in another task or in Valkey, and no event tells."""
    async with asyncio.timeout(300):
        while True:
            met = condition()
            if met if isinstance(met, bool) else await met:
                return
            await asyncio.sleep(0.01)


async def wait_here(redis: Redis, event: str, payload: str, key: str) -> None:
    """In the retry queue, due now."""
    one = Waiting(event=event, payload=msgspec.Raw(payload.encode()), key=key, since=time.time())
    async with redis.pipeline(transaction=True) as pipe:
        RetryQueue(redis, STAGE).put(pipe, one, time.time())
        await pipe.execute()


async def put_off(redis: Redis) -> bool:
    return await redis.zcount(waiting(STAGE), time.time() + 30, "+inf") > 0


async def test_nonsense_is_parked_and_what_follows_is_handled(redis: Redis) -> None:
    worker = Worker()
    nonsense: list[str | bytes] = ['[{"deep": ' + "[" * 100_000, '[{"deep": ' + "[" * 5_000 + "]" * 5_000 + "}]"]
    nonsense += [b'[{"trace_id": "\xff\xfe"}]', b"\x80\x00\xff"]
    for content in nonsense:
        await redis.xadd(stream(POSTS_DELETED), {FIELD: content})
    await Publisher(redis).publish(POSTS_DELETED, [deleted(1)])
    async with worker.running(redis):
        await until(lambda: worker.handled == ["key-1"])
    assert [letter.event for letter in worker.letters] == [POSTS_DELETED] * 4
    assert (await lag_of(redis, POSTS_DELETED, STAGE)).pending == 0


async def test_an_entry_that_is_not_ours_does_not_stay_pending(redis: Redis) -> None:
    """Left by a dead consumer it would keep the stream from being trimmed, and later posts from being reconciled."""
    worker = Worker()
    await make_group(redis, POSTS_DELETED, STAGE)
    entry = str(await redis.xadd(stream(POSTS_DELETED), {"something": "else"}))
    await redis.xreadgroup(STAGE, "dead", {stream(POSTS_DELETED): ">"})
    await redis.xclaim(stream(POSTS_DELETED), STAGE, "dead", 0, [entry], idle=2 * QUICK.idle_ms)
    async with worker.running(redis):
        await until(partial(nothing_pending, redis))
    assert worker.handled == []


async def nothing_pending(redis: Redis) -> bool:
    lag = await lag_of(redis, POSTS_DELETED, STAGE)
    return not lag.entries and not lag.pending


async def test_one_bad_event_does_not_take_its_batch_with_it(redis: Redis) -> None:
    worker = Worker()
    batch = f'[{plain(deleted(1))}, {{"no": "event"}}, {plain(deleted(2))}, 7]'
    entry = text_of(await redis.xadd(stream(POSTS_DELETED), {FIELD: batch}))
    async with worker.running(redis):
        await until(lambda: worker.handled == ["key-1", "key-2"])
    assert [(letter.key, json.loads(letter.payload)) for letter in worker.letters] == [
        (f"{entry}#1", [{"no": "event"}]),
        (f"{entry}#3", [7]),
    ]


async def test_an_event_of_a_newer_program_is_still_there_when_others_are_taken_up_with_it(redis: Redis) -> None:
    """G3: during an upgrade it waits for the newer process, however often the older one looks."""
    worker, newer = Worker(), replace(deleted(1), schema_version=SCHEMA_VERSION + 1)
    room = RetryQueue(redis, STAGE)
    async with worker.running(redis):
        for number in range(2, 8):
            await wait_here(redis, POSTS_DELETED, plain(newer), "key-1")
            await wait_here(redis, POSTS_DELETED, plain(deleted(number)), f"key-{number}")
            await until(partial(worker.has_handled, f"key-{number}"))
            await until(partial(put_off, redis))
    assert worker.letters == []
    assert await room.size() == 1
    assert await redis.exists(waiting_taken(STAGE)) == 0


async def test_what_was_replayed_and_is_no_event_goes_back_to_the_dead_letters(redis: Redis) -> None:
    worker = Worker()
    await wait_here(redis, POSTS_DELETED, '{"no": "event"}', "entry-1")
    await wait_here(redis, MEDIA_SETTLED, plain(settled(5)), "key-5")
    await wait_here(redis, POSTS_DELETED, plain(deleted(1)), "key-1")
    async with worker.running(redis):
        await until(lambda: worker.handled == ["key-1"])
    assert {(letter.key, letter.event) for letter in worker.letters} == {
        ("entry-1", POSTS_DELETED),
        ("key-5", MEDIA_SETTLED),
    }
    assert "does not read media.settled" in next(one.reason for one in worker.letters if one.key == "key-5")
    assert await RetryQueue(redis, STAGE).size() == 0


async def test_with_one_at_a_time_events_of_several_streams_take_turns(redis: Redis) -> None:
    """G5: else a deletion and an older state of the same post are written into an index side by side."""
    worker = Worker()
    for number in range(1, 40):
        await Publisher(redis).publish(POSTS_DELETED, [deleted(number)])
        await Publisher(redis).publish(MEDIA_SETTLED, [settled(number)])
        await wait_here(redis, POSTS_DELETED, plain(deleted(100 + number)), f"key-{100 + number}")
    handlers = {POSTS_DELETED: worker.handle, MEDIA_SETTLED: worker.handle}
    async with worker.running(redis, handlers, batch=10):
        await until(lambda: len(worker.handled) == 3 * 39)
    assert worker.most_at_once == 1


async def test_a_stop_is_heard_in_the_middle_of_a_sign_of_life(redis: Redis) -> None:
    """LESSONS 15: Python 3.11 forgets a stop that comes together with an answer of Redis, and a stage hung for ever."""

    begun = asyncio.Event()

    async def handle(events: Sequence[Event]) -> list[Outcome]:
        begun.set()
        await asyncio.Event().wait()
        return [Done() for _ in events]

    stage = Stage(name=STAGE, handlers={POSTS_DELETED: handle})
    rng = Random(1)
    for number in range(40):
        await Publisher(redis).publish(POSTS_DELETED, [deleted(number)])
        times = ConsumerTimes(block_ms=20, beat=0.0, stop=0.0)
        consumer = Consumer(redis, stage, name=f"worker-{number}", times=times)
        supervisor = Supervisor()
        await supervisor.start(STAGE, consumer.run)
        await begun.wait()
        begun.clear()
        for _ in range(rng.randrange(60)):
            await asyncio.sleep(0)
        async with asyncio.timeout(300):
            await supervisor.stop()
