"""What both forms of an export come to: a chat, its posts in batches, times that may lack their offset."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from typing import Protocol

from telegram_assistant.domain.channel import MAX_CHANNEL_ID
from telegram_assistant.domain.moments import as_utc
from telegram_assistant.domain.post import LARGEST_MESSAGE_ID, Post
from telegram_assistant.domain.text import Entity, EntityKind, clean_message, clean_text
from telegram_assistant.source.export_files import BadExport

CHANNELS = frozenset({"public_channel", "private_channel"})
GROUPS = frozenset({"public_supergroup", "private_supergroup"})  # their ids are of the same kind
PRIVATE_FROM = 10**13  # above every id of a channel: persons, bots and small groups have ids of another kind
EARLIEST = datetime(2013, 8, 1, tzinfo=UTC)  # Telegram began then
_WIDE = re.compile("[\U00010000-\U0010ffff]")
_OLD_MARK = 1 << 33  # until 2021 a channel's id stood there with this added


class NoZone(BadExport):
    """Its times have no offset, and none was given."""


@dataclass(kw_only=True)
class Chat:
    """A chat of an export, as a first look through all of it found it."""

    name: str  # of its file
    title: str
    number: int = 0  # among those of its file
    kind: str = ""  # as Telegram Desktop calls it; empty: HTML does not say
    id: int | None = None  # of the channel, bare; None: HTML does not say
    messages: int = 0
    unusual: int = 0  # messages that cannot be understood
    undated: int = 0  # service messages of HTML, which have no time
    lowest_id: int = 0
    highest_id: int = 0
    newest_at: datetime = EARLIEST
    without_offset: bool = False
    edits_dated: bool = True
    files: list[str] = field(default_factory=list)  # that hold its messages

    @property
    def is_channel(self) -> bool:
        return self.kind in CHANNELS

    @property
    def is_private(self) -> bool:
        """Others do not see it in Telegram."""
        return self.kind not in {"public_channel", "public_supergroup"}

    def saw(self, message_id: int, at: datetime) -> None:
        self.messages += 1
        self.lowest_id = min(self.lowest_id or message_id, message_id)
        self.highest_id = max(self.highest_id, message_id)
        self.newest_at = max(self.newest_at, at)


@dataclass(frozen=True, slots=True)
class Batch:
    """Some posts in a row. `unusual`: ids of messages that cannot be understood; they stay unknown."""

    posts: list[Post]
    unusual: int
    done: int  # bytes of the export that were read so far


class Reader(Protocol):
    """One form of an export."""

    def survey(self, zone: tzinfo | None) -> list[Chat]:
        """Look through everything once, before anything is stored. Raises BadExport."""
        ...

    def batches(self, chat: Chat, channel_id: int, zone: tzinfo | None, size: int) -> Iterator[Batch]: ...


def bare_chat_id(told: int, kind: str, *, old: bool) -> int:
    """The id that Telegram itself and other sources use; raises ValueError for what is none."""
    marks = 2 if kind in CHANNELS | GROUPS else 1  # a small group has half of the mark
    if old and told >= marks * (_OLD_MARK >> 1):
        told -= marks * (_OLD_MARK >> 1)
    if kind in CHANNELS | GROUPS:
        if told < 0:
            told = -told - 10**12
        if not 0 < told <= MAX_CHANNEL_ID:
            raise ValueError(f"{told} is not a channel's id")
        return told
    return PRIVATE_FROM + (10**12 if kind == "private_group" else 0) + abs(told)


def moment_of(text: str, zone: tzinfo | None) -> datetime:
    """A time that may have no offset. Raises NoZone, or ValueError for what is no time."""
    found = datetime.fromisoformat(text)
    if found.utcoffset() is None:
        if zone is None:
            raise NoZone(
                "the times in this export have no offset: say the time zone of the computer that made it, for example"
                " --zone Europe/Moscow"
            )
        found = found.replace(tzinfo=zone)
    return as_utc(found)


def check_place(message_id: int, at: datetime, latest: datetime) -> None:
    """A channel is read from its newest date on: one wrong date would harm it. Raises ValueError."""
    if not (1 <= message_id <= LARGEST_MESSAGE_ID and EARLIEST <= at <= latest):
        raise ValueError(f"message {message_id} of {at} can not be")


def finished(text: str, entities: list[Entity]) -> tuple[str, list[Entity]]:
    """Clean, and with offsets as Telegram counts them, in UTF-16; they come counted in characters."""
    if not text.isascii() and len(text.encode("utf-16-le", "surrogatepass")) != 2 * len(text):
        wide = [found.start() for found in _WIDE.finditer(text)] if entities else []
        entities = [_shifted(entity, wide) for entity in entities]
    if "\0" not in text:
        return clean_text(text), entities
    cleaned, kept = clean_message(text, entities)
    return cleaned, list(kept)


def _shifted(entity: Entity, wide: list[int]) -> Entity:
    start, stop = entity.offset, entity.offset + entity.length
    before, inside = bisect_left(wide, start), bisect_left(wide, stop)
    return Entity(entity.kind, start + before, stop - start + inside - before, entity.url, entity.detail)


def linked(entities: list[Entity]) -> list[Entity]:
    return [entity for entity in entities if entity.kind in (EntityKind.URL, EntityKind.TEXT_URL)]
