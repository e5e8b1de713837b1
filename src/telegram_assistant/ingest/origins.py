"""Where channels are read: by accounts of Telegram, by public previews. A channel is read at the first that can."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar
from uuid import UUID

from telegram_assistant.domain.accounts import Priority, Reach
from telegram_assistant.domain.channel import ChannelRef
from telegram_assistant.domain.retries import Failure
from telegram_assistant.domain.source import ChannelInfo, ReadElsewhere, Source, SourceError
from telegram_assistant.stores.postgres.channels import Channel

T = TypeVar("T")


class _Place(Protocol):
    async def reach(self) -> Reach | None:
        """Which channels this process can read now; None: all of them."""
        ...


class Readers(_Place, Protocol):
    """What the jobs of capture need: a source for a channel."""

    async def reader(self, channel: Channel, *, priority: Priority = Priority.VISIT) -> Source:
        """Raises SourceError when the channel cannot be read here now."""
        ...


class Finder(_Place, Protocol):
    """What adding a channel needs."""

    async def resolve(self, ref: ChannelRef, tenant_id: UUID) -> tuple[str, ChannelInfo]:
        """The channel that is called so, and the name under which its row keeps who can read it (`access_hash`)."""
        ...


class Origin(Readers, Finder, Protocol):
    """What a new kind of source has to bring besides the source itself."""


# What none can do is told in the words that leave most hope.
HOPE = (Failure.FLOOD, Failure.TRANSIENT, Failure.CHANNEL_PRIVATE, Failure.GONE, Failure.FATAL, Failure.ACCOUNT)


class Origins:
    """All of them, as one. What one knows not to exist is not asked for elsewhere, unless it is the `demo`."""

    def __init__(self, first: Origin, *others: Origin, demo: bool = False) -> None:
        self._all = (first, *others)
        self._demo = demo

    async def reach(self) -> Reach | None:
        found = [await origin.reach() for origin in self._all]
        known = [reach for reach in found if reach is not None]
        if len(known) < len(found):
            return None
        if known[0].stands_by:
            return known[0]  # the processes that have the accounts read everything
        return Reach(
            knowing=tuple(one for reach in known for one in reach.knowing),
            asking=any(reach.asking for reach in known),
            elsewhere=tuple(one for reach in known for one in reach.elsewhere),
            living=tuple(one for reach in known for one in reach.living),
        )

    async def reader(self, channel: Channel, *, priority: Priority = Priority.VISIT) -> Source:
        return await self._first(lambda origin: origin.reader(channel, priority=priority))

    async def resolve(self, ref: ChannelRef, tenant_id: UUID) -> tuple[str, ChannelInfo]:
        return await self._first(lambda origin: origin.resolve(ref, tenant_id))

    async def _first(self, ask: Callable[[Origin], Awaitable[T]]) -> T:
        errors: list[SourceError] = []
        for origin in self._all:
            try:
                return await ask(origin)
            except ReadElsewhere:
                raise
            except SourceError as exc:
                errors.append(exc)
                if exc.failure is Failure.GONE and not self._demo:
                    break
        raise min(errors, key=lambda exc: HOPE.index(exc.failure) if exc.failure in HOPE else len(HOPE))
