"""Exports of Telegram Desktop, saved like everything else that is read: by the one saver, with the ledger.

First all of the export is looked through, so that nothing of a damaged one is stored. An export proves what it holds
and nothing of what it does not. It may be old: what was captured since is newer, and stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, tzinfo
from mimetypes import guess_type
from typing import Protocol
from uuid import UUID

from telegram_assistant.domain.access import SYSTEM_TENANT
from telegram_assistant.domain.ledger import Coverage
from telegram_assistant.domain.media_rules import MediaDecision, MediaRules, decide, extension_of, over_limit
from telegram_assistant.domain.post import Media, MediaKind, Post
from telegram_assistant.domain.storage import Room
from telegram_assistant.ingest.saver import Reading, Saved, Saver
from telegram_assistant.source.export import Export, Found
from telegram_assistant.source.export_files import BadExport, ExportFiles
from telegram_assistant.source.export_posts import Batch, Chat
from telegram_assistant.stores.media import MediaStore
from telegram_assistant.stores.postgres.channels import EXPORT, Channel, Channels
from telegram_assistant.stores.postgres.imports import ImportedChannels
from telegram_assistant.stores.postgres.media import MediaQueue, Wanted

BATCH = 500  # posts that are saved together
HELD = timedelta(hours=1)  # a file that is on its way from an export is not downloaded meanwhile
AHEAD = timedelta(hours=1)  # by which a clock may differ
PIECE = 1 << 20
NO_FILE = "the export came without this file"
UNKNOWN_MIME = "application/octet-stream"
PRIVACY = (
    "it holds what other people wrote in private, and they were not asked. With --private it is imported all the same;"
    " only your own tenant sees it"
)


class PrivateChats(BadExport):
    """Nothing else is in it, and private chats were not asked for."""


class WhichChannel(BadExport):
    """It does not say which channel it is of."""


class Quotas(Protocol):
    """What may still be stored."""

    async def room(self, channel_id: int) -> Room: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """How an export is to be imported, and by whom."""

    tenant_id: UUID
    user_id: UUID
    channel_id: int | None = None  # which channel it is of, where the export does not say so
    zone: tzinfo | None = None  # of times without an offset
    private: bool = False  # chats and groups too
    only_look: bool = False
    shared: bool = True  # may write to channels that all tenants share


@dataclass(slots=True, kw_only=True)
class Report:
    """What came of one chat of an export."""

    title: str
    channel_id: int
    messages: int = 0  # in the export, without those that follow
    unusual: int = 0  # could not be understood
    undated: int = 0  # service messages of HTML
    new: int = 0
    edited: int = 0
    past: int = 0  # of the new: deleted in Telegram since
    files: int = 0  # stored
    files_refused: dict[str, int] = field(default_factory=dict)  # by reason
    without_offset: bool = False

    @property
    def same(self) -> int:
        return self.messages - self.new - self.edited

    def add(self, batch: Batch, saved: Saved) -> None:
        self.messages += len(batch.posts)
        self.unusual += batch.unusual
        self.new += len(saved.new)
        self.edited += len(saved.edited)
        self.past += len(saved.late)


@dataclass(slots=True)
class Outcome:
    """What came of an export."""

    reports: list[Report] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)  # titles of chats and groups that were not asked for


Progress = Callable[[str, int, int], None]  # title, bytes that were read, bytes in all


def decide_exported(media: Media, rules: MediaRules, now: datetime) -> MediaDecision:
    """A file that lies in the export is on its way; others are not to be had."""
    if media.reference is None:
        return MediaDecision("skipped", NO_FILE)
    verdict = decide(replace(media, file_id="export"), rules)
    return replace(verdict, held_until=now + HELD) if verdict.status == "pending" else verdict


class Importer:
    """Brings an export in. `saver` decides about files with `decide_exported`."""

    def __init__(
        self,
        channels: Channels,
        imported: ImportedChannels,
        saver: Saver,
        queue: MediaQueue,
        store: MediaStore,
        *,
        rules: MediaRules,
        clock: Callable[[], datetime],
        quotas: Quotas | None = None,
    ) -> None:
        self._channels = channels
        self._imported = imported
        self._saver = saver
        self._queue = queue
        self._store = store
        self._rules = rules
        self._clock = clock
        self._quotas = quotas

    @property
    def latest(self) -> datetime:
        """No message can be dated later."""
        return self._clock() + AHEAD

    async def run(self, export: Export, wish: Wish, progress: Progress = lambda *_: None) -> Outcome:
        """Raises BadExport before anything is stored."""
        found = await asyncio.to_thread(export.survey, wish.zone)
        wanted = [one for one in found if wish.private or _is_channel(one.chat)]
        if not wanted:
            names = ", ".join(one.chat.title for one in found[:3])
            raise PrivateChats(f"{names} is a private chat or a group: {PRIVACY}")
        if wish.channel_id is not None and len(wanted) > 1:
            raise BadExport(f"the export holds {len(wanted)} chats, and --channel can name only one")
        places = [await self._place(one.chat, wish) for one in wanted]
        outcome = Outcome(left_out=[one.chat.title for one in found if one not in wanted])
        for one, channel_id in zip(wanted, places, strict=True):
            outcome.reports.append(await self._chat(export, one, channel_id, wish, progress))
        return outcome

    async def _place(self, chat: Chat, wish: Wish) -> int:
        """Which channel it is; raises BadExport where that is not known, or not ours to write to."""
        channel_id = chat.id if chat.id is not None else wish.channel_id
        if channel_id is None:
            titled = await self._imported.titled(chat.title)
            if len(titled) != 1:
                raise WhichChannel(
                    f"{chat.title!r}: HTML does not say which channel it is of, and {len(titled) or 'none'} here"
                    " is called so: say it with --channel (an id like -1001234567890, or the @name of one that is"
                    " watched), or export as JSON"
                )
            channel_id = titled[0]
        elif wish.channel_id not in (None, channel_id):
            raise BadExport(f"the export is of {chat.title!r} ({channel_id}), and --channel names {wish.channel_id}")
        channel = await self._channels.get(channel_id)
        if channel is not None:
            self._check_owner(channel, wish)
        elif not wish.shared and not _belongs_to_one(chat):
            raise BadExport(f"{chat.title!r} is public, and so shared by all tenants: ask the operator to import it")
        return channel_id

    def _check_owner(self, channel: Channel, wish: Wish) -> None:
        if channel.tenant_id not in (None, wish.tenant_id):
            raise BadExport(f"channel {channel.id} belongs to another tenant")
        if channel.tenant_id is None and not wish.shared:
            raise BadExport(f"{channel.shown} is shared by all tenants: ask the operator to import it")
        if channel.status == "removed":
            raise BadExport(f"{channel.shown} was removed here: watch it again first, with tga channels revive")

    async def _chat(self, export: Export, found: Found, channel_id: int, wish: Wish, progress: Progress) -> Report:
        chat, size = found.chat, export.size_of(found.chat)
        report = Report(title=chat.title, channel_id=channel_id, undated=chat.undated)
        report.without_offset = chat.without_offset
        channel = await self._channels.get(channel_id)
        if channel is None and wish.only_look:
            report.messages = report.new = chat.messages
            report.unusual = chat.unusual
            return report
        if not wish.only_look:
            await self._imported.watch(
                channel_id,
                chat.title,
                ids=(chat.lowest_id, chat.highest_id),
                tenant_id=wish.tenant_id,
                user_id=wish.user_id,
                private=_belongs_to_one(chat),
                group=not _is_channel(chat),
            )
        # Of a channel that was read, Telegram itself has told which post is the newest.
        told = channel is not None and channel.access_hash.keys() != {EXPORT}
        room = await self._quotas.room(channel_id) if self._quotas else Room()
        owner = (channel.tenant_id if channel else wish.tenant_id if _belongs_to_one(chat) else None) or SYSTEM
        batches = found.reader.batches(chat, channel_id, wish.zone, BATCH)
        while (batch := await asyncio.to_thread(next, batches, None)) is not None:
            reading = _reading(channel_id, batch.posts, told=told, edits_dated=chat.edits_dated)
            saved = await self._saver.save(reading, only_look=wish.only_look)
            report.add(batch, saved)
            if not wish.only_look:
                await self._bring_files(export.files, batch.posts, owner, room, report)
            progress(chat.title, batch.done, size)
        return report

    async def _bring_files(
        self, files: ExportFiles, posts: Sequence[Post], tenant_id: UUID, room: Room, report: Report
    ) -> None:
        """Also those that an earlier export had left out, or an earlier run did not come to."""
        there = {key: media for key, media in _files_of(posts) if self._is_wanted(files, media, report)}
        if not there:
            return
        for wanted in await self._queue.hold(list(there), self._clock() + HELD):
            media = there[wanted.key]
            try:
                await self._bring(files, wanted, media, tenant_id, room)
            except BadExport as exc:
                await self._queue.skip(wanted, str(exc))
                _count(report, "a file that cannot be read, or too large")
            else:
                report.files += 1

    def _is_wanted(self, files: ExportFiles, media: Media, report: Report) -> bool:
        if media.reference is None:
            _count(report, NO_FILE)
            return False
        verdict = decide(replace(media, file_id="export", size=files.size(str(media.reference))), self._rules)
        if verdict.status == "skipped":
            _count(report, verdict.reason or NO_FILE)
        return verdict.status == "pending"

    async def _bring(self, files: ExportFiles, wanted: Wanted, media: Media, tenant_id: UUID, room: Room) -> None:
        name = str(media.reference)
        size = files.size(name) or 0
        if not room.takes(size):
            raise BadExport(room.reason)
        limit = self._rules.limit_of(media.kind)
        too_large = over_limit(media.kind, None, self._rules)
        mime = media.mime or guess_type(name)[0] or UNKNOWN_MIME
        pieces = _pieces(files, name, limit, too_large)
        file = await self._store.put(pieces, tenant_id=tenant_id, extension=extension_of(mime, name))
        key = await self._queue.stored(wanted, file, mime, exists=self._store.exists)
        if key != file.key:
            await self._store.delete(file.key)  # the same bytes are kept already, with another ending or tenant
        room.take(file.size)


SYSTEM = UUID(SYSTEM_TENANT)


def _is_channel(chat: Chat) -> bool:
    return chat.is_channel or chat.kind == "channel"


def _belongs_to_one(chat: Chat) -> bool:
    """Whether only the tenant that brings it sees it. HTML does not say whether a channel is public."""
    return chat.is_private and chat.kind != "channel"


def _reading(channel_id: int, posts: Sequence[Post], *, told: bool, edits_dated: bool) -> Reading:
    return Reading(
        channel_id=channel_id,
        posts=posts,
        proven=Coverage.of_ids(post.message_id for post in posts),
        reached_end=False,
        told=told,
        edits_dated=edits_dated,
    )


def _files_of(posts: Sequence[Post]) -> Iterator[tuple[tuple[UUID, int], Media]]:
    for post in posts:
        for position, media in enumerate(post.media):
            if media.kind is not MediaKind.OTHER:
                yield (post.id, position), media


def _count(report: Report, reason: str) -> None:
    report.files_refused[reason] = report.files_refused.get(reason, 0) + 1


async def _pieces(files: ExportFiles, name: str, limit: int, too_large: str) -> AsyncIterator[bytes]:
    total = 0
    with files.reading(name) as file:
        while piece := await asyncio.to_thread(file.read, PIECE):
            total += len(piece)
            if total > limit:
                raise BadExport(too_large)
            yield piece
