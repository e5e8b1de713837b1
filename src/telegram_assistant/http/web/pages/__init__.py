"""The pages, one file each."""

from __future__ import annotations

from fastapi import APIRouter

from telegram_assistant.http.web.pages import (
    account,
    alerts,
    ask,
    bot,
    channels,
    digests,
    graph,
    home,
    interests,
    pipeline,
    post,
    saved,
    search,
    sign_in,
    storage,
    trends,
)

ROUTERS: list[APIRouter] = [
    account.router,
    alerts.router,
    bot.router,
    sign_in.router,
    channels.router,
    digests.router,
    home.router,
    interests.router,
    pipeline.router,
    post.router,
    ask.router,
    graph.router,
    saved.router,
    search.router,
    storage.router,
    trends.router,
]
