"""Consumer groups: made for the whole pipeline before anything is trimmed; who reads, and what is left of the dead."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from telegram_assistant.names import stream

UNREAD_KEPT = 1_000  # entries of a stream that nobody reads
IDLE_CONSUMER_MS = 3_600_000


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
    name = stream(event)
    (found,) = [one for one in await redis.xinfo_groups(name) if one["name"] == group] or (None,)
    if found is None:
        return Lag(int(await redis.xlen(name)), 0, None)
    pending = await redis.xpending(name, group)
    oldest = pending["min"]
    behind = found.get("lag")
    if oldest is None and behind != 0:
        rest = await redis.xrange(name, min=f"({found['last-delivered-id']}", count=1) or []
        oldest = rest[0][0] if rest else None
        behind = behind if behind is not None else len(rest)
    return Lag(int(behind or 0), int(pending["pending"]), _seconds(oldest) if oldest else None)


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
