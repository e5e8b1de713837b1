"""Consumer groups: made for the whole pipeline before anything is trimmed; who reads, and what is left of the dead."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from telegram_assistant.names import stream

UNREAD_KEPT = 1_000  # entries of a stream that nobody reads
IDLE_CONSUMER_MS = 3_600_000

# KEYS: a stream. ARGV: an id. The id of the first entry after it; its content, which may be large, stays where it is.
_FIRST_AFTER = """
local found = redis.call('XRANGE', KEYS[1], '(' .. ARGV[1], '+', 'COUNT', 1)
return found[1] and found[1][1]
"""


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a group is behind on one stream. Counted in entries, each of which holds up to a hundred events."""

    entries: int  # not yet delivered
    pending: int  # delivered, not yet acknowledged
    oldest: float | None  # epoch seconds of the oldest of both; None: nothing waits


async def make_group(redis: Redis, event: str, group: str) -> None:
    """From the first entry on: what was published before the group was there is for it too."""
    try:
        await redis.xgroup_create(stream(event), group, id="0", mkstream=True)
    except ResponseError as exc:
        if "BUSYGROUP" not in str(exc):
            raise


async def lag_of(redis: Redis, event: str, group: str) -> Lag:
    """Redis 7.0 reports a wrong lag after a failover, or after its log was rewritten and it was started again: whether
    something is unread is looked up in the stream itself, and the reported number is believed as far as it can be."""
    name = stream(event)
    if not await redis.exists(name):  # emptied under us
        return Lag(0, 0, None)
    (found,) = [one for one in await redis.xinfo_groups(name) if one["name"] == group] or (None,)
    if found is None:
        return Lag(int(await redis.xlen(name)), 0, None)
    pending = await redis.xpending(name, group)
    unread = await cast("Any", redis.eval(_FIRST_AFTER, 1, name, found["last-delivered-id"]))
    entries = min(max(1, int(found.get("lag") or 1)), int(await redis.xlen(name))) if unread else 0
    oldest = min(filter(None, (pending["min"], unread)), key=_order, default=None)
    return Lag(entries, int(pending["pending"]), _seconds(oldest) if oldest else None)


async def oldest_of(redis: Redis, groups: Iterable[tuple[str, str]]) -> float | None:
    """Epoch seconds of the oldest entry that some group has still to handle. None: nothing is on its way."""
    lags = [await lag_of(redis, event, group) for event, group in groups]
    return min((lag.oldest for lag in lags if lag.oldest is not None), default=None)


async def trim(redis: Redis, event: str) -> int:
    """Drop what every group has acknowledged; how many entries. Never what the slowest still needs."""
    name = stream(event)
    groups = await redis.xinfo_groups(name)
    if not groups:
        return int(await redis.xtrim(name, maxlen=UNREAD_KEPT, approximate=True))
    needed = [await _needed_from(redis, name, group) for group in groups]
    return int(await redis.xtrim(name, minid=min(needed, key=_order), approximate=True))


async def forget_dead_consumers(redis: Redis, event: str, group: str) -> int:
    """Names of processes that ended long ago and owe nothing; what they left was claimed before."""
    name, forgotten = stream(event), 0
    for consumer in await redis.xinfo_consumers(name, group):
        if consumer["pending"] == 0 and consumer["idle"] > IDLE_CONSUMER_MS:
            await redis.xgroup_delconsumer(name, group, consumer["name"])
            forgotten += 1
    return forgotten


async def leave(redis: Redis, events: Iterable[str], group: str, consumer: str) -> None:
    """A consumer that stops takes its name with it, unless something is pending under it: that is for the others."""
    for event in events:
        for one in await redis.xinfo_consumers(stream(event), group):
            if one["name"] == consumer and one["pending"] == 0:
                await redis.xgroup_delconsumer(stream(event), group, consumer)


async def _needed_from(redis: Redis, name: str, group: dict[str, Any]) -> str:
    pending = await redis.xpending(name, group["name"])
    return str(pending["min"] or group["last-delivered-id"])


def _order(entry_id: str) -> tuple[int, int]:
    milliseconds, _, count = entry_id.partition("-")
    return int(milliseconds), int(count or 0)


def _seconds(entry_id: str) -> float:
    return _order(entry_id)[0] / 1000.0
