"""What runs beside the server: the feed of live events, and the samples of the stages."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from fastapi import FastAPI
from redis.asyncio import Redis
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.api.feed import LiveFeed
from telegram_assistant.bus.sampler import Sampler
from telegram_assistant.runtime import Runtime
from telegram_assistant.stages import groups
from telegram_assistant.stores.postgres.dead_letters import DeadLetters
from telegram_assistant.stores.postgres.live_posts import LivePosts
from telegram_assistant.stores.postgres.watched import WatchedChannels

PATIENCE = 60.0
MOST_SHOWN = 20


async def start_live(runtime: Runtime, app: FastAPI) -> None:
    """After the server was started: so the feed is stopped first, and open connections do not hold that up."""
    sampler = Sampler(
        runtime.redis,
        groups(),
        DeadLetters(runtime.database).counts,
        runs_here=lambda stage: stage in runtime.supervisor.tasks,
    )
    app.state.sampler = sampler
    app.state.live = make_feed(runtime.redis, runtime.database, sampler)
    await runtime.start_task("stage_samples", sampler.run, patience=PATIENCE)
    await runtime.start_task("live_events", app.state.live.run, patience=PATIENCE)


def make_feed(redis: Redis, database: AsyncEngine, sampler: Sampler) -> LiveFeed:
    watched = WatchedChannels(database)

    async def progress(tenant_id: UUID) -> dict[str, Any]:
        filling = await watched.filling(tenant_id, limit=MOST_SHOWN)
        return {
            "channels": [
                {
                    "id": channel.id,
                    "title": channel.title,
                    "captured": channel.captured,
                    "unknown": channel.unknown,
                    "percent": channel.percent,
                }
                for channel in filling
            ],
            "stages": {stage: history.now.behind for stage, history in sampler.stages.items()},
        }

    return LiveFeed(redis, LivePosts(database), progress)
