"""Events that a stage tries again later. They wait in Redis beside the stream, so that nothing behind them waits.

Taking one up is a lease: when the process dies, the next one takes it. How often it was taken is counted before it is
handled, for an event may end the process that handles it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import msgspec
from redis.asyncio import Redis
from redis.asyncio.client import Pipeline

from telegram_assistant.names import waiting, waiting_events, waiting_taken
from telegram_assistant.stores.postgres.pipeline import DeadLetters, Letter

LEASE_SECONDS = 120.0

# KEYS: due times, contents, counts. ARGV: now, end of the lease, how many.
_TAKE = """
local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[3])
local taken = {}
for _, id in ipairs(ids) do
  redis.call('ZADD', KEYS[1], ARGV[2], id)
  local content = redis.call('HGET', KEYS[2], id)
  if content then
    table.insert(taken, {id, content, redis.call('HINCRBY', KEYS[3], id, 1)})
  else
    redis.call('ZREM', KEYS[1], id)
  end
end
return taken
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """One event, and what happened to it so far."""

    event: str  # its name
    payload: msgspec.Raw  # as it travelled
    key: str  # its idempotency key: the same event waits once
    attempts: int = 0
    since: float = 0.0  # epoch seconds of the first failure
    reason: str = ""

    @property
    def id(self) -> str:
        return f"{self.event}|{self.key}"


class RetryQueue:
    """Of one stage."""

    def __init__(self, redis: Redis, stage: str, *, lease: float = LEASE_SECONDS) -> None:
        self._redis = redis
        self.lease = lease
        self._keys = waiting(stage), waiting_events(stage), waiting_taken(stage)

    def put(self, pipe: Pipeline, one: Waiting, due: float) -> None:
        """In the transaction that acknowledges it on the stream."""
        due_times, contents, _ = self._keys
        _ = pipe.zadd(due_times, {one.id: due})
        _ = pipe.hset(contents, one.id, msgspec.json.encode(one).decode())

    def remove(self, pipe: Pipeline, ids: Sequence[str]) -> None:
        due_times, contents, taken = self._keys
        _ = pipe.zrem(due_times, *ids)
        _ = pipe.hdel(contents, *ids)
        _ = pipe.hdel(taken, *ids)

    async def take(self, now: float, limit: int) -> list[tuple[Waiting, int]]:
        """Those that are due, leased, each with how often it was taken up."""
        answer = await cast("Any", self._redis.eval(_TAKE, 3, *self._keys, now, now + self.lease, limit))
        return [(msgspec.json.decode(content, type=Waiting), int(taken)) for _, content, taken in answer]

    async def renew(self, ids: Sequence[str], until: float) -> None:
        """While they are being handled."""
        await self._redis.zadd(self._keys[0], dict.fromkeys(ids, until), xx=True)

    async def give_back(self, ids: Sequence[str], due: float) -> None:
        """What was taken up in vain by a process that lives: that it was is forgotten."""
        async with self._redis.pipeline(transaction=True) as pipe:
            _ = pipe.zadd(self._keys[0], dict.fromkeys(ids, due), xx=True)
            _ = pipe.hdel(self._keys[2], *ids)
            await pipe.execute()

    async def size(self) -> int:
        return int(await self._redis.zcard(self._keys[0]))


async def replay(redis: Redis, store: DeadLetters, letters: Iterable[Letter]) -> list[Letter]:
    """Dead letters once more: each waits for the stage that failed, and only for that (G4). Returns those that can."""
    readable = [letter for letter in letters if letter.can_replay]
    for letter in readable:
        waits = Waiting(
            event=letter.event,
            payload=msgspec.Raw(msgspec.json.encode(letter.payload)),
            key=letter.key,
            since=time.time(),
            reason="replayed",
        )
        async with redis.pipeline(transaction=True) as pipe:
            RetryQueue(redis, letter.stage).put(pipe, waits, time.time())
            await pipe.execute()
    await store.replayed(readable)
    return readable
