"""A second look: messages by their ids. Telegram says of each whether it is there; a page just leaves it out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

from telegram_assistant.domain.ledger import Coverage
from telegram_assistant.domain.source import PAGE_LIMIT, Peer, Source
from telegram_assistant.ingest.saver import Reading, Saved, Saver
from telegram_assistant.ingest.unreadable import Memory, remembered


async def look_at(
    saver: Saver,
    source: Source,
    peer: Peer,
    ids: Sequence[int],
    *,
    clock: Callable[[], datetime],
    before_page: Callable[[], Awaitable[None]],
    memory: Memory | None = None,
) -> tuple[int, Saved]:
    """Read these messages again; of how many something was told, and what that changed."""
    told, changed = 0, Saved()
    known = await remembered(memory, peer.channel_id)
    ids = [message_id for message_id in ids if message_id not in known.left_alone]
    for start in range(0, len(ids), PAGE_LIMIT):
        await before_page()
        asked_at = clock()
        asked = ids[start : start + PAGE_LIMIT]
        found = await source.by_ids(peer, asked)
        await known.note(set(asked).difference(found), Coverage.of_ids(found))
        reading = Reading(
            channel_id=peer.channel_id,
            posts=[post for post in found.values() if post is not None],
            proven=Coverage.of_ids(found),  # an id that could not be understood is not among them
            reached_end=False,
            asked_at=asked_at,
        )
        changed.add(await saver.save(reading))
        told += len(found)
    return told, changed
