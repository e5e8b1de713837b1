"""Fills what the ledger calls unknown: the history somebody asked for, and whatever was left out (LESSONS 6, 7).

A hole is filled when the ledger says so, not when somebody tried.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import datetime
from math import inf

from telegram_assistant.domain.ledger import Coverage, Span
from telegram_assistant.domain.source import PAGE_LIMIT, Peer, Source
from telegram_assistant.ingest.border import between_albums
from telegram_assistant.ingest.pages import read_on
from telegram_assistant.ingest.saver import Saved, Saver
from telegram_assistant.ingest.second_look import look_at
from telegram_assistant.ingest.unreadable import Memory, remembered
from telegram_assistant.stores.postgres.channels import Channel, Channels

ROUNDS = 3  # a page that left messages out leaves smaller holes behind


@dataclass(slots=True)
class Filled:
    """What came of it: how many new posts, and when the oldest of them was made."""

    new: int = 0
    oldest: datetime | None = None
    pages: int = 0
    more: bool = False  # the slice is over, the holes are not

    def add(self, saved: Saved, pages: int = 0) -> None:
        self.new += len(saved.new)
        self.pages += pages
        dates = [post.posted_at for post in saved.new]
        self.oldest = min([*dates, *([self.oldest] if self.oldest else [])], default=None)


class HoleFiller:
    """Reads holes bit by bit; each bit is saved and proven by itself, so it can stop and go on at any point."""

    def __init__(
        self, channels: Channels, saver: Saver, *, clock: Callable[[], datetime], memory: Memory | None = None
    ) -> None:
        self._channels = channels
        self._saver = saver
        self._clock = clock
        self._memory = memory

    async def fill(
        self,
        channel: Channel,
        source: Source,
        peer: Peer,
        *,
        before_page: Callable[[], Awaitable[None]],
        most_pages: float = inf,
    ) -> Filled:
        """Read every hole below the cursor, the newest first; `more` when `most_pages` were not enough."""
        if channel.history_from is not None:
            await before_page()
            below = await between_albums(source, peer, await source.last_id_before(peer, channel.history_from))
            await self._channels.request_from(channel.id, below + 1, answers=channel.history_from)
        filled = Filled()
        tried: list[Span] = []
        for _ in range(ROUNDS):
            holes = await self._holes(channel)
            if not holes or holes == tried:  # the rest is what nobody can read
                break
            tried = holes
            for hole in reversed(holes):
                if hole[1] - hole[0] > PAGE_LIMIT:
                    await self._read_pages(
                        channel, source, peer, hole=hole, before_page=before_page, filled=filled, most_pages=most_pages
                    )
                    if filled.more:
                        return filled
            # Many small holes cost one request together, and an answer by ids says of each what it holds.
            small = [hole for hole in await self._holes(channel) if hole[1] - hole[0] <= PAGE_LIMIT]
            ids = [message_id for start, stop in small for message_id in range(start, stop)]
            _, saved = await self._look_at(source, peer, ids[::-1], before_page)
            filled.add(saved)
        return filled

    async def _holes(self, channel: Channel) -> list[Span]:
        ledger = await self._channels.ledger(channel.id)
        known = await remembered(self._memory, channel.id)
        holes = ledger.gaps.intersection(Coverage.of((1, channel.cursor_id + 1)))
        return list(holes.subtract(Coverage.of_ids(known.left_alone)))

    async def _look_at(
        self, source: Source, peer: Peer, ids: Sequence[int], before_page: Callable[[], Awaitable[None]]
    ) -> tuple[int, Saved]:
        return await look_at(
            self._saver, source, peer, ids, clock=self._clock, before_page=before_page, memory=self._memory
        )

    async def _read_pages(
        self,
        channel: Channel,
        source: Source,
        peer: Peer,
        *,
        hole: Span,
        before_page: Callable[[], Awaitable[None]],
        filled: Filled,
        most_pages: float,
    ) -> None:
        start, stop = hole
        # The cursor is above: whatever lies below it exists already, so an end below it proves up to it.
        stretches = read_on(
            *(source, peer, start - 1),
            newest_id=channel.cursor_id,
            until=stop,
            clock=self._clock,
            before_page=before_page,
            memory=self._memory,
        )
        async with aclosing(stretches):
            async for stretch in stretches:
                saved = await self._saver.save(replace(stretch.reading, cursor_id=None))
                filled.add(saved, stretch.pages)
                if saved.absent:
                    _, again = await self._look_at(source, peer, saved.absent, before_page)
                    filled.add(again)
                if filled.pages >= most_pages:
                    filled.more = True
                    return
