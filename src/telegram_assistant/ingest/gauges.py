"""Keeps the gauges about channels true between visits, and names channels whose values mean nothing, for health."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from time import monotonic
from typing import Any

from redis.asyncio import Redis
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.bus.supervisor import Task
from telegram_assistant.domain.silence import MOSCOW, known_zone
from telegram_assistant.ingest.parser import unfinished_since
from telegram_assistant.log import get_logger
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
from telegram_assistant.stores.postgres.channels import Channels, Standing, Totals
from telegram_assistant.stores.redis import time_from_text

EVERY_SECONDS = 5.0
EVERY_SECONDS_TOGETHER = 60.0  # where there are too many channels to tell of each: one look reads all their rows
LISTED = 100
MARKS = 2_000  # that are read in one look; more channels take turns
AGAIN_SECONDS = 60.0
SHOWN = 20

log = get_logger(__name__)


class Gauges:
    """A supervised job: a few statements for all channels, now and then; and what it found, for health."""

    def __init__(self, channels: Channels, redis: Redis, *, clock: Callable[[], datetime]) -> None:
        self._channels = channels
        self._redis = redis
        self._clock = clock
        self._statuses: dict[str, int] = {}
        self._totals: Totals | None = None
        self._standings: list[Standing] = []
        self._marks: dict[int, datetime] = {}  # since when parses should have ended
        self._marks_after = 0

    async def run(self, task: Task) -> None:
        task.ready()
        while True:
            await self.look()
            task.progress()
            await asyncio.sleep(EVERY_SECONDS if CHANNEL_LABELS.shown else EVERY_SECONDS_TOGETHER)

    async def look(self) -> None:
        now = self._clock()
        await self._count()
        self._totals = await self._channels.totals()
        show_together(self._totals, now)
        before = {standing.id for standing in self._standings}
        self._standings = await self._channels.standings(largest=None if CHANNEL_LABELS.shown else LISTED)
        if CHANNEL_LABELS.shown:
            for standing in self._standings:
                show(standing, now)
            CHANNEL_LABELS.forget(before.difference(standing.id for standing in self._standings))
        await self._show_marks(now)

    async def _count(self) -> None:
        before, self._statuses = self._statuses, await self._channels.counts()
        CHANNEL_LABELS.total = sum(self._statuses.values())
        for status in {"active", "dead", *before, *self._statuses}:
            CHANNELS.labels(status).set(self._statuses.get(status, 0))

    async def _show_marks(self, now: datetime) -> None:
        """A mark stays behind when a parse does not end: its age must grow while no process parses."""
        ids = await self._channels.ids_after(self._marks_after, limit=MARKS)
        self._marks_after = ids[-1] if len(ids) == MARKS else 0
        found = await self._redis.mget([parse_hwm(channel_id) for channel_id in ids]) if ids else []
        marks = {
            channel_id: mark for channel_id, text in zip(ids, found, strict=True) if (mark := time_from_text(text))
        }
        read = await self._channels.last_successes(list(marks)) if marks else {}
        for channel_id in ids:
            self._marks.pop(channel_id, None)
            if mark := marks.get(channel_id):
                self._marks[channel_id] = unfinished_since(mark, read.get(channel_id))
            if CHANNEL_LABELS.shown:
                HWM_AGE.labels(channel_id).set(_age(self._marks.get(channel_id), now))
        HWM_AGE.set_together(max((_age(since, now) for since in self._marks.values()), default=0.0))

    async def report(self) -> dict[str, Any]:
        """Totals, and the first channels by posts: what the page shows. As fresh as the last look."""
        largest = sorted(self._standings, key=lambda standing: -standing.captured)[:LISTED]
        return {
            "status": "ok",
            "channels": sum(self._statuses.values()),
            "captured": self._totals.captured if self._totals else 0,
            "unknown": self._totals.unknown if self._totals else 0,
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


def _age(moment: datetime | None, now: datetime) -> float:
    return max(0.0, (now - moment).total_seconds()) if moment else 0.0


def show_together(totals: Totals, now: datetime) -> None:
    """The one value of each gauge that is told where channels have no series of their own."""
    PROVEN_UP_TO.set_together(totals.proven_up_to)
    UNKNOWN_IDS.set_together(totals.unknown)
    COVERAGE.set_together(totals.coverage)
    if totals.last_post_at is not None:
        LAST_POST.set_together(totals.last_post_at.timestamp())
    if totals.last_success_at is not None:
        LAST_SUCCESS.set_together(totals.last_success_at.timestamp())
        WATERMARK_AGE.set_together(_age(totals.last_success_at, now))


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
        WATERMARK_AGE.labels(channel_id).set(_age(standing.last_success_at, now))


class OddRows:
    """Looks at most once a minute."""

    def __init__(self, database: AsyncEngine, *, ticks: Callable[[], float] = monotonic) -> None:
        self._database = database
        self._ticks = ticks
        self._looked_at: float | None = None
        self._found: list[dict[str, str]] = []

    async def report(self) -> dict[str, Any]:
        if self._looked_at is None or self._ticks() > self._looked_at + AGAIN_SECONDS:
            found = await self._look()
            for one in found:
                if one not in self._found:
                    log.warning("odd_row", **one)
            self._found, self._looked_at = found, self._ticks()
        return {"status": "ok", "error": None, "odd_rows": self._found}

    async def _look(self) -> list[dict[str, str]]:
        zones = text("SELECT DISTINCT timezone FROM channels WHERE status <> 'removed'")
        named = text(
            "SELECT id, coalesce('@' || username, title) AS shown, timezone FROM channels"
            " WHERE timezone = ANY(:zones) AND status <> 'removed' ORDER BY id LIMIT :limit"
        )
        async with self._database.connect() as connection:
            odd = [row.timezone for row in await connection.execute(zones) if known_zone(row.timezone) is None]
            if not odd:
                return []
            rows = await connection.execute(named, {"zones": odd, "limit": SHOWN})
            return [{"channel": row.shown, "trouble": _trouble(row.id, row.timezone)} for row in rows]


def _trouble(channel_id: int, zone: str) -> str:
    return (
        f"there is no time zone {zone!r}, so {MOSCOW.key} is used for this channel: set another on its page, or with"
        f" PATCH /api/v1/channels/{channel_id}"
    )
