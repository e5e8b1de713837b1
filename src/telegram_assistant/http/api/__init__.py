"""The HTTP API under /api/v1, a file per noun: what is asked for, what is answered, and the routes."""

from __future__ import annotations

from fastapi import APIRouter

from telegram_assistant.http.api import (
    account,
    alerts,
    bot,
    channel_details,
    channels,
    digests,
    follows,
    health,
    media,
    pipeline,
    posts,
    saved_searches,
    search,
    topics,
    trends,
)

ROUTERS: list[APIRouter] = [
    account.router,
    alerts.notices,
    alerts.watched,
    alerts.places,
    bot.router,
    channels.router,
    follows.router,
    channel_details.router,
    topics.router,
    pipeline.stages,
    pipeline.dead_letters,
    pipeline.jobs,
    digests.router,
    health.router,
    health.events,
    media.router,
    media.storage,
    posts.router,
    saved_searches.router,
    saved_searches.alerts,
    search.router,
    search.ask,
    search.graph,
    trends.router,
    trends.interests,
]  # under /api/v1
OUTSIDE: list[APIRouter] = [bot.outside, health.outside]  # at the root: /health, /metrics
