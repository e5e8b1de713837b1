"""The accounts that read: each channel gets one that can, and work moves on when an account must wait or fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import aclosing
from datetime import datetime
from itertools import count
from math import inf
from time import monotonic
from typing import Any
from uuid import UUID

from telegram_assistant.bus.supervisor import Task
from telegram_assistant.domain.access import SYSTEM_TENANT
from telegram_assistant.domain.accounts import Priority, Reach
from telegram_assistant.domain.channel import ChannelRef
from telegram_assistant.domain.retries import Failure
from telegram_assistant.domain.source import ChannelInfo, Followed, LiveUpdate, Peer, ReadElsewhere, Source, SourceError
from telegram_assistant.ingest.account_in_use import (
    READING,
    RESOLVING,
    REST_SECONDS,
    AccountInUse,
    Connection,
    Opener,
    is_stale_hash,
)
from telegram_assistant.ingest.origins import HOPE
from telegram_assistant.ingest.reader import ChannelReader, Search, watched_each
from telegram_assistant.ingest.requests import Directory
from telegram_assistant.ingest.roster import Roster
from telegram_assistant.ingest.takeouts import Takeouts
from telegram_assistant.log import get_logger
from telegram_assistant.stores.postgres.accounts import AccountLeases, TelegramAccounts
from telegram_assistant.stores.postgres.channels import Channel, Channels

SYSTEM = UUID(SYSTEM_TENANT)
MOVE_AFTER = 30.0  # a shorter flood is cheaper than asking for the username with another account
DENIED_SECONDS = 3600.0  # an account that may not read a channel is not tried there for so long
ENDED = {"revoked", "banned", "unusable"}  # states of an account that only a person can mend
RED_AFTER = 300.0  # every account waits for longer than this: nothing is captured, and health says so

SHOWN = 6
# By method, what is held up while no account may ask it.
WAITS_FOR = {
    READING: ("due", "channels that are due wait"),
    RESOLVING: ("asked", "channels that were asked for wait"),
    "messages.checkChatInvite": ("asked", "channels that were asked for wait"),
    "channels.getMessages": ("files", "files wait, new posts do not"),
    "upload.getFile": ("files", "files wait, new posts do not"),
}

log = get_logger(__name__)


class AccountPool:
    """All accounts of the system, as one. Each connects when it is first needed."""

    def __init__(
        self,
        store: TelegramAccounts,
        channels: Channels,
        opener: Opener,
        *,
        clock: Callable[[], datetime],
        paced: bool = True,
        session: str | None = None,
        ticks: Callable[[], float] = monotonic,
        leases: AccountLeases | None = None,
    ) -> None:
        self._store = store
        self._channels = channels
        self._ticks = ticks
        self._clock = clock
        self.roster = Roster(store, opener, clock=clock, paced=paced, session=session, ticks=ticks, leases=leases)
        self._directory = Directory(ticks)
        self._denied: dict[tuple[int, str], float] = {}  # channel and account -> until when
        self._turns = count(1)
        self.takeouts: Takeouts | None = None

    async def start(self) -> None:
        """Read the accounts. Raises Fatal when their sessions cannot be opened with our key."""
        await self.roster.start()

    async def close(self) -> None:
        """Disconnect all; requests under way end with SourceError."""
        await self.roster.close()

    async def keep(self, task: Task) -> None:
        """A supervised job: stay the owner of our accounts, and take over those of a process that died."""
        task.ready()
        while True:
            pause = await self.roster.share()
            task.progress()
            await asyncio.sleep(pause)

    async def reach(self) -> Reach:
        """Which channels this process can read now."""
        await self.roster.refresh()
        ready = [seat for seat in self.roster.usable if seat.flood(READING) is None]
        return Reach(
            knowing=tuple(seat.id for seat in ready),
            asking=any(seat.flood(RESOLVING) is None for seat in ready),
            elsewhere=tuple(seat.id for seat in self.roster.living if not seat.ours),
            living=tuple(seat.id for seat in self.roster.living),
        )

    async def reader(self, channel: Channel, *, priority: Priority = Priority.VISIT) -> Source:
        """Who reads this channel now. The source changes accounts by itself where it has to."""
        await self.roster.refresh()
        search = Search(channel, dict(channel.access_hash))
        account, peer = await self._place(search, {})
        takeouts = self.takeouts if priority is Priority.BACKFILL else None
        large = takeouts is not None and await takeouts.wants(channel)
        return ChannelReader(self, account, priority, search, peer, takeouts=takeouts if large else None)

    async def resolve(self, ref: ChannelRef, tenant_id: UUID = SYSTEM) -> tuple[str, ChannelInfo]:
        """What a tenant means, and the account that was told. Store its access hash under that account.

        What has no name is private: only the tenant's own accounts are asked, and of what others have there nothing is
        known here, so that the answer is that for a channel which does not exist.
        """
        await self.roster.refresh()
        if known := await self._known(ref, tenant_id):
            return known
        errors: list[SourceError] = []
        asked = [seat for seat in self.roster.usable if ref.username or seat.account.tenant_id == tenant_id]
        # First who was told of it by a list: that costs nothing.
        for seat in sorted(
            asked, key=lambda seat: (not self._directory.knows(seat.id, ref), seat.load(RESOLVING, self._ticks()))
        ):
            try:
                info = await self._look_up(seat, ref)
            except SourceError as exc:
                errors.append(exc)
            else:
                seat.handed = next(self._turns)
                return seat.id, info
        if ref.invite is not None and len(self.roster.usable) < len(self.roster.living):
            raise ReadElsewhere(f"{ref} is asked for by an account of another process: none of ours has joined it")
        raise self._why_none(str(ref), errors, public=True)

    async def followed(self, tenant_id: UUID, slug: str = "") -> list[Followed]:
        """What the tenant's accounts have joined, or what a shared folder holds; each channel once."""
        await self.roster.refresh()
        ours = [seat for seat in self.roster.usable if seat.account.tenant_id == tenant_id]
        if not ours and any(seat.account.tenant_id == tenant_id for seat in self.roster.living):
            raise ReadElsewhere("the accounts of this tenant belong to another process")
        if not ours:
            raise SourceError(Failure.ACCOUNT, "no Telegram account is connected: connect one first")
        found: dict[int, Followed] = {}
        for seat in ours[: 1 if slug else None]:
            account = self.roster.reading(seat)
            try:
                told = await account.followed(slug)
            except SourceError as exc:
                await self.failed(account, exc)
                raise
            for one in told:
                found.setdefault(one.info.id, one)
                if not slug or one.info.username:
                    self._directory.learn(seat.id, one.info)
        return list(found.values())

    async def updates(self, account_id: str) -> AsyncGenerator[LiveUpdate, None]:
        """What an account hears, over a connection of its own; the one that was opened before is closed."""
        await self.roster.refresh()
        seat = self.roster.seats.get(account_id)
        if seat is None or not seat.usable:
            raise SourceError(Failure.ACCOUNT, "this account cannot be used any more: log in again with `tga login`")
        if not seat.ours:
            raise ReadElsewhere("this account belongs to another process now")
        account = await self.roster.live(seat)
        async with aclosing(watched_each(self, account, Priority.LIVE, account.updates())) as updates:
            async for update in updates:
                yield update

    async def heartbeat(self, account_id: str, *, live: bool = False) -> datetime | None:
        """Ask an account for next to nothing; what time it is for Telegram. None: there is no such connection."""
        seat = self.roster.seats.get(account_id)
        if seat is None or not seat.usable:
            return None
        connection = seat.live if live else self.roster.reading(seat)
        if connection is None:
            return None
        try:
            return await connection.heartbeat()
        except SourceError as exc:
            await self.failed(connection, exc)
            raise

    def name_of(self, account_id: str) -> str:
        seat = self.roster.seats.get(account_id)
        return account_id if seat is None else seat.account.name

    async def active(self) -> list[str]:
        """The accounts that can be used now."""
        await self.roster.refresh()
        return [seat.id for seat in self.roster.usable]

    async def failed(self, account: Connection, exc: SourceError) -> None:
        """Hear of a failure: one of the account itself is stored, after a lost connection others go first."""
        seat = self.roster.seats.get(account.account_id)
        if seat is None or account not in (seat.reading, seat.live):
            return  # an old connection says nothing about the session of now
        if exc.failure is Failure.ACCOUNT:
            await self.roster.end(seat, exc)
        elif exc.failure is Failure.TRANSIENT and not isinstance(exc, ReadElsewhere):
            seat.resting_until = self._ticks() + REST_SECONDS

    async def move(self, search: Search, account_id: str, tried: dict[str, SourceError]) -> tuple[Connection, Peer]:
        """Where a reader goes on after this account failed."""
        exc, channel = tried[account_id], search.channel
        if exc.failure is Failure.CHANNEL_PRIVATE:
            self._denied[channel.id, account_id] = self._ticks() + DENIED_SECONDS
        elif is_stale_hash(exc):
            if channel.username and account_id not in search.renewed:
                await self._forget_hash(search, account_id)
                del tried[account_id]
        elif exc.failure not in {Failure.ACCOUNT, Failure.FLOOD} and not isinstance(exc, ReadElsewhere):
            raise exc
        account, peer = await self._place(search, tried)
        if account.account_id != account_id:
            log.info("account_changed", channel=channel.shown, account=account.account_id, reason=str(exc))
        return account, peer

    async def report(self) -> dict[str, Any]:
        """For health: ok while some account can read, or can do so within minutes; or while others have them all."""
        error = note = None
        if not self.roster.living:
            error = str(self.roster.given_error or "no Telegram account can be used: run `tga login`")
        elif not self.roster.usable:
            note = f"stands by: {self.roster.who_has_them()}"
        else:
            error = await self._held_up()
        accounts = self.roster.report()
        some = None if error else _ended(accounts) or self._resting()
        return {
            "status": "failing" if error else "degraded" if some else "ok",
            "error": error or some,
            "note": note,
            "accounts": accounts,
        }

    def _resting(self) -> str | None:
        """Which accounts must not read for long, while others go on."""
        waits = {seat.account.name: seat.budget.flood_seconds(READING) for seat in self.roster.usable}
        long = [f"{name} for {seconds / 60:.0f} min" for name, seconds in waits.items() if seconds > RED_AFTER]
        if not long:
            return None
        return f"Telegram lets {', '.join(long)} read nothing; what only they may read waits; the others go on"

    async def _held_up(self) -> str | None:
        """What no account may ask for a while, if something waits for it: who must wait, how long, and what waits."""
        seats = self.roster.living
        methods = {method for seat in seats for method in seat.budget.floods()}
        stuck = [method for method in methods if min(seat.budget.flood_seconds(method) for seat in seats) > RED_AFTER]
        if not stuck:
            return None
        waiting = await self._store.who_waits(self._clock(), shown=SHOWN)
        said = []
        for method in sorted(stuck):
            kind, words = WAITS_FOR.get(method, ("", ""))
            names = waiting.get(kind, [])
            if names or method == READING:  # without that one nothing at all is captured
                first = min(seats, key=lambda seat: seat.budget.flood_seconds(method))
                until = first.budget.floods()[method].isoformat(timespec="seconds")
                who = ", ".join(seat.account.name for seat in seats)
                some = ", ".join((names or ["none yet"])[: SHOWN - 1]) + (" and more" if names[SHOWN - 1 :] else "")
                said.append(f"Telegram makes {who} wait with {method} until {until}; {words}: {some}")
        return ". ".join(said) or None

    async def _place(self, search: Search, tried: dict[str, SourceError]) -> tuple[Connection, Peer]:
        for seat in self._candidates(search, tried):
            try:
                account = self.roster.reading(seat)
                peer = await self._peer(seat, search)
            except SourceError as exc:
                tried[seat.id] = exc
            else:
                seat.handed = next(self._turns)
                return account, peer
        public = search.channel.username is not None
        raise self._why_none(search.channel.shown, list(tried.values()), search.hashes, public=public)

    def _candidates(self, search: Search, tried: dict[str, SourceError]) -> list[AccountInUse]:
        """Who can read the channel, the best first; why others cannot is added to `tried`."""
        now = self._ticks()
        knowing: list[AccountInUse] = []
        asking: list[AccountInUse] = []
        for seat in self.roster.usable:
            knows = seat.id in search.hashes
            if seat.id in tried or not (knows or search.channel.username):
                continue  # a private channel is read by those who have joined it
            flood = seat.flood(READING) if knows else seat.flood(READING, RESOLVING)
            if flood is not None:
                tried[seat.id] = flood
            else:
                (knowing if knows else asking).append(seat)
        waits = [exc.flood_seconds for account_id, exc in tried.items() if account_id in search.hashes]
        if min((seconds for seconds in waits if seconds is not None), default=inf) <= MOVE_AFTER:
            asking = []
        knowing.sort(key=lambda seat: seat.load(READING, now))
        asking.sort(key=lambda seat: seat.load(RESOLVING, now))
        hidden = search.channel.hidden
        # Who was denied is asked last, but is asked: meanwhile it may have joined. Who is shown more comes first.
        return sorted(
            knowing + asking,
            key=lambda seat: (self._denied.get((search.channel.id, seat.id), now) > now, hidden.get(seat.id, 0)),
        )

    async def _peer(self, seat: AccountInUse, search: Search) -> Peer:
        channel = search.channel
        if seat.id not in search.hashes:
            info = await self._look_up(seat, ChannelRef(username=channel.username))
            if info.id != channel.id:
                raise SourceError(Failure.GONE, f"{channel.shown} is the name of another channel now: {info.title}")
            await self._store.remember_hash(seat.id, channel.id, info.access_hash)
            search.hashes[seat.id] = info.access_hash
        return Peer(channel.id, search.hashes[seat.id])

    async def _forget_hash(self, search: Search, account_id: str) -> None:
        stale = search.hashes.pop(account_id)
        search.renewed.add(account_id)
        self._directory.forget(account_id, ChannelRef(username=search.channel.username))
        log.info("access_hash_stale", channel=search.channel.shown, account=account_id)
        await self._store.forget_hash(account_id, search.channel.id, stale)

    async def _look_up(self, seat: AccountInUse, ref: ChannelRef) -> ChannelInfo:
        account = self.roster.reading(seat)
        try:
            return await self._directory.look_up(account, ref)
        except SourceError as exc:
            await self.failed(account, exc)
            raise

    async def _known(self, ref: ChannelRef, tenant_id: UUID) -> tuple[str, ChannelInfo] | None:
        """A channel that we have already, if an account of now can read it."""
        if ref.username is not None:
            channel = await self._channels.by_username(ref.username)
        elif ref.channel_id is not None:
            channel = await self._channels.get(ref.channel_id)
        else:
            return None
        if channel is None or channel.tenant_id not in {None, tenant_id}:
            return None
        able = [seat.id for seat in self.roster.living if seat.id in channel.access_hash]
        if not able or channel.status != "active":
            return None  # an unvisited channel may have lost its name to another
        info = ChannelInfo(
            id=channel.id,
            title=channel.title,
            username=channel.username,
            access_hash=channel.access_hash[able[0]],
            is_private=channel.username is None,
            linked_id=channel.linked_id,
        )
        return able[0], info

    def _why_none(
        self, shown: str, errors: list[SourceError], hashes: Collection[str] = (), *, public: bool
    ) -> SourceError:
        errors = [exc for exc in errors if not isinstance(exc, ReadElsewhere)]  # the last resort, below
        if not self.roster.living and self.roster.given_error is not None:
            errors = [*errors, self.roster.given_error]
        for failure in HOPE:
            found = [exc for exc in errors if exc.failure is failure]
            if found:
                best = min(found, key=lambda exc: exc.flood_seconds or 0.0)
                of_the_channel = failure in {Failure.CHANNEL_PRIVATE, Failure.GONE}
                text = f"{shown}: {best}" if of_the_channel else f"no Telegram account can read {shown} now: {best}"
                return SourceError(failure, text, flood_seconds=best.flood_seconds)
        if not self.roster.living:
            return SourceError(Failure.ACCOUNT, f"no Telegram account can read {shown}: run `tga login`")
        if any(public or seat.id in hashes for seat in self.roster.living if not seat.ours):
            return ReadElsewhere(f"{shown} is read by another process: {self.roster.who_has_them()}")
        for seat in self.roster.seats.values():
            if seat.id in hashes:
                reason = seat.trouble or seat.account.last_error or seat.account.status
                return SourceError(Failure.ACCOUNT, f"the account that can read {shown} is of no use: {reason}")
        return SourceError(
            Failure.CHANNEL_PRIVATE, f"none of the Telegram accounts has joined {shown}: log in with one that has"
        )


def _ended(accounts: list[dict[str, Any]]) -> str | None:
    """Which accounts Telegram has ended, while others go on."""
    ended = [f"{one['name']}: {one['last_error']}" for one in accounts if one["status"] in ENDED]
    if not ended:
        return None
    cost = "what only they may read is not captured"
    return f"{'; '.join(ended)}; {cost}; log in again, or give them up with `tga accounts remove`"
