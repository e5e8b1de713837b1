"""The loop of every stage, on a real Valkey: nothing lost, nothing in anybody's way (G2-G4, LESSONS 13-16, 19)."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, cast
from uuid import UUID, uuid4

import pytest
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from telegram_assistant.bus.consumer import Consumer, ConsumerTimes
from telegram_assistant.bus.retry_queue import RetryQueue
from telegram_assistant.bus.stage import Done, Handler, Outcome, Stage
from telegram_assistant.bus.streams import FIELD, Lag, Publisher, lag_of, make_group, trim
from telegram_assistant.bus.supervisor import Supervisor
from telegram_assistant.domain.events import DeadLetter, Event, MediaSettled, PostDeleted, Step
from telegram_assistant.errors import Reject, Retry, Skip
from telegram_assistant.freshness import Freshness, Rule
from telegram_assistant.names import MEDIA_SETTLED, POSTS_DELETED, stream

pytestmark = pytest.mark.integration

TENANT = UUID(int=1)
QUICK = ConsumerTimes(block_ms=50, linger=0.01, idle_ms=200, beat=0.05, stop=5)


def deleted(number: int) -> PostDeleted:
    return PostDeleted(
        trace_id=f"trace-{number}",
        occurred_at=datetime(2026, 11, 1, tzinfo=UTC),
        idempotency_key=f"key-{number}",
        tenant_id=TENANT,
        post_id=UUID(int=number),
    )


def settled(event: PostDeleted) -> MediaSettled:
    return MediaSettled(
        trace_id=event.trace_id,
        occurred_at=event.occurred_at,
        idempotency_key=event.idempotency_key,
        tenant_id=TENANT,
        channel_id=1,
        post_id=event.post_id,
        content_hash="",
    )


@dataclass
class Kept:
    """Dead letters and steps in a list: what the tables keep is tested with the tables."""

    letters: list[DeadLetter] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    async def add(self, letters: Sequence[DeadLetter]) -> None:
        self.letters += letters

    async def record(self, steps: Sequence[Step]) -> None:
        self.steps += steps


@asynccontextmanager
async def running(
    redis: Redis,
    handler: Handler,
    kept: Kept | None = None,
    *,
    name: str = "one",
    attempts: int = 3,
    batch: int = 100,
    freshness: Freshness | None = None,
) -> AsyncIterator[Supervisor]:
    kept = kept or Kept()
    stage = Stage(
        name="stage", handlers={POSTS_DELETED: handler}, attempts=attempts, first_delay=0.01, batch=batch, concurrency=2
    )
    consumer = Consumer(redis, stage, name=name, letters=kept, steps=kept, times=QUICK, freshness=freshness)
    supervisor = Supervisor(first_delay=0.01)
    await supervisor.start("stage", consumer.run)
    try:
        yield supervisor
    finally:
        await supervisor.stop()
        await consumer.close()


async def until(condition: Callable[[], bool | Awaitable[int]]) -> None:
    """What is awaited happens in another task or in Valkey, and no event tells."""
    async with asyncio.timeout(300):
        while True:
            met = condition()
            if met if isinstance(met, bool) else await met:
                return
            await asyncio.sleep(0.01)


async def drained(redis: Redis) -> None:
    room = RetryQueue(redis, "stage")
    async with asyncio.timeout(300):
        while True:
            lag = await lag_of(redis, POSTS_DELETED, "stage")
            if not lag.entries and not lag.pending and not await room.size():
                return
            await asyncio.sleep(0.01)


async def published(redis: Redis, event: str) -> list[str]:
    entries = await redis.xrange(stream(event)) or []
    return [one["idempotency_key"] for _, fields in entries for one in json.loads((fields or {})[FIELD])]


async def test_each_event_is_handled_published_and_acknowledged(redis: Redis) -> None:
    seen: list[str] = []

    async def handler(events: Sequence[PostDeleted]) -> list[Outcome]:
        seen.extend(event.idempotency_key for event in events)
        return [Done((settled(event),), note="went well") for event in events]

    kept = Kept()
    await Publisher(redis).publish(POSTS_DELETED, [deleted(number) for number in range(250)])
    async with running(redis, handler, kept):
        await until(lambda: len(seen) == 250)
        await drained(redis)
    assert sorted(seen) == sorted(f"key-{number}" for number in range(250))
    assert sorted(await published(redis, MEDIA_SETTLED)) == sorted(seen)  # two batches are under way at once
    assert {(step.outcome, step.note) for step in kept.steps} == {("done", "went well")}
    assert len(kept.steps) == 250
    assert await redis.xinfo_consumers(stream(POSTS_DELETED), "stage") == []  # its name died with it


async def test_a_stage_that_lacks_what_it_needs_is_told_and_one_bad_event_is_not(redis: Redis) -> None:
    """G9: by what is achieved, so that a model that is down shows in minutes, and a dead link never does."""
    later = 0.0
    freshness = Freshness(lambda: time.monotonic() + later)
    freshness.watch("stage", "stage", Rule(within=200.0))
    away, seen = False, 0

    async def handler(events: Sequence[PostDeleted]) -> list[Outcome]:
        nonlocal seen
        seen += 1
        if away:
            raise Retry("the model is away", after=0.05)
        return [Retry("a server of strangers is down") for _ in events]

    async with running(redis, handler, freshness=freshness):
        await Publisher(redis).publish(POSTS_DELETED, [deleted(1)])
        await until(lambda: seen >= 1)
        await drained(redis)
        later += 400
        assert freshness.stale() == []
        away, seen = True, 0
        await Publisher(redis).publish(POSTS_DELETED, [deleted(2)])
        await until(lambda: seen >= 3)
        later += 201
        await until(lambda: bool(freshness.stale()))
        assert freshness.stale()[0].error == "the model is away"


async def test_a_stage_that_fails_with_every_event_is_told_and_one_odd_event_is_not(redis: Redis) -> None:
    """As by a column that is missing: each event is tried a few times and buried, and nothing is ever finished."""
    later = 0.0
    freshness = Freshness(lambda: time.monotonic() + later)
    freshness.watch("stage", "stage", Rule(within=200.0))
    bad, tried = {"key-1"}, 0

    async def handler(events: Sequence[PostDeleted]) -> list[Outcome]:
        nonlocal tried
        tried += 1
        if bad & {event.idempotency_key for event in events}:
            raise LookupError("no such column")
        return [Done() for _ in events]

    async with running(redis, handler, freshness=freshness):
        await Publisher(redis).publish(POSTS_DELETED, [deleted(1)])
        await until(lambda: tried >= 3)
        await drained(redis)
        later += 400
        assert freshness.stale() == []
        bad |= {f"key-{number}" for number in range(2, 9)}
        for number in range(2, 9):
            await Publisher(redis).publish(POSTS_DELETED, [deleted(number)])
            later += 50
        await until(lambda: bool(freshness.stale()))
        assert freshness.stale()[0].error == "LookupError: no such column"
        bad.clear()
        await Publisher(redis).publish(POSTS_DELETED, [deleted(9)])
        await until(lambda: not freshness.stale())


async def test_a_batch_is_whole_however_many_events_an_entry_holds(redis: Redis) -> None:
    """Live posts come one by one: taken one by one they would cost a whole round each."""
    sizes: list[int] = []

    async def handler(events: Sequence[PostDeleted]) -> list[Outcome]:
        sizes.append(len(events))
        return [Done() for _ in events]

    for number in range(400):
        await Publisher(redis).publish(POSTS_DELETED, [deleted(number)])
    async with running(redis, handler, batch=20):
        await until(lambda: sum(sizes) == 400)
        await drained(redis)
        assert max(sizes) == 20
        assert len(sizes) < 40
        sizes.clear()
        await Publisher(redis).publish(POSTS_DELETED, [deleted(number) for number in range(1000)])
        await until(lambda: sum(sizes) == 1000)
        assert max(sizes) == 20


async def test_what_comes_in_quick_succession_is_taken_together(redis: Redis) -> None:
    """A hundred live posts a second, each in a round of its own, took all of a machine."""
    linger, sizes = 0.2, []

    async def handler(events: Sequence[PostDeleted]) -> list[Outcome]:
        sizes.append(len(events))
        return [Done() for _ in events]

    stage = Stage(name="stage", handlers={POSTS_DELETED: handler})
    supervisor = Supervisor()
    await supervisor.start("stage", Consumer(redis, stage, name="one", times=replace(QUICK, linger=linger)).run)
    began = time.monotonic()
    for number in range(60):
        await Publisher(redis).publish(POSTS_DELETED, [deleted(number)])
        await asyncio.sleep(0.01)
    await until(lambda: sum(sizes) == 60)
    took = time.monotonic() - began
    await supervisor.stop()
    assert len(sizes) <= took / linger + 4


async def test_what_was_published_before_the_group_was_there_is_read(redis: Redis) -> None:
    await Publisher(redis).publish(POSTS_DELETED, [deleted(1)])
    seen: list[Event] = []

    async def handler(events: Sequence[PostDeleted]) -> list[Outcome]:
        seen.extend(events)
        return [Done() for _ in events]

    async with running(redis, handler):
        await until(lambda: bool(seen))
    assert seen == [deleted(1)]


async def test_one_that_fails_is_tried_again_and_does_not_hold_up_the_rest(redis: Redis) -> None:
    tried: dict[str, int] = {}

    async def handler(events: Sequence[PostDeleted]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for event in events:
            tried[event.idempotency_key] = tried.get(event.idempotency_key, 0) + 1
            bad = event.idempotency_key == "key-3" and tried["key-3"] < 3
            outcomes.append(Retry("not yet") if bad else Done((settled(event),)))
        return outcomes

    kept = Kept()
    await Publisher(redis).publish(POSTS_DELETED, [deleted(number) for number in range(10)])
    async with running(redis, handler, kept):
        await until(lambda: tried.get("key-3") == 3)
        await drained(redis)
    assert {key: count for key, count in tried.items() if count > 1} == {"key-3": 3}
    assert (await published(redis, MEDIA_SETTLED))[-1] == "key-3"
    assert len(await published(redis, MEDIA_SETTLED)) == 10
    assert kept.letters == []


async def test_after_its_attempts_it_goes_to_the_dead_letters_with_its_traceback(redis: Redis) -> None:
    """LESSONS 16, SPEC 7.4."""
    tried = 0

    async def handler(events: Sequence[PostDeleted]) -> list[Outcome]:
        nonlocal tried
        if any(event.idempotency_key == "key-1" for event in events):
            if len(events) == 1:
                tried += 1
            raise ValueError("nobody foresaw this")
        return [Done((settled(event),)) for event in events]

    kept = Kept()
    await Publisher(redis).publish(POSTS_DELETED, [deleted(number) for number in range(3)])
    async with running(redis, handler, kept, attempts=3):
        await until(lambda: bool(kept.letters))
        await drained(redis)
    (letter,) = kept.letters
    assert tried == 3
    assert letter.attempts == 3
    assert letter.reason == "ValueError: nobody foresaw this (after 3 attempts)"
    assert letter.traceback is not None
    assert "nobody foresaw this" in letter.traceback
    assert (letter.trace_id, letter.tenant_id, letter.key) == ("trace-1", TENANT, "key-1")
    assert json.loads(letter.payload)["post_id"] == str(UUID(int=1))
    assert sorted(await published(redis, MEDIA_SETTLED)) == ["key-0", "key-2"]
    assert {step.outcome for step in kept.steps if step.post_id == UUID(int=1)} == {"waiting", "dead"}


async def test_reject_and_skip_are_final_at_once(redis: Redis) -> None:
    async def handler(events: Sequence[PostDeleted]) -> list[Outcome]:
        return [Reject("never") if event.post_id.int % 2 else Skip("no need") for event in events]

    kept = Kept()
    await Publisher(redis).publish(POSTS_DELETED, [deleted(1), deleted(2)])
    async with running(redis, handler, kept):
        await until(lambda: len(kept.steps) == 2)
        await drained(redis)
    assert [(letter.key, letter.reason) for letter in kept.letters] == [("key-1", "never")]
    assert [(step.outcome, step.note) for step in kept.steps] == [("dead", "never"), ("skipped", "no need")]


async def test_whoever_says_when_to_come_again_uses_up_no_attempt(redis: Redis) -> None:
    tried = 0

    async def handler(events: Sequence[PostDeleted]) -> list[Outcome]:
        nonlocal tried
        tried += 1
        return [Retry("busy", after=0.01) if tried < 8 else Done() for _ in events]

    kept = Kept()
    await Publisher(redis).publish(POSTS_DELETED, [deleted(1)])
    async with running(redis, handler, kept, attempts=2):
        await until(lambda: tried == 8)
        await drained(redis)
    assert kept.letters == []


async def test_what_fails_uses_up_its_attempts_though_it_says_when_to_come_again(redis: Redis) -> None:
    """A stranger's server that is down names a time as often as it is asked."""
    kept = Kept()

    async def handler(events: Sequence[PostDeleted]) -> list[Outcome]:
        return [Done(again=Retry("down", after=0.01, failed=True)) for _ in events]

    await Publisher(redis).publish(POSTS_DELETED, [deleted(1)])
    async with running(redis, handler, kept, attempts=3):
        await drained(redis)
    (letter,) = kept.letters
    assert (letter.attempts, letter.reason) == (3, "down (after 3 attempts)")


@pytest.mark.parametrize("content", ["no json", '{"a": 1}', '[{"post_id": 5}]', "[1]"])
async def test_what_cannot_be_read_is_parked_with_what_it_was(redis: Redis, content: str) -> None:
    seen: list[Event] = []

    async def handler(events: Sequence[PostDeleted]) -> list[Outcome]:
        seen.extend(events)
        return [Done() for _ in events]

    kept = Kept()
    await redis.xadd(stream(POSTS_DELETED), {FIELD: content})
    await Publisher(redis).publish(POSTS_DELETED, [deleted(1)])
    async with running(redis, handler, kept):
        await until(lambda: bool(seen))
        await drained(redis)
    assert [letter.payload for letter in kept.letters] == [content]
    assert seen == [deleted(1)]


async def test_n16_an_entry_without_events_goes_to_the_dead_letters(redis: Redis) -> None:
    """Of another program, or broken: what came is kept, and nothing stays pending."""
    handler_saw: list[Event] = []

    async def handler(events: Sequence[PostDeleted]) -> list[Outcome]:
        handler_saw.extend(events)
        return [Done() for _ in events]

    kept = Kept()
    entry = await redis.xadd(stream(POSTS_DELETED), {"something": "else", "data": "[1]"})
    await Publisher(redis).publish(POSTS_DELETED, [deleted(1)])
    async with running(redis, handler, kept):
        await until(lambda: bool(handler_saw))
        await drained(redis)
    (letter,) = kept.letters
    assert (letter.stage, letter.event, letter.key) == ("stage", POSTS_DELETED, entry)
    assert json.loads(letter.payload) == {"something": "else", "data": "[1]"}
    assert "events" in letter.reason
    assert handler_saw == [deleted(1)]


@pytest.mark.parametrize("read", [0, 1, 400])
async def test_n29_a_wrong_lag_of_the_server_is_not_believed(redis: Redis, read: int) -> None:
    """ENTRIESREAD spoils the server's own count, as a failover of Redis 7.0 does."""
    name, publisher = stream(POSTS_DELETED), Publisher(redis)
    await make_group(redis, POSTS_DELETED, "stage")
    for number in range(3):
        await publisher.publish(POSTS_DELETED, [deleted(number)])
    answer = cast("list[Any]", await redis.xreadgroup("stage", "c", {name: ">"}, count=1))
    (first, _), *_ = answer[0][1]
    await redis.xack(name, "stage", first)
    await redis.xgroup_setid(name, "stage", first, entries_read=read)
    behind = await lag_of(redis, POSTS_DELETED, "stage")
    assert 1 <= behind.entries <= 3
    assert behind.oldest is not None
    (*_, (last, _)) = cast("list[Any]", await redis.xrange(name, min=f"({first}"))
    await redis.xgroup_setid(name, "stage", last, entries_read=read)
    assert await lag_of(redis, POSTS_DELETED, "stage") == Lag(0, 0, None), "all of it was read and acknowledged"


async def test_an_event_of_a_newer_program_waits_for_it(redis: Redis) -> None:
    async def handler(events: Sequence[PostDeleted]) -> list[Outcome]:
        return [Done() for _ in events]

    newer = json.loads(json.dumps({**_plain(deleted(1)), "schema_version": 99, "more": "fields"}))
    await redis.xadd(stream(POSTS_DELETED), {FIELD: json.dumps([newer])})
    kept = Kept()
    async with running(redis, handler, kept):
        room = RetryQueue(redis, "stage")
        await until(room.size)
    assert kept.letters == []
    assert kept.steps == []


async def test_what_a_dead_consumer_left_is_taken_over(redis: Redis) -> None:
    """LESSONS 16: constant names and no claiming left entries pending for ever."""
    await make_group(redis, POSTS_DELETED, "stage")
    await Publisher(redis).publish(POSTS_DELETED, [deleted(number) for number in range(5)])
    await redis.xreadgroup("stage", "dead", {stream(POSTS_DELETED): ">"}, count=10)
    seen: list[str] = []

    async def handler(events: Sequence[PostDeleted]) -> list[Outcome]:
        seen.extend(event.idempotency_key for event in events)
        return [Done() for _ in events]

    async with running(redis, handler):
        await until(lambda: len(seen) == 5)
        await drained(redis)


async def test_slow_work_is_not_taken_over_from_the_living(redis: Redis) -> None:
    go_on = asyncio.Event()
    handled: list[str] = []

    async def slow(events: Sequence[PostDeleted]) -> list[Outcome]:
        handled.extend(event.idempotency_key for event in events)
        await go_on.wait()
        return [Done() for _ in events]

    async def other(events: Sequence[PostDeleted]) -> list[Outcome]:
        raise AssertionError(f"{len(events)} events were taken over")

    await Publisher(redis).publish(POSTS_DELETED, [deleted(1)])
    kept = Kept()
    async with running(redis, slow, kept):
        await until(lambda: bool(handled))
        async with running(redis, other, kept, name="two"):
            await asyncio.sleep(QUICK.idle_ms / 1000 * 3)  # longer than an entry of a dead consumer would lie
            go_on.set()
            await drained(redis)
    assert handled == ["key-1"]
    assert kept.letters == []


async def test_signs_of_life_go_on_after_redis_was_away(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else all that takes long is done twice from then on, as long as the process lives."""
    go_on, failed = asyncio.Event(), asyncio.Event()
    handled: list[str] = []
    xclaim = redis.xclaim

    async def slow(events: Sequence[PostDeleted]) -> list[Outcome]:
        handled.extend(event.idempotency_key for event in events)
        await go_on.wait()
        return [Done() for _ in events]

    async def away_once(*args: Any, **options: Any) -> Any:
        if not failed.is_set():
            failed.set()
            raise RedisConnectionError("it is being restarted")
        return await xclaim(*args, **options)

    monkeypatch.setattr(redis, "xclaim", away_once)
    await Publisher(redis).publish(POSTS_DELETED, [deleted(1)])
    async with running(redis, slow):
        await failed.wait()
        async with running(redis, slow, name="two"):
            await asyncio.sleep(QUICK.idle_ms / 1000 * 3)  # longer than an entry of a dead consumer would lie
            go_on.set()
            await drained(redis)
    assert handled == ["key-1"]


async def test_an_engine_that_is_away_is_nobodys_fault(redis: Redis) -> None:
    """LESSONS 19: later, never done with nothing. The loop is started again and reads first what it owes."""
    away = True
    tried = 0

    async def handler(events: Sequence[PostDeleted]) -> list[Outcome]:
        nonlocal tried
        tried += 1
        if away:
            raise ConnectionRefusedError("no database")
        return [Done() for _ in events]

    kept = Kept()
    await Publisher(redis).publish(POSTS_DELETED, [deleted(1), deleted(2)])
    async with running(redis, handler, kept, attempts=2) as supervisor:
        await until(lambda: tried >= 4)
        assert supervisor.tasks["stage"].restarts >= 3
        away = False
        await drained(redis)
    assert kept.letters == []
    assert [step.outcome for step in kept.steps] == ["done", "done"]


async def test_what_waits_while_an_engine_is_away_is_not_taken_for_deadly(redis: Redis) -> None:
    """G4: the process lives, so nothing has ended it; and when the engine is back nobody waits for a lease."""
    away = True
    tried = 0

    async def handler(events: Sequence[PostDeleted]) -> list[Outcome]:
        nonlocal tried
        tried += 1
        if tried == 1:
            return [Retry("later", after=0.01) for _ in events]
        if away:
            raise ConnectionRefusedError("no database")
        return [Done() for _ in events]

    kept = Kept()
    await Publisher(redis).publish(POSTS_DELETED, [deleted(1)])
    async with running(redis, handler, kept):
        await until(lambda: tried >= 8)
        away = False
        await drained(redis)
    assert kept.letters == []
    assert [step.outcome for step in kept.steps] == ["waiting", "done"]


async def test_an_event_that_ends_its_process_is_found_out(redis: Redis) -> None:
    """As by a crash of a native library: nobody is left to count the attempts but Redis."""
    await make_group(redis, POSTS_DELETED, "stage")
    await Publisher(redis).publish(POSTS_DELETED, [deleted(1), deleted(2)])
    name = stream(POSTS_DELETED)
    await redis.xreadgroup("stage", "dead", {name: ">"}, count=10)
    (entry,) = [str(id_) for id_, _ in await redis.xrange(name) or []]
    for number in range(5):  # claimed again and again, by processes that died
        await redis.xclaim(name, "stage", f"dead-{number}", 0, [entry])
    seen: list[str] = []

    async def handler(events: Sequence[PostDeleted]) -> list[Outcome]:
        seen.extend(event.idempotency_key for event in events)
        return [Done() for _ in events]

    kept = Kept()
    room = RetryQueue(redis, "stage")
    async with running(redis, handler, kept):
        await until(lambda: len(seen) == 2)  # each alone, from the retry queue
        await drained(redis)
    assert kept.letters == []
    assert await room.size() == 0


async def _nothing(events: Sequence[PostDeleted]) -> list[Outcome]:
    return [Retry("later", after=0.01) for _ in events]


async def test_the_deadly_one_is_buried_after_some_deaths(redis: Redis) -> None:
    room = RetryQueue(redis, "stage")
    await Publisher(redis).publish(POSTS_DELETED, [deleted(1)])
    async with running(redis, _nothing):
        await until(room.size)
    for _ in range(5):  # processes that took it up and died: the lease ran out each time
        assert await room.take(9e9, 10)
        await room.renew([f"{POSTS_DELETED}|key-1"], 0.0)
    kept = Kept()
    async with running(redis, _nothing, kept):
        await until(lambda: bool(kept.letters))
        await drained(redis)
    (letter,) = kept.letters
    assert "the process ended each of the 5 times" in letter.reason
    assert json.loads(letter.payload)["idempotency_key"] == "key-1"


async def test_streams_are_trimmed_only_behind_the_slowest_group(redis: Redis) -> None:
    await make_group(redis, POSTS_DELETED, "quick")
    await make_group(redis, POSTS_DELETED, "slow")
    publisher = Publisher(redis)
    for number in range(300):
        await publisher.publish(POSTS_DELETED, [deleted(number)])
    name = stream(POSTS_DELETED)

    async def read(group: str, count: int, *, acknowledge: bool) -> None:
        answer = await redis.xreadgroup(group, "c", {name: ">"}, count=count)
        ids = [id_ for _, entries in cast("list[Any]", answer) for id_, _ in entries]
        if acknowledge:
            await redis.xack(name, group, *ids)

    await read("quick", 300, acknowledge=True)
    await read("slow", 100, acknowledge=True)
    await read("slow", 100, acknowledge=False)
    await trim(redis, POSTS_DELETED)
    first = (await redis.xrange(name, count=1) or [])[0]
    left = await redis.xlen(name)
    assert 200 <= left <= 300  # Valkey drops whole nodes: it may keep some more
    assert left < 300
    pending = await redis.xpending(name, "slow")
    assert first[0] <= pending["min"]


async def test_two_share_the_work_and_none_is_done_twice(redis: Redis) -> None:
    seen: list[tuple[str, str]] = []

    def handler_of(who: str) -> Handler:
        async def handler(events: Sequence[PostDeleted]) -> list[Outcome]:
            seen.extend((who, event.idempotency_key) for event in events)
            await asyncio.sleep(0.005)
            return [Done() for _ in events]

        return handler

    publisher = Publisher(redis)
    for number in range(200):
        await publisher.publish(POSTS_DELETED, [deleted(number)])
    async with running(redis, handler_of("one"), batch=10), running(redis, handler_of("two"), name="two", batch=10):
        await until(lambda: len(seen) >= 200)
        await drained(redis)
    assert len({key for _, key in seen}) == len(seen) == 200
    assert {who for who, _ in seen} == {"one", "two"}


async def test_a_stop_is_heard_at_any_moment(redis: Redis) -> None:
    """Before Python 3.12 the Redis client swallows a cancellation now and then."""
    await Publisher(redis).publish(POSTS_DELETED, [deleted(1)])
    for pause in range(20):
        async with asyncio.timeout(300), running(redis, _nothing):
            await asyncio.sleep(pause / 1000)


async def test_a_stop_finishes_what_is_under_way(redis: Redis) -> None:
    began = asyncio.Event()
    done: list[UUID] = []

    async def handler(events: Sequence[PostDeleted]) -> list[Outcome]:
        began.set()
        await asyncio.sleep(0.2)
        done.extend(event.post_id for event in events)
        return [Done() for _ in events]

    await Publisher(redis).publish(POSTS_DELETED, [deleted(1)])
    async with running(redis, handler):
        await began.wait()
    assert done == [UUID(int=1)]
    assert (await lag_of(redis, POSTS_DELETED, "stage")).pending == 0


def _plain(event: PostDeleted) -> dict[str, str]:
    return {
        "trace_id": event.trace_id,
        "occurred_at": event.occurred_at.isoformat(),
        "idempotency_key": str(uuid4()),
        "tenant_id": str(event.tenant_id),
        "post_id": str(event.post_id),
    }
