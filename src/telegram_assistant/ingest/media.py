"""MediaProcessor (SPEC 2.1): fetches the files of saved posts, some time after the posts and never in their way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby
from operator import attrgetter
from random import Random
from typing import Protocol, TypeAlias
from uuid import UUID

from sqlalchemy.exc import SQLAlchemyError
from structlog.contextvars import bound_contextvars

from telegram_assistant.bus.supervisor import Task
from telegram_assistant.domain.access import SYSTEM_TENANT
from telegram_assistant.domain.media_rules import MediaRules, decide, extension_of, over_limit, wait_after
from telegram_assistant.domain.pacing import Priority
from telegram_assistant.domain.post import Media, Post
from telegram_assistant.domain.retries import FLOOD_JITTER_SECONDS, Backoff, Failure
from telegram_assistant.domain.sharing import Reach
from telegram_assistant.domain.source import Peer, Source, SourceError
from telegram_assistant.domain.storage import Room
from telegram_assistant.errors import AssistantError, Fatal, Skip
from telegram_assistant.ingest.visits import Accounts, everything
from telegram_assistant.log import get_logger
from telegram_assistant.metrics import MEDIA_BYTES, MEDIA_FILES, MEDIA_PENDING
from telegram_assistant.stores.media import MediaStore, MediaStoreError
from telegram_assistant.stores.postgres.channels import Channels
from telegram_assistant.stores.postgres.media import MediaQueue, Wanted

BATCH = 20  # files whose messages are asked for together: that request is the scarce one
LEASE = timedelta(minutes=15)
DOWNLOAD_SECONDS = 600.0  # shorter than the lease, so that nobody else starts on the same file
POLL_SECONDS = 5.0
LEFT_BEHIND = timedelta(hours=6)  # an upload that was not finished by then never will be
BACKOFF = Backoff(base=30, factor=4, cap=6 * 3600)
NOT_THE_FILES_FAULT = frozenset({Failure.FLOOD, Failure.TRANSIENT, Failure.ACCOUNT})
SAME_FOR_ALL = frozenset({Failure.FLOOD, Failure.ACCOUNT})  # the next file of the channel would end alike

DELETED = "the message was deleted before its file could be downloaded"
UNKNOWN_MIME = "application/octet-stream"

Progress: TypeAlias = Callable[[], None]
Left: TypeAlias = dict[tuple[UUID, int], Wanted]

log = get_logger(__name__)


class Damaged(AssistantError):
    """What arrived is not the file: this attempt counts, and the message says what was wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadRules:
    """The settings of downloads."""

    media: MediaRules = MediaRules()  # noqa: RUF009 - frozen
    concurrency: int = 4
    max_attempts: int = 5


class Quotas(Protocol):
    """What may still be stored."""

    async def room(self, channel_id: int) -> Room: ...


@dataclass(frozen=True, slots=True)
class Download:
    """What is needed for the files of one channel."""

    source: Source
    peer: Peer
    tenant_id: UUID
    fresh: dict[int, Post | None]
    progress: Progress
    room: Room

    def find(self, wanted: Wanted) -> Media:
        """The file with a reference that is valid now. Skip: it is not there any more."""
        if wanted.message_id not in self.fresh:
            raise Damaged("the message could not be understood")
        post = self.fresh[wanted.message_id]
        if post is None:
            raise Skip(DELETED)
        media = post.media[wanted.position] if wanted.position < len(post.media) else None
        if media is None or media.file_id != wanted.file_id:
            raise Skip("an edit took the file away before it could be downloaded")
        return media


class MediaProcessor:
    """One per ingest process. Files are leased, so several processes share the work and take over from the dead."""

    def __init__(
        self,
        queue: MediaQueue,
        channels: Channels,
        store: MediaStore,
        accounts: Accounts,
        *,
        rules: DownloadRules,
        clock: Callable[[], datetime],
        rng: Random | None = None,
        quotas: Quotas | None = None,
        reach: Callable[[], Awaitable[Reach | None]] = everything,
    ) -> None:
        self._queue = queue
        self._channels = channels
        self._store = store
        self._accounts = accounts
        self._rules = rules
        self._clock = clock
        self._quotas = quotas
        self._reach = reach
        self._rng = rng or Random()  # noqa: S311 - jitter, no secret
        self.wake = asyncio.Event()

    async def run(self, task: Task) -> None:
        """A supervised job: fetch what is due. Stopping hands back what is in flight."""
        task.ready()
        # No TaskGroup: before Python 3.13 it leaves the task marked as cancelled, which means "stop" to the supervisor.
        loops = [self._tidy(), *(self._work(task) for _ in range(self._rules.concurrency))]
        running = [asyncio.ensure_future(loop) for loop in loops]
        try:
            await asyncio.gather(*running)  # none of them ends by itself, and the first error ends all
        finally:
            for one in running:
                if not one.cancelling():  # a stop has reached them; a second one would disturb their cleaning up
                    one.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def step(self, progress: Progress = lambda: None) -> int:
        """Take files that are due and deal with each; their number."""
        now = self._clock()
        taken = await self._queue.take(limit=BATCH, now=now, until=now + LEASE, reach=await self._reach())
        left = {wanted.key: wanted for wanted in taken}
        try:
            for key in await self._queue.adopt(taken):
                del left[key]
                MEDIA_FILES.labels("adopted").inc()
            for channel_id, files in groupby(list(left.values()), key=attrgetter("channel_id")):
                await self._channel(channel_id, list(files), left, progress)
        finally:
            for wanted in left.values():
                await self._queue.hand_back(wanted, self._clock())
        return len(taken)

    async def _work(self, task: Task) -> None:
        while True:
            self.wake.clear()
            done = await self.step(task.progress)
            task.progress()
            if not done:
                with suppress(TimeoutError):
                    async with asyncio.timeout(POLL_SECONDS):
                        await self.wake.wait()

    async def _tidy(self) -> None:
        while True:
            removed = await self._store.clean(older_than=LEFT_BEHIND)
            if removed:
                log.info("media_leftovers_removed", files=removed)
            for _ in range(60):
                MEDIA_PENDING.set(await self._queue.pending())
                await asyncio.sleep(60)

    async def _channel(self, channel_id: int, files: list[Wanted], left: Left, progress: Progress) -> None:
        """Fetch files of one channel, one after the other; what is dealt with is no longer `left`."""
        hopeless: Exception | None = None
        try:
            download = await self._prepare(channel_id, files, progress)
        except Fatal:
            raise
        except Exception as exc:  # noqa: BLE001 - whatever it is, other channels go on
            hopeless = exc
        for wanted in files:
            with bound_contextvars(channel_id=channel_id, message_id=wanted.message_id, file_id=wanted.file_id):
                if hopeless is not None:
                    await self._not_fetched(wanted, hopeless)
                else:
                    hopeless = await self._fetch(wanted, download, left)
            del left[wanted.key]

    async def _prepare(self, channel_id: int, files: Sequence[Wanted], progress: Progress) -> Download:
        """References are not stored, for they expire: the messages are asked for again."""
        channel = await self._channels.get(channel_id)
        if channel is None or channel.status == "removed":
            raise Skip("the channel is not watched any more")
        room = await self._quotas.room(channel_id) if self._quotas else Room()
        if not room.takes(None):
            raise Skip(room.reason)
        source, peer = await self._accounts.reader(channel, priority=Priority.REFRESH)
        fresh = await source.by_ids(peer, {wanted.message_id for wanted in files})
        return Download(source, peer, channel.tenant_id or UUID(SYSTEM_TENANT), fresh, progress, room)

    async def _fetch(self, wanted: Wanted, download: Download, left: Left) -> SourceError | None:
        """Fetch one file and store what came of it; an error that will meet the channel's other files too."""
        held = await self._queue.renew(wanted, self._clock() + LEASE)
        if held is None:
            return None  # an edit replaced the file, or we were so slow that another took it over
        left[wanted.key] = held
        try:
            await self._store_file(held, download)
        except (MediaStoreError, Fatal):
            raise  # not this file's trouble alone: the task fails visibly and is restarted
        except Exception as exc:  # noqa: BLE001 - whatever it is, the other files go on
            await self._not_fetched(held, exc)
            return exc if isinstance(exc, SourceError) and exc.failure in SAME_FOR_ALL else None
        return None

    async def _store_file(self, wanted: Wanted, download: Download) -> None:
        media = download.find(wanted)
        verdict = decide(media, self._rules.media)  # the settings may have changed since the post was saved
        if verdict.status == "skipped":
            raise Skip(verdict.reason or "the settings do not allow it")
        if not download.room.takes(media.size):
            raise Skip(download.room.reason)
        try:
            async with asyncio.timeout(DOWNLOAD_SECONDS), aclosing(self._arriving(wanted, media, download)) as pieces:
                file = await self._store.put(
                    pieces, tenant_id=download.tenant_id, extension=extension_of(media.mime, media.name)
                )
        except TimeoutError as exc:
            raise Damaged(f"the file did not arrive within {DOWNLOAD_SECONDS:.0f} s") from exc
        download.room.take(file.size)
        key = await self._queue.stored(wanted, file, media.mime or UNKNOWN_MIME, exists=self._store.exists)
        if key != file.key:
            await self._store.delete(file.key)  # the same bytes are kept already, with another ending or tenant
        MEDIA_FILES.labels("stored").inc()
        log.debug("media_stored", sha256=file.sha256, size=file.size)

    async def _arriving(self, wanted: Wanted, media: Media, download: Download) -> AsyncGenerator[bytes]:
        """The pieces, measured: too many bytes end the download, too few make it fail."""
        limit, total = self._rules.media.limit_of(media.kind), 0
        # Without its size the source leaves the measuring to us, and a short file is told apart from a lost connection.
        pieces = download.source.download(download.peer, wanted.message_id, replace(media, size=None))
        try:
            async for piece in pieces:
                total += len(piece)
                if total > limit:
                    raise Skip(over_limit(media.kind, None, self._rules.media))
                MEDIA_BYTES.inc(len(piece))
                download.progress()
                yield piece
        except SourceError as exc:
            if exc.failure is Failure.GONE:
                raise Skip(DELETED) from exc
            raise
        finally:
            if isinstance(pieces, AsyncGenerator):
                await pieces.aclose()
        if media.size is not None and total < media.size:
            raise Damaged(f"the file ended early: {total} of {media.size} bytes")

    async def _not_fetched(self, wanted: Wanted, exc: Exception) -> None:
        """Later, once more, never: by whose fault it was."""
        reason, now = str(exc) or type(exc).__name__, self._clock()
        attempt = wanted.attempts + 1
        if isinstance(exc, Skip):
            await self._queue.skip(wanted, reason)
            outcome = "skipped"
        elif _is_not_the_files_fault(exc):
            await self._queue.postpone(wanted, now + self._pause(wanted, exc, now), reason)
            outcome = "postponed"
        elif attempt < self._rules.max_attempts:
            await self._queue.retry(wanted, now + timedelta(seconds=BACKOFF.delay(attempt)), reason)
            outcome = "retried"
        else:
            await self._queue.fail(wanted, f"{reason} (after {attempt} attempts)")
            outcome = "failed"
        MEDIA_FILES.labels(outcome).inc()
        unforeseen = None if isinstance(exc, AssistantError) else exc
        level = log.info if outcome in {"skipped", "postponed"} else log.warning
        level(f"media_{outcome}", reason=reason, attempt=attempt, exc_info=unforeseen)

    def _pause(self, wanted: Wanted, exc: Exception, now: datetime) -> timedelta:
        if isinstance(exc, SourceError) and exc.flood_seconds is not None:
            return timedelta(seconds=exc.flood_seconds + self._rng.uniform(0, FLOOD_JITTER_SECONDS))
        return wait_after(now - wanted.captured_at) * self._rng.uniform(1, 1.2)


def _is_not_the_files_fault(exc: Exception) -> bool:
    if isinstance(exc, SourceError):
        return exc.failure in NOT_THE_FILES_FAULT
    return isinstance(exc, SQLAlchemyError | OSError)  # the database went away, and is back by now
