"""Keeps the gauges about channels true between visits: coverage, unknown ids, ages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any

from telegram_assistant.bus.supervisor import Task
from telegram_assistant.metrics import COVERAGE, LAST_POST, LAST_SUCCESS, PROVEN_UP_TO, UNKNOWN_IDS, WATERMARK_AGE
from telegram_assistant.stores.postgres.channels import Channels, Standing

EVERY_SECONDS = 5.0
LISTED = 100


class Gauges:
    """A supervised job: one statement for all channels, now and then; and what it found, for health."""

    def __init__(self, channels: Channels, *, clock: Callable[[], datetime]) -> None:
        self._channels = channels
        self._clock = clock
        self._standings: list[Standing] = []

    async def run(self, task: Task) -> None:
        task.ready()
        while True:
            self._standings = await self._channels.standings()
            for standing in self._standings:
                show(standing, self._clock())
            task.progress()
            await asyncio.sleep(EVERY_SECONDS)

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
