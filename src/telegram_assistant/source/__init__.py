"""Where posts come from: accounts of Telegram, and public previews. Only `telegram*.py` here may import telethon."""

from __future__ import annotations

from typing import Protocol

from telegram_assistant.domain.source import PAGE_LIMIT, Changes, Forum, Page, Source


class PlainSource(Source, Protocol):
    """A source that tells neither of changes nor of comments and topics: it is read again instead, and has none."""

    counts_changes: bool = False

    async def changes_since(self, pts: int) -> Changes:
        return Changes(pts, too_long=True)

    async def comments_after(self, post_message_id: int, after_id: int, limit: int = PAGE_LIMIT) -> Page:  # noqa: ARG002 - of none
        return Page((), reached_end=True)

    async def forum(self) -> Forum | None:
        return None
