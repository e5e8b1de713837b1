"""The HTTP API under /api/v1, a file per noun: what is asked for, what is answered, and the routes."""

from __future__ import annotations

from fastapi import APIRouter

from telegram_assistant.http.api import (
    account,
    alerts,
    bot,
    channels,
    dead_letters,
    digests,
    events,
    graph,
    health,
    interests,
    jobs,
    media,
    posts,
    saved_searches,
    search,
    stages,
    storage,
    trends,
)

ROUTERS: list[APIRouter] = [
    account.router,
    alerts.notices,
    alerts.watched,
    alerts.places,
    bot.router,
    channels.router,
    dead_letters.router,
    digests.router,
    events.router,
    graph.router,
    health.router,
    interests.router,
    jobs.router,
    media.router,
    posts.router,
    saved_searches.router,
    saved_searches.alerts,
    search.router,
    search.ask,
    stages.router,
    storage.router,
    trends.router,
]  # under /api/v1
OUTSIDE: list[APIRouter] = [bot.outside, health.outside]  # at the root: /health, /metrics
