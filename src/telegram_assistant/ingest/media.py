"""MediaProcessor (SPEC 2.1): fetches the files of saved posts, some time after the posts and never in their way.

Files that vanished from the media store are found by turns, and fetched from Telegram again (G10).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import groupby
from operator import attrgetter
from random import Random
from typing import Any, Protocol, TypeAlias
from uuid import UUID, uuid4

import msgspec
from sqlalchemy.exc import SQLAlchemyError
from structlog.contextvars import bound_contextvars

from telegram_assistant.bus.supervisor import Task
from telegram_assistant.domain.access import SYSTEM_TENANT
from telegram_assistant.domain.accounts import Priority
from telegram_assistant.domain.media_rules import MediaRules, decide, extension_of, over_limit, wait_after
from telegram_assistant.domain.post import Media, Post
from telegram_assistant.domain.retries import FLOOD_JITTER_SECONDS, Backoff, Failure
from telegram_assistant.domain.source import Source, SourceError
from telegram_assistant.domain.storage import Room
from telegram_assistant.errors import AssistantError, Fatal, Skip
from telegram_assistant.ingest.origins import Readers
from telegram_assistant.log import get_logger
from telegram_assistant.metrics import ENGINE_LOSSES, FILES_LOST, MEDIA_BYTES, MEDIA_FILES, MEDIA_PENDING
from telegram_assistant.stores.media import MediaStore, MediaStoreError
from telegram_assistant.stores.postgres.channels import Channels
from telegram_assistant.stores.postgres.media import Evictions, MediaQueue, Wanted
from telegram_assistant.stores.postgres.upkeep import Turn, Upkeep

BATCH = 20  # files whose messages are asked for together: that request is the scarce one
LEASE = timedelta(minutes=15)
DOWNLOAD_SECONDS = 600.0  # shorter than the lease, so that no other process starts on the same file
POLL_SECONDS = 5.0
LEFT_BEHIND = timedelta(hours=6)  # an upload that was not finished by then never will be
BACKOFF = Backoff(base=30, factor=4, cap=6 * 3600)
NOT_THE_FILES_FAULT = frozenset({Failure.FLOOD, Failure.TRANSIENT, Failure.ACCOUNT})
SAME_FOR_ALL = frozenset({Failure.FLOOD, Failure.ACCOUNT})  # the next file of the channel would end alike
DELETED = "the message was deleted before its file could be downloaded"
UNKNOWN_MIME = "application/octet-stream"
MEDIA = "media"
UPKEEP_BATCH = 50
EVERY = timedelta(seconds=15)
WAKE = 5.0  # seconds between two looks whether it is our turn
BREATH = 0.2  # between two turns of a pass that hurries
PATIENCE = timedelta(minutes=10)  # for a disk that may be mounted again
ABSENT = timedelta(minutes=2)  # without a sign of who keeps the files
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)

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
        readers: Readers,
        *,
        rules: DownloadRules,
        clock: Callable[[], datetime],
        rng: Random | None = None,
        quotas: Quotas | None = None,
    ) -> None:
        self._queue = queue
        self._channels = channels
        self._store = store
        self._readers = readers
        self._rules = rules
        self._clock = clock
        self._quotas = quotas
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
        taken = await self._queue.take(limit=BATCH, now=now, until=now + LEASE, reach=await self._readers.reach())
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
        except Exception as exc:  # noqa: BLE001 - other channels go on
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
        source = await self._readers.reader(channel, priority=Priority.REFRESH)
        fresh = await source.by_ids({wanted.message_id for wanted in files})
        return Download(source, channel.tenant_id or UUID(SYSTEM_TENANT), fresh, progress, room)

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
        except Exception as exc:  # noqa: BLE001 - the other files go on
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
        pieces = download.source.download(wanted.message_id, replace(media, size=None))
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


class FilesState(msgspec.Struct, frozen=True):
    """Which store it should be, who keeps it, and how far its files were looked for."""

    mark: str = ""
    place: str = ""
    seen_at: datetime = LONG_AGO
    missed_since: datetime | None = None  # the mark is not there
    after: str = ""
    examined: int = 0
    lost: int = 0
    fetched: int = 0  # of those: on their way again
    hurry: bool = False


@dataclass
class MediaUpkeep:
    """One per ingest process; they take turns."""

    upkeep: Upkeep
    files: Evictions
    store: MediaStore
    place: str
    refused: str = ""

    async def run(self, task: Task) -> None:
        """A supervised job."""
        task.ready()
        while True:
            hurries = False
            try:
                hurries = await self.look()
            except MediaStoreError as exc:  # away: that is no loss
                log.warning("media_store_away", reason=str(exc))
            task.progress()
            await asyncio.sleep(BREATH if hurries else WAKE)

    async def look(self) -> bool:
        """Look for the next files; whether all of them are looked for at once."""
        known = await self.upkeep.state(MEDIA, FilesState)
        async with self.upkeep.turn(MEDIA, FilesState, every=timedelta() if known.hurry else EVERY) as turn:
            if turn is None or not await self._is_ours(turn):
                return False
            await self._look_for_files(turn)
        return turn.state.hurry

    async def report(self) -> dict[str, Any]:
        """For health."""
        state = await self.upkeep.state(MEDIA, FilesState)
        error = self.refused or None
        if error is None and state.missed_since is not None:
            error = (
                f"{state.place} is empty or another one: mount it again; after ten minutes its files are fetched anew"
            )
        if error is None and state.hurry:
            error = (
                f"files vanished: {state.examined:,} looked for, {state.lost:,} lost, {state.fetched:,} fetched again"
            )
        figures = {"examined": state.examined, "lost": state.lost, "fetched_again": state.fetched}
        return {"status": "degraded" if error else "ok", "error": error, "place": state.place, **figures}

    async def _is_ours(self, turn: Turn[FilesState]) -> bool:
        """Whether this is the store that the files should be in; one that was missed for long is taken as it is."""
        state, mark = turn.state, await self.store.mark()
        elsewhere = state.place not in ("", self.place) and turn.now - state.seen_at < ABSENT
        if mark != state.mark and state.mark and elsewhere:
            self.refused = f"files are kept at {state.place}, and this process has {self.place}: set MEDIA_URL for both"
            return False
        self.refused = ""
        here = msgspec.structs.replace(state, place=self.place, seen_at=turn.now, missed_since=None)
        if mark is not None and mark == state.mark:
            turn.state = here
            return True
        if state.mark and (state.missed_since is None or turn.now - state.missed_since < PATIENCE):
            if state.missed_since is None:
                ENGINE_LOSSES.labels(MEDIA).inc()
                log.warning("media_store_exchanged", place=self.place)
            turn.state = msgspec.structs.replace(here, missed_since=state.missed_since or turn.now)
            return False
        new = mark or uuid4().hex
        await self.store.set_mark(new)
        begun = FilesState(mark=new, place=self.place, seen_at=turn.now, hurry=bool(state.mark))
        turn.state = begun if state.mark else msgspec.structs.replace(here, mark=new)
        return True

    async def _look_for_files(self, turn: Turn[FilesState]) -> None:
        state = turn.state
        files = await self.files.kept_after(state.after, limit=UPKEEP_BATCH)
        gone = [sha256 for sha256, key in files if not await self.store.exists(key)]
        fetched = await self.files.lost(gone) if gone else 0
        if gone:
            FILES_LOST.inc(len(gone))
            log.warning("files_lost", files=len(gone), fetched_again=fetched)
        turn.state = msgspec.structs.replace(
            state,
            after=files[-1][0] if files else "",
            examined=state.examined + len(files),
            lost=state.lost + len(gone),
            fetched=state.fetched + fetched,
        )
        if len(files) < UPKEEP_BATCH:
            turn.state = msgspec.structs.replace(turn.state, after="", examined=0, lost=0, fetched=0, hurry=False)
