"""Histories that are large, sparse or hidden: everything else goes on beside them, and nothing is taken for empty."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any

import psutil

from faults.installation import Installation
from faults.trial import Fault, Scope
from telegram_assistant.ingest.audit import ask_audit
from telegram_simulator.model import Channel, Message

HIGH_IDS = range(10_531, 10_562)
LARGEST, EVERY = 300_000, 1_500  # ids of a channel, of which every so-manieth is left
LONGEST_ANSWER, MOST_MEMORY = 5.0, 64 * 2**20  # seconds of a health page, and bytes, while it is audited
BIG, SMALL, SMALL_ONES = 3_500, 150, 5  # posts, posts, channels
GROUP, HIDDEN = 40, 25  # posts, and how many of them one account is not shown

# What was deleted stays as a row: as many of them lie between two posts that are left.
TOMBSTONES = """
INSERT INTO posts (id, channel_id, message_id, posted_at, text, content_hash, captured_at, counters_at, deleted_at)
SELECT gen_random_uuid(), :id, n, now() - interval '9 days', '', 'x', now(), now(), now()
FROM generate_series(1, :last) AS n ON CONFLICT (channel_id, message_id) DO NOTHING
"""
GAPS = """
SELECT 1 FROM channels WHERE id = ANY(:ids) AND (cursor_id = 0
OR NOT coverage @> int8range(least(requested_from, cursor_id), cursor_id + 1))
"""


async def opened(lane: Installation, name: str, ids: Iterable[int], *, group: bool = False) -> Channel:
    """A further channel, with posts of some age; the first account has joined it. Groups are private."""
    world, now = lane.telegram.world, datetime.now(UTC)
    number = len(world.channels) + 1
    channel = Channel(
        id=min(world.channels) + 2_000_000 + number,
        access_hash=5,
        title=name,
        username=None if group else f"faults_{name}_{number}",
        created=now - timedelta(days=90),
        group=group,
        private=group,  # a public one is read by any account, which is shown everything
    )
    world.add_channel(channel)
    ids = list(ids)
    for place, one in enumerate(ids):
        age = timedelta(days=40) * (len(ids) - place) / len(ids)
        world.post(channel, Message(one, now - age, lane.telegram.text()))
    channel.members.add(min(world.users))  # not before: nothing of this is told live
    return channel


async def watched(lane: Installation, channel: Channel, *, asked: bool = True) -> None:
    """Visited at once; with all its history, or only with what is new."""
    await lane.change(
        "INSERT INTO channels (id, title, username, is_group, requested_from, access_hash, next_visit_at)"
        " VALUES (:id, :title, :name, :group, :first, jsonb_build_object(CAST(:account AS text), 5), now())",
        id=channel.id,
        title=channel.title,
        name=channel.username,
        group=channel.group,
        first=1 if asked else None,
        account=lane.accounts[0],
    )


async def stored(lane: Installation, channel: Channel) -> int:
    statement = "SELECT count(*) AS posts FROM posts WHERE channel_id = :id AND deleted_at IS NULL"
    return int((await lane.rows(statement, id=channel.id))[0].posts)


async def until(lane: Installation, not_yet: str, **values: Any) -> None:
    """Wait until a statement finds nothing any more."""
    async with asyncio.timeout(240):
        while await lane.rows(not_yet, **values):  # noqa: ASYNC110 - the database does not tell
            await asyncio.sleep(0.5)


async def until_stored(lane: Installation, channel: Channel, *, without: int = 0) -> None:
    """All posts but so many; there may be new ones meanwhile."""
    async with asyncio.timeout(240):
        while await stored(lane, channel) != len(channel.messages) - without:  # noqa: ASYNC110 - the database is silent
            await asyncio.sleep(0.5)


@asynccontextmanager
async def high_ids(lane: Installation) -> AsyncIterator[None]:
    """A new channel whose ids begin far above 1: the ledger must come to its end."""
    await watched(lane, await opened(lane, "high", HIGH_IDS))
    yield


@asynccontextmanager
async def mostly_deleted(lane: Installation) -> AsyncIterator[None]:
    """A channel of many posts, of which few are left, with ids far apart."""
    channel = await opened(lane, "large", range(EVERY, LARGEST + 1, EVERY))
    await watched(lane, channel)
    await until_stored(lane, channel)
    await lane.change(TOMBSTONES, id=channel.id, last=LARGEST)
    lane.victim = channel.id
    yield
    await lane.change("DELETE FROM posts WHERE channel_id = :id AND content_hash = 'x'", id=channel.id)


async def audited(lane: Installation) -> str | None:
    """An audit, and a deletion of the first and the last post: how long a health page takes meanwhile, and how much
    memory."""
    channel, process = lane.telegram.world.channels[lane.victim], psutil.Process(lane.pid("ingest"))
    longest, before = [0.0], process.memory_info().rss
    looking = asyncio.ensure_future(_looking(lane, longest))
    try:
        answer = await ask_audit(lane.redis, channel.id, seconds=200, poll=0.2)
        lane.telegram.world.delete(channel, [min(channel.messages), max(channel.messages)])
        lane.telegram.post(channel)
        await until_stored(lane, channel)
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
    if answer is None or answer.finding is None:
        raise RuntimeError(f"the audit came to no end: {answer}")
    grown = process.memory_info().rss - before
    if longest[0] > LONGEST_ANSWER or grown > MOST_MEMORY:
        raise RuntimeError(f"a health page took {longest[0]:.1f} s, and memory grew by {grown / 2**20:.0f} MB")
    return f"audited {answer.finding.audited} ids; the longest answer of a health page took {longest[0]:.1f} s"


async def _looking(lane: Installation, longest: list[float]) -> None:
    while True:
        began = monotonic()
        with suppress(OSError):
            await lane.health()
        longest[0] = max(longest[0], monotonic() - began)
        await asyncio.sleep(0.1)


@asynccontextmanager
async def big_and_small(lane: Installation) -> AsyncIterator[None]:
    """A large history is asked for first and matters more; then small ones, of the same account."""
    big = await opened(lane, "big", range(1, BIG + 1))
    small = [await opened(lane, f"small_{number}", range(3, 3 * SMALL + 1, 3)) for number in range(SMALL_ONES)]
    for channel in (big, *small):
        await watched(lane, channel, asked=False)
    ids = [channel.id for channel in (big, *small)]
    await until(lane, "SELECT 1 FROM channels WHERE id = ANY(:ids) AND last_success_at IS NULL", ids=ids)
    ask = "UPDATE channels SET history_from = '2013-01-01Z'"
    await lane.change(f"{ask}, priority = 9 WHERE id = :id", id=big.id)
    async with asyncio.timeout(120):
        while await stored(lane, big) <= 2 * SMALL:  # noqa: ASYNC110 - the database does not tell
            await asyncio.sleep(0.2)
    await lane.change(f"{ask} WHERE id = ANY(:ids)", ids=ids[1:])
    lane.victim = big.id
    yield


async def small_ones_first(lane: Installation) -> str | None:
    """How much of the big one was still to be read when the small ones were whole."""
    small = [channel for channel in lane.telegram.channels if channel.title.startswith("small")]
    if sum([await stored(lane, channel) for channel in small]) < SMALL_ONES * SMALL:
        return None
    left = BIG - await stored(lane, lane.telegram.world.channels[lane.victim])
    if left <= 0:
        raise RuntimeError("the small ones were whole only after the big one")
    return f"{SMALL_ONES} small histories were whole when {left} posts of the big one were still to be read"


@asynccontextmanager
async def hidden(lane: Installation) -> AsyncIterator[None]:
    """A group shows one account only what came later; in the end another account, which is shown all, reads it too."""
    group = await opened(lane, "club", range(4, 4 * GROUP + 1, 4), group=True)
    border = list(group.messages)[HIDDEN - 1]
    first, other = sorted(lane.telegram.world.users)[:2]
    group.hidden[first] = border
    await watched(lane, group)
    await until_stored(lane, group, without=HIDDEN)
    await until(lane, GAPS, ids=[group.id])
    statement = (
        "SELECT coverage && int8range(1, :border, '[]') AS empty, hidden_up_to, requested_from, coverage::text"
        " FROM channels WHERE id = :id"
    )
    row = (await lane.rows(statement, id=group.id, border=border))[0]
    if row.empty or row.hidden_up_to != border:
        raise RuntimeError(f"what is hidden up to {border} was taken for empty: {row}")
    yield
    group.members.add(other)
    statement = "UPDATE channels SET access_hash = access_hash || jsonb_build_object(CAST(:account AS text), 5)"
    await lane.change(f"{statement} WHERE id = :id", id=group.id, account=lane.accounts[1])


FAULTS = (
    Fault(name="A channel's ids begin at 10531", mark="N24", scope=Scope.NOTHING, broken=high_ids, lasts=5),
    Fault(
        name="A channel of 300,000 ids, most of them deleted, is audited",
        mark="N6",
        scope=Scope.STAGE,
        broken=mostly_deleted,
        notice=audited,
    ),
    Fault(
        name="A large history is read, and small ones are asked for",
        mark="N10",
        scope=Scope.STAGE,
        broken=big_and_small,
        notice=small_ones_first,
    ),
    Fault(name="A group hides its history from one account", mark="N22", scope=Scope.NOTHING, broken=hidden, lasts=5),
)
