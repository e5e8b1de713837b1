"""What the bus costs: events through stages that do nothing, beside the same bytes through plain Redis commands."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID

from redis.asyncio import Redis

from bench.engines import started_engines
from bench.figure import Figure
from telegram_assistant.bus.consumer import Consumer
from telegram_assistant.bus.stage import Done, Outcome, Stage
from telegram_assistant.bus.streams import EVENTS_PER_ENTRY, FIELD, Publisher, encode, make_group
from telegram_assistant.bus.supervisor import Supervisor
from telegram_assistant.domain.events import PostParsed
from telegram_assistant.names import POSTS_PARSED, stream
from telegram_assistant.wiring.roles import collect_garbage_less

EVENTS = 20_000
STAGES = 10
REPETITIONS = 3
RAW_BATCH = 500
MOMENT = datetime(2026, 11, 1, tzinfo=UTC)


def event(number: int) -> PostParsed:
    """About 1 KB, as a post of a news channel is."""
    return PostParsed(
        trace_id="0123456789abcdef",
        occurred_at=MOMENT,
        idempotency_key=f"posts.parsed:{number}",
        tenant_id=UUID(int=1),
        channel_id=1_000_000_001,
        post_id=UUID(int=number),
        version=1,
        telegram_message_id=number,
        telegram_post_url=f"https://t.me/channel/{number}",
        text="Новости одной строкой. " * 10,
        urls=("https://example.org/a/b",),
        posted_at=MOMENT,
        content_hash="0" * 64,
        has_media=False,
    )


async def raw(redis: Redis, payloads: Sequence[bytes]) -> float:
    """A pipelined XADD, XREADGROUP and XACK of the same bytes, an entry for each event; seconds."""
    name = "bench:raw"
    await redis.delete(name)
    await redis.xgroup_create(name, "g", id="0", mkstream=True)
    began = time.perf_counter()
    for start in range(0, len(payloads), RAW_BATCH):
        async with redis.pipeline(transaction=False) as pipe:
            for payload in payloads[start : start + RAW_BATCH]:
                _ = pipe.xadd(name, {FIELD: payload})
            await pipe.execute()
        answer = await redis.xreadgroup("g", "c", {name: ">"}, count=RAW_BATCH)
        ids = [id_ for _, entries in answer or [] for id_, _ in entries]  # type: ignore[union-attr, str-unpack] # lists
        await redis.xack(name, "g", *ids)
    return time.perf_counter() - began


async def through(redis: Redis, events: Sequence[PostParsed], stages: int) -> float:
    """Publish them, and let every stage read, handle and acknowledge all of them; seconds per hop."""
    await redis.delete(stream(POSTS_PARSED))
    seen = [0] * stages
    done = asyncio.Event()

    def stage(number: int) -> Stage:
        async def handle(batch: Sequence[PostParsed]) -> list[Outcome]:
            seen[number] += len(batch)
            if min(seen) == len(events):
                done.set()
            return [Done() for _ in batch]

        return Stage(name=f"bench{number}", handlers={POSTS_PARSED: handle}, batch=500)

    made = [stage(number) for number in range(stages)]
    for one in made:
        await make_group(redis, POSTS_PARSED, one.name)
    supervisor = Supervisor()
    publisher = Publisher(redis)
    began = time.perf_counter()
    for one in made:
        await supervisor.start(one.name, Consumer(redis, one, name="bench").run)
    for start in range(0, len(events), EVENTS_PER_ENTRY * 5):
        await publisher.publish(POSTS_PARSED, events[start : start + EVENTS_PER_ENTRY * 5])
    async with asyncio.timeout(120):
        await done.wait()
    took = time.perf_counter() - began
    await supervisor.stop()
    return took / stages


async def _measure() -> list[Figure]:
    events = [event(number) for number in range(EVENTS)]
    payloads = [encode([one]) for one in events]
    async with started_engines() as engines:
        collect_garbage_less()  # as the worker does
        limits, one, ten = [], [], []
        for _ in range(REPETITIONS):
            limits.append(await raw(engines.redis, payloads))
            one.append(await through(engines.redis, events, 1))
            ten.append(await through(engines.redis, events, STAGES))
    return [
        Figure("bus_events", EVENTS / min(one), "events/s", EVENTS / min(limits)),
        Figure("bus_events_per_hop_of_ten_stages", EVENTS / min(ten), "events/s", EVENTS / min(one)),
    ]


def run() -> list[Figure]:
    """At least 0.30 of the raw protocol; and ten stages no worse per hop than one."""
    return asyncio.run(_measure())
