"""The pages, one file each."""

from __future__ import annotations

from fastapi import APIRouter

from telegram_assistant.http.web.pages import (
    account,
    alerts,
    channels,
    digests,
    follow,
    home,
    importing,
    pipeline,
    post,
    saved,
    search,
    sign_in,
    start,
    trends,
)

ROUTERS: list[APIRouter] = [
    account.router,
    alerts.router,
    account.bot,
    sign_in.router,
    channels.router,
    digests.router,
    follow.router,
    home.router,
    importing.router,
    pipeline.router,
    post.router,
    saved.router,
    search.router,
    start.router,
    trends.router,
]
