"""Keeps the gauges about channels true between visits: coverage, unknown ids, ages, and who is there at all."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Any

from redis.asyncio import Redis

from telegram_assistant.bus.supervisor import Task
from telegram_assistant.metrics import (
    CHANNEL_LABELS,
    CHANNELS,
    COVERAGE,
    HWM_AGE,
    LAST_POST,
    LAST_SUCCESS,
    PROVEN_UP_TO,
    UNKNOWN_IDS,
    WATERMARK_AGE,
)
from telegram_assistant.names import parse_hwm
from telegram_assistant.stores.postgres.channels import Channels, Standing
from telegram_assistant.stores.redis import time_from_text

EVERY_SECONDS = 5.0
LISTED = 100


class Gauges:
    """A supervised job: one statement for all channels, now and then; and what it found, for health."""

    def __init__(self, channels: Channels, redis: Redis, *, clock: Callable[[], datetime]) -> None:
        self._channels = channels
        self._redis = redis
        self._clock = clock
        self._standings: list[Standing] = []

    async def run(self, task: Task) -> None:
        task.ready()
        while True:
            await self.look()
            task.progress()
            await asyncio.sleep(EVERY_SECONDS)

    async def look(self) -> None:
        before, self._standings = self._standings, await self._channels.standings()
        now = self._clock()
        for standing in self._standings:
            show(standing, now)
        ids = [standing.id for standing in self._standings]
        CHANNEL_LABELS.forget({standing.id for standing in before}.difference(ids))
        statuses = Counter(standing.status for standing in self._standings)
        for status in {"active", "dead", *(standing.status for standing in before), *statuses}:
            CHANNELS.labels(status).set(statuses[status])
        await self._show_marks(ids, now)

    async def _show_marks(self, ids: list[int], now: datetime) -> None:
        """A mark stays behind when a parse does not end: its age must grow while nobody parses."""
        marks = await self._redis.mget([parse_hwm(channel_id) for channel_id in ids]) if ids else []
        for channel_id, found in zip(ids, marks, strict=True):
            mark = time_from_text(found)
            HWM_AGE.labels(channel_id).set(max(0.0, (now - mark).total_seconds()) if mark else 0.0)

    async def report(self) -> dict[str, Any]:
        """Totals, and the first channels by posts: what the page shows. As fresh as the last look."""
        standings = self._standings
        largest = sorted(standings, key=lambda standing: -standing.captured)[:LISTED]
        return {
            "status": "ok",
            "channels": len(standings),
            "captured": sum(standing.captured for standing in standings),
            "unknown": sum(standing.requested - standing.known for standing in standings),
            "listed": [
                {
                    "channel": standing.shown,
                    "captured": standing.captured,
                    "unknown": standing.requested - standing.known,
                    "percent": 100.0 * standing.known / standing.requested if standing.requested else 100.0,
                    "proven_up_to": standing.proven_up_to,
                    "newest_post": standing.last_post_at and f"{standing.last_post_at:%Y-%m-%d %H:%M}",
                    "error": standing.last_error,
                }
                for standing in largest
            ],
        }


def show(standing: Standing, now: datetime) -> None:
    channel_id = standing.id
    unknown = standing.requested - standing.known
    PROVEN_UP_TO.labels(channel_id).set(standing.proven_up_to)
    UNKNOWN_IDS.labels(channel_id).set(unknown)
    COVERAGE.labels(channel_id).set(100.0 if not unknown else 100.0 * standing.known / standing.requested)
    if standing.last_post_at is not None:
        LAST_POST.labels(channel_id).set(standing.last_post_at.timestamp())
    if standing.last_success_at is not None:
        LAST_SUCCESS.labels(channel_id).set(standing.last_success_at.timestamp())
        WATERMARK_AGE.labels(channel_id).set(max(0.0, (now - standing.last_success_at).total_seconds()))
