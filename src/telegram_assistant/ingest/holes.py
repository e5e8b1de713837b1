"""Fills what the ledger calls unknown: the history somebody asked for, and whatever was left out (LESSONS 6, 7).

A hole is filled when the ledger says so, not when somebody tried.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime

from telegram_assistant.domain.ledger import Coverage, page_proves
from telegram_assistant.ingest.border import between_albums
from telegram_assistant.ingest.saver import Reading, Saver
from telegram_assistant.ingest.source import PAGE_LIMIT, Peer, Source
from telegram_assistant.stores.postgres.channels import Channel, Channels


class HoleFiller:
    """Reads holes page by page; each page is saved and proven by itself, so it can stop and go on at any point."""

    def __init__(self, channels: Channels, saver: Saver, *, clock: Callable[[], datetime]) -> None:
        self._channels = channels
        self._saver = saver
        self._clock = clock

    async def fill(
        self, channel: Channel, source: Source, peer: Peer, *, before_page: Callable[[], Awaitable[None]]
    ) -> int:
        """Read every hole below the cursor, the newest first; how many new posts came of it."""
        if channel.history_from is not None:
            await before_page()
            below = await between_albums(source, peer, await source.last_id_before(peer, channel.history_from))
            await self._channels.request_from(channel.id, below + 1, answers=channel.history_from)
        found = 0
        ledger = await self._channels.ledger(channel.id)
        for start, stop in reversed(list(ledger.gaps.intersection(Coverage.of((1, channel.cursor_id + 1))))):
            after_id = start - 1
            while after_id < stop - 1:
                await before_page()
                asked_at = self._clock()
                page = await source.page_after(peer, after_id)
                ids = [*(post.message_id for post in page.posts), *page.unreadable]
                # The cursor is above: whatever lies below it exists already, so an end below it proves up to it.
                proven = page_proves(
                    after_id, ids, limit=PAGE_LIMIT, reached_end=page.reached_end, newest_id=channel.cursor_id
                )
                saved = await self._saver.save(
                    Reading(
                        channel_id=channel.id,
                        posts=page.posts,
                        proven=proven.subtract(Coverage.of_ids(page.unreadable)),
                        newest_id=max(ids, default=0),
                        reached_end=page.reached_end,
                        asked_at=asked_at,
                    )
                )
                found += len(saved.new)
                after_id = proven.ranges[-1][1] - 1
        return found
