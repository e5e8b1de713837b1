"""Posting-interval statistics of channels: from the cache in Redis, from the channel's row behind it (SPEC 3.1)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import asdict
from datetime import datetime, timedelta

import msgspec
from redis.asyncio import Redis

from telegram_assistant.domain.silence import IntervalStats
from telegram_assistant.log import get_logger
from telegram_assistant.names import interarrival_stats
from telegram_assistant.stores.postgres.rhythms import Intervals

TTL = timedelta(hours=1)
SHOWN = 10  # channels that a line of the log names

log = get_logger(__name__)


class Statistics:
    """`interarrival_stats:{channel_id}` is JSON with a TTL of an hour, and is dropped after a parse.

    What stands behind it is renewed with every tick, so that also what live updates brought counts.
    """

    def __init__(self, redis: Redis, intervals: Intervals, *, window: timedelta, clock: Callable[[], datetime]) -> None:
        self._redis = redis
        self._intervals = intervals
        self._window = window
        self._clock = clock

    async def of(self, channel_id: int) -> IntervalStats | None:
        return (await self.of_many([channel_id])).get(channel_id)

    async def of_many(self, ids: Collection[int]) -> dict[int, IntervalStats]:
        """Two round trips for any number of channels; those with too little data are not in the answer."""
        ordered = list(ids)
        if not ordered:
            return {}
        cached = await self._redis.mget([interarrival_stats(channel_id) for channel_id in ordered])
        found: dict[int, IntervalStats | None] = {
            channel_id: msgspec.json.decode(value, type=IntervalStats | None)
            for channel_id, value in zip(ordered, cached, strict=True)
            if value is not None
        }
        missing = [channel_id for channel_id in ordered if channel_id not in found]
        if missing:
            kept = await self._intervals.kept(missing)
            async with self._redis.pipeline(transaction=False) as pipe:
                for channel_id in missing:
                    stats = kept.get(channel_id)
                    found[channel_id] = stats
                    value = "null" if stats is None else msgspec.json.encode(asdict(stats))
                    _ = pipe.set(interarrival_stats(channel_id), value, ex=TTL)
                await pipe.execute()
        return {channel_id: stats for channel_id, stats in found.items() if stats is not None}

    async def renew(self) -> int:
        """Compute anew what new posts have changed, for all channels at once; of how many channels."""
        now = self._clock()
        renewed = await self._intervals.renew(now, now - self._window)
        if renewed:
            await self._redis.delete(*(interarrival_stats(channel_id) for channel_id in renewed))
            log.info("interarrival stats", channels=len(renewed), among_them=sorted(renewed)[:SHOWN])
        return len(renewed)

    async def posted_between(self, channel_id: int, after: datetime, until: datetime) -> bool:
        """Whether there is a post of this time; the end belongs to it."""
        return await self._intervals.posted_between(channel_id, after, until)
