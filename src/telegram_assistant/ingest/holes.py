"""Fills what the ledger calls unknown: the history somebody asked for, and whatever was left out (LESSONS 6, 7).

A hole is filled when the ledger says so, not when somebody tried.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime

from telegram_assistant.domain.ledger import Coverage
from telegram_assistant.ingest.border import between_albums
from telegram_assistant.ingest.pages import read_on
from telegram_assistant.ingest.saver import Saver
from telegram_assistant.ingest.source import Peer, Source
from telegram_assistant.stores.postgres.channels import Channel, Channels


class HoleFiller:
    """Reads holes bit by bit; each bit is saved and proven by itself, so it can stop and go on at any point."""

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
            # The cursor is above: whatever lies below it exists already, so an end below it proves up to it.
            stretches = read_on(
                *(source, peer, start - 1),
                newest_id=channel.cursor_id,
                until=stop,
                clock=self._clock,
                before_page=before_page,
            )
            async with aclosing(stretches):
                async for stretch in stretches:
                    saved = await self._saver.save(replace(stretch.reading, cursor_id=None))
                    found += len(saved.new)
        return found
