"""Messages by their ids: Telegram says of each whether it is there, while a page just leaves it out.

Which messages cannot be parsed is remembered, so that they are looked for once and not at every visit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from datetime import datetime

from telegram_assistant.domain.ledger import Coverage
from telegram_assistant.domain.source import PAGE_LIMIT, Source
from telegram_assistant.ingest.saver import Reading, Saved, Saver
from telegram_assistant.log import get_logger
from telegram_assistant.stores.postgres.audits import Unreadable

log = get_logger(__name__)


class Memory:
    """One per process. `reader` names what parses the messages, with its version."""

    def __init__(self, store: Unreadable, reader: str, *, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._reader = reader
        self._clock = clock

    async def start(self) -> None:
        await self._store.use_reader(self._reader, self._clock())

    async def of(self, channel_id: int) -> ChannelMemory:
        return ChannelMemory(self, channel_id, await self._store.of(channel_id, self._clock()))

    async def write(self, channel_id: int, found: Collection[int], read: Collection[int]) -> None:
        if found:
            log.warning("messages_unreadable", channel_id=channel_id, ids=sorted(found), reader=self._reader)
            await self._store.found(channel_id, found, self._reader, self._clock())
        if read:
            await self._store.forget(channel_id, read)


class ChannelMemory:
    """What is remembered of one channel while it is read."""

    def __init__(self, memory: Memory | None, channel_id: int, known: dict[int, bool]) -> None:
        self._memory = memory
        self._channel_id = channel_id
        self._known = known
        self.new = 0  # found in this reading

    @property
    def left_alone(self) -> frozenset[int]:
        """Ids that are not asked for now."""
        return frozenset(message_id for message_id, alone in self._known.items() if alone)

    async def note(self, unreadable: Iterable[int], told: Coverage) -> None:
        """After an answer: what of it could not be parsed, and of which ids it told."""
        found = set(unreadable) - self.left_alone
        read = {message_id for message_id in self._known if message_id in told and message_id not in found}
        self.new += len(found)
        if self._memory is not None and (found or read):
            await self._memory.write(self._channel_id, found, read)
        self._known.update(dict.fromkeys(found, True))
        for message_id in read:
            del self._known[message_id]


async def remembered(memory: Memory | None, channel_id: int) -> ChannelMemory:
    """None: nothing is remembered beyond this reading."""
    return ChannelMemory(None, channel_id, {}) if memory is None else await memory.of(channel_id)


async def look_at(
    saver: Saver,
    source: Source,
    ids: Sequence[int],
    *,
    clock: Callable[[], datetime],
    before_page: Callable[[], Awaitable[None]],
    memory: Memory | None = None,
) -> tuple[int, Saved]:
    """Read these messages again; of how many something was told, and what that changed."""
    told, changed = 0, Saved()
    known = await remembered(memory, source.channel_id)
    ids = [message_id for message_id in ids if message_id not in known.left_alone]
    for start in range(0, len(ids), PAGE_LIMIT):
        await before_page()
        asked_at = clock()
        asked = ids[start : start + PAGE_LIMIT]
        found = await source.by_ids(asked)
        await known.note(set(asked).difference(found), Coverage.of_ids(found))
        reading = Reading(
            channel_id=source.channel_id,
            posts=[post for post in found.values() if post is not None],
            proven=Coverage.of_ids(found),  # an id that could not be understood is not among them
            reached_end=False,
            asked_at=asked_at,
        )
        changed.add(await saver.save(reading))
        told += len(found)
    return told, changed
