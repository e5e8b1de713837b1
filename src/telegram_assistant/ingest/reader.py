"""A source that knows its account: what goes wrong is reported to the pool, and a channel's reader changes accounts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol, TypeVar

from telegram_assistant.domain.channel import ChannelRef
from telegram_assistant.domain.pacing import Priority
from telegram_assistant.domain.post import Media, Post
from telegram_assistant.domain.source import (
    PAGE_LIMIT,
    Changes,
    ChannelInfo,
    LiveUpdate,
    Page,
    Peer,
    Source,
    SourceError,
)
from telegram_assistant.ingest.budget import working_at
from telegram_assistant.stores.postgres.channels import Channel

T = TypeVar("T")


@dataclass(slots=True)
class Search:
    """A channel that is read, and what each account needs for it, as it is now: the row may be older."""

    channel: Channel
    hashes: dict[str, int]  # by account
    renewed: set[str] = field(default_factory=set)  # accounts that asked for a new hash; once is enough


class Pool(Protocol):
    """What a reader needs of the pool."""

    async def failed(self, source: Source, exc: SourceError) -> None: ...

    async def move(self, search: Search, account_id: str, tried: dict[str, SourceError]) -> tuple[Source, Peer]:
        """Another place to go on reading when this account failed. Raises SourceError when there is no good one."""
        ...


class AccountSource:
    """One account's source, with a priority. Its failures are reported, and raised."""

    def __init__(self, pool: Pool, source: Source, priority: Priority) -> None:
        self._pool = pool
        self._source = source
        self._priority = priority

    @property
    def account_id(self) -> str:
        return self._source.account_id

    async def resolve(self, ref: ChannelRef) -> ChannelInfo:
        return await self._watched(self._source, self._source.resolve(ref))

    async def describe(self, peer: Peer) -> ChannelInfo:
        return await self._ask(peer, lambda source, mine: source.describe(mine))

    async def page_after(
        self, peer: Peer, after_id: int, limit: int = PAGE_LIMIT, *, unreadable: Collection[int] = ()
    ) -> Page:
        return await self._ask(
            peer, lambda source, mine: source.page_after(mine, after_id, limit, unreadable=unreadable)
        )

    async def page_before(self, peer: Peer, before_id: int, limit: int = PAGE_LIMIT, *, above: int = 0) -> Page | None:
        return await self._ask(peer, lambda source, mine: source.page_before(mine, before_id, limit, above=above))

    async def newest(self, peer: Peer) -> Post | None:
        return await self._ask(peer, lambda source, mine: source.newest(mine))

    async def last_id_before(self, peer: Peer, moment: datetime) -> int:
        return await self._ask(peer, lambda source, mine: source.last_id_before(mine, moment))

    async def by_ids(self, peer: Peer, ids: Collection[int]) -> dict[int, Post | None]:
        return await self._ask(peer, lambda source, mine: source.by_ids(mine, ids))

    async def changes_since(self, peer: Peer, pts: int) -> Changes:
        return await self._ask(peer, lambda source, mine: source.changes_since(mine, pts))

    async def comments_after(self, peer: Peer, post_message_id: int, after_id: int, limit: int = PAGE_LIMIT) -> Page:
        return await self._ask(peer, lambda source, mine: source.comments_after(mine, post_message_id, after_id, limit))

    async def download(self, peer: Peer, message_id: int, media: Media) -> AsyncIterator[bytes]:
        async for piece in self._each(self._source, self._source.download(peer, message_id, media)):
            yield piece

    async def updates(self) -> AsyncIterator[LiveUpdate]:
        async for update in self._each(self._source, self._source.updates()):
            yield update

    async def _ask(self, peer: Peer, call: Callable[[Source, Peer], Awaitable[T]]) -> T:
        return await self._watched(self._source, call(self._source, peer))

    async def _watched(self, source: Source, work: Awaitable[T]) -> T:
        try:
            with working_at(self._priority):
                return await work
        except SourceError as exc:
            await self._pool.failed(source, exc)
            raise

    async def _each(self, source: Source, pieces: AsyncIterator[T]) -> AsyncIterator[T]:
        # One by one, because a priority set around a `yield` would leak into the caller.
        try:
            while True:
                try:
                    piece = await self._watched(source, pieces.__anext__())
                except StopAsyncIteration:
                    return
                yield piece
        finally:
            if isinstance(pieces, AsyncGenerator):
                await pieces.aclose()


class ChannelReader(AccountSource):
    """Reads one channel, and goes on with another account when one cannot: message ids are the same for all."""

    def __init__(self, pool: Pool, source: Source, priority: Priority, search: Search, peer: Peer) -> None:
        super().__init__(pool, source, priority)
        self._search = search
        self._peer = peer
        self._first = source.account_id
        self._moving = asyncio.Lock()

    async def download(self, peer: Peer, message_id: int, media: Media) -> AsyncIterator[bytes]:
        tried: dict[str, SourceError] = {}
        while True:
            source, mine = self._source, self._mine(peer)
            # A reference belongs to the account that got it; without one, the message is read again.
            wanted = media if source.account_id == self._first else replace(media, reference=None)
            started = False
            try:
                async for piece in self._each(source, source.download(mine, message_id, wanted)):
                    started = True
                    yield piece
            except SourceError as exc:
                if started:
                    raise  # a caller that has the first half cannot use a new beginning
                await self._move(source, mine, exc, tried)
            else:
                return

    async def _ask(self, peer: Peer, call: Callable[[Source, Peer], Awaitable[T]]) -> T:
        tried: dict[str, SourceError] = {}
        while True:
            source, mine = self._source, self._mine(peer)
            try:
                return await self._watched(source, call(source, mine))
            except SourceError as exc:
                await self._move(source, mine, exc, tried)

    def _mine(self, peer: Peer) -> Peer:
        """For the channel itself what the account of now needs, even if the row names another."""
        return self._peer if peer.channel_id == self._peer.channel_id else peer

    async def _move(self, source: Source, mine: Peer, exc: SourceError, tried: dict[str, SourceError]) -> None:
        if mine.channel_id != self._peer.channel_id:
            raise exc  # another account has another hash for it, which we do not know
        tried[source.account_id] = exc
        async with self._moving:
            if self._source is source and self._peer is mine:  # else another task moved it while we waited
                self._source, self._peer = await self._pool.move(self._search, source.account_id, tried)
