"""Streams of Redis: how events are written into an entry, published, and read by consumer groups.

An entry carries a batch of events as a JSON array in the field `events`. That costs a twentieth of an entry per event,
and people can still read it with XRANGE.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Raw
from redis.asyncio import Redis
from redis.asyncio.client import Pipeline
from redis.exceptions import RedisError, ResponseError

from telegram_assistant.domain.events import EVENTS, SCHEMA_VERSION, Event
from telegram_assistant.errors import Reject, Retry, in_words
from telegram_assistant.names import stream

FIELD = "events"
LONGEST_NAME = 500  # characters of what an event is called by: more fits into no index of the tables
E = TypeVar("E", bound=Event)

_encoder = msgspec.json.Encoder()
_decoders: dict[type[Event], msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(list[kind])  # type: ignore[valid-type]  # the type is made at run time
    for kind in EVENTS.values()
}
EVENTS_PER_ENTRY = 100
UNREAD_KEPT = 1_000  # entries of a stream without a reader
IDLE_CONSUMER_MS = 3_600_000
# KEYS: a stream. ARGV: an id. The id of the first entry after it; its content, which may be large, stays where it is.
_FIRST_AFTER = """
local found = redis.call('XRANGE', KEYS[1], '(' .. ARGV[1], '+', 'COUNT', 1)
return found[1] and found[1][1]
"""


def encode(batch: Sequence[Event | msgspec.Raw]) -> bytes:
    return _encoder.encode(batch)


def decode(kind: type[E], payload: bytes | str) -> list[E]:
    """Raises Reject for what no version of ours has written."""
    try:
        batch: list[E] = _decoders[kind].decode(payload)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as exc:  # nested deeper than any event, or no text
        raise Reject(f"not a batch of {kind.__name__}: {exc}") from exc
    if any(map(_is_odd, batch)):
        raise Reject(f"not a batch of {kind.__name__}: a name in its envelope is too long, or has a NUL in it")
    newer = [event for event in batch if event.schema_version > SCHEMA_VERSION]
    if newer:
        raise Retry(f"{kind.__name__} of version {newer[0].schema_version} is newer than this program: upgrade it")
    return batch


def _is_odd(event: Event) -> bool:
    """The tables could keep neither its steps nor its dead letter: it would be tried for ever."""
    names = event.trace_id, event.idempotency_key, getattr(event, "content_hash", "")
    return any(len(name) > LONGEST_NAME or "\0" in name for name in names)


class Publisher:
    """Publish only what is committed (effect, publish, ack)."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def publish(self, event: str, events: Sequence[Event | Raw]) -> None:
        """Raises Retry when Redis is away: what was not published stays in the outbox."""
        await self.publish_all([(event, events)])

    async def publish_all(self, batches: Iterable[tuple[str, Sequence[Event | Raw]]]) -> None:
        """In this order, in one go."""
        try:
            async with self._redis.pipeline(transaction=False) as pipe:
                for event, events in batches:
                    add_to(pipe, event, events)
                await pipe.execute()
        except (RedisError, OSError) as exc:
            raise Retry(f"Redis does not take events: {in_words(exc)}") from exc


def add_to(pipe: Pipeline, event: str, events: Sequence[Event | Raw]) -> None:
    """As part of a pipeline or transaction."""
    for start in range(0, len(events), EVENTS_PER_ENTRY):
        _ = pipe.xadd(stream(event), {FIELD: encode(events[start : start + EVENTS_PER_ENTRY])})


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
