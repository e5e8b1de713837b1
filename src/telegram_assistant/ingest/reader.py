"""A channel's source over the pool of accounts: failures are reported to the pool, and another account goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol, TypeVar

from telegram_assistant.domain.accounts import Priority
from telegram_assistant.domain.post import Media, Post
from telegram_assistant.domain.retries import Failure
from telegram_assistant.domain.source import PAGE_LIMIT, Changes, ChannelInfo, Forum, Page, Peer, Source, SourceError
from telegram_assistant.ingest.account_in_use import Connection, working_at
from telegram_assistant.stores.postgres.channels import Channel

T = TypeVar("T")

_OF_THE_ACCOUNT = {Failure.ACCOUNT, Failure.TRANSIENT}


@dataclass(slots=True)
class Search:
    """A channel that is read, and what each account needs for it, as it is now: the row may be older."""

    channel: Channel
    hashes: dict[str, int]  # by account
    renewed: set[str] = field(default_factory=set)  # accounts that asked for a new hash; once is enough


class Pool(Protocol):
    """What a reader needs of the pool."""

    async def failed(self, account: Connection, exc: SourceError) -> None: ...

    async def move(self, search: Search, account_id: str, tried: dict[str, SourceError]) -> tuple[Connection, Peer]:
        """Another place to go on reading when this account failed. Raises SourceError when there is no good one."""
        ...


class TakeoutDesk(Protocol):
    """Where the takeouts of accounts are had."""

    async def of(self, account: Connection) -> int | None:
        """None: read the usual way."""
        ...

    async def refused(self, account: Connection, exc: SourceError) -> None: ...


class ChannelReader(Source):
    """Reads one channel, and goes on with another account when one cannot: message ids are the same for all."""

    def __init__(
        self,
        pool: Pool,
        account: Connection,
        priority: Priority,
        search: Search,
        peer: Peer,
        *,
        takeouts: TakeoutDesk | None = None,
    ) -> None:
        self._pool = pool
        self._takeouts = takeouts
        self._account = account
        self._priority = priority
        self._search = search
        self._peer = peer
        self._first = account.account_id
        self._moving = asyncio.Lock()

    @property
    def channel_id(self) -> int:
        return self._peer.channel_id

    async def describe(self) -> ChannelInfo:
        return await self._ask(lambda channel: channel.describe())

    async def page_after(self, after_id: int, limit: int = PAGE_LIMIT, *, unreadable: Collection[int] = ()) -> Page:
        return await self._ask(lambda channel: channel.page_after(after_id, limit, unreadable=unreadable))

    async def page_before(self, before_id: int, limit: int = PAGE_LIMIT, *, above: int = 0) -> Page | None:
        return await self._ask(lambda channel: channel.page_before(before_id, limit, above=above))

    async def last_id_before(self, moment: datetime) -> int:
        return await self._ask(lambda channel: channel.last_id_before(moment))

    async def by_ids(self, ids: Collection[int]) -> dict[int, Post | None]:
        return await self._ask(lambda channel: channel.by_ids(ids))

    async def changes_since(self, pts: int) -> Changes:
        return await self._ask(lambda channel: channel.changes_since(pts))

    async def comments_after(self, post_message_id: int, after_id: int, limit: int = PAGE_LIMIT) -> Page:
        return await self._ask(lambda channel: channel.comments_after(post_message_id, after_id, limit))

    async def forum(self) -> Forum | None:
        return await self._ask(lambda channel: channel.forum())

    async def download(self, message_id: int, media: Media) -> AsyncIterator[bytes]:
        tried: dict[str, SourceError] = {}
        while True:
            account, peer = self._account, self._peer
            # A reference belongs to the account that got it; without one, the message is read again.
            wanted = media if account.account_id == self._first else replace(media, reference=None)
            started = False
            try:
                pieces = account.channel(peer).download(message_id, wanted)
                async for piece in watched_each(self._pool, account, self._priority, pieces):
                    started = True
                    yield piece
            except SourceError as exc:
                if started:
                    raise  # a caller that has the first half cannot use a new beginning
                await self._move(account, peer, exc, tried)
            else:
                return

    async def _ask(self, call: Callable[[Source], Awaitable[T]]) -> T:
        tried: dict[str, SourceError] = {}
        while True:
            account, peer, desk = self._account, self._peer, self._takeouts
            takeout = None if desk is None else await desk.of(account)
            try:
                return await _watched(self._pool, account, self._priority, call(account.channel(peer, takeout)))
            except SourceError as exc:
                if desk is not None and takeout is not None and exc.failure not in _OF_THE_ACCOUNT:
                    self._takeouts = None  # the usual way may do
                    await desk.refused(account, exc)
                else:
                    await self._move(account, peer, exc, tried)

    async def _move(self, account: Connection, peer: Peer, exc: SourceError, tried: dict[str, SourceError]) -> None:
        tried[account.account_id] = exc
        async with self._moving:
            if self._account is account and self._peer is peer:  # else another task moved it while we waited
                self._account, self._peer = await self._pool.move(self._search, account.account_id, tried)


async def _watched(pool: Pool, account: Connection, priority: Priority, work: Awaitable[T]) -> T:
    try:
        with working_at(priority):
            return await work
    except SourceError as exc:
        await pool.failed(account, exc)
        raise


async def watched_each(
    pool: Pool, account: Connection, priority: Priority, pieces: AsyncIterator[T]
) -> AsyncGenerator[T, None]:
    """The pieces. One by one, because a priority set around a `yield` would leak into the caller."""
    try:
        while True:
            try:
                piece = await _watched(pool, account, priority, pieces.__anext__())
            except StopAsyncIteration:
                return
            yield piece
    finally:
        if isinstance(pieces, AsyncGenerator):
            await pieces.aclose()
