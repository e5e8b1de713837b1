"""The pages, one file each."""

from __future__ import annotations

from fastapi import APIRouter

from telegram_assistant.http.web.pages import (
    account,
    alerts,
    channels,
    digests,
    home,
    pipeline,
    post,
    saved,
    search,
    sign_in,
    trends,
)

ROUTERS: list[APIRouter] = [
    account.router,
    alerts.router,
    account.bot,
    sign_in.router,
    channels.router,
    digests.router,
    home.router,
    pipeline.router,
    post.router,
    saved.router,
    search.router,
    trends.router,
]
