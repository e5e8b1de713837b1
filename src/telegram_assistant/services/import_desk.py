"""Exports that are uploaded on the page: streamed to the disk, then imported as by `tga import`, one at a time.

Each user has one upload. It is kept while it may be tried again with other answers, for an hour at most.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path, PurePosixPath
from time import monotonic
from uuid import UUID

from telegram_assistant.bus.supervisor import Task
from telegram_assistant.errors import AssistantError, Reject
from telegram_assistant.ingest.importing import Outcome, PrivateChats, Progress, WhichChannel, Wish
from telegram_assistant.log import get_logger
from telegram_assistant.source.export_posts import NoZone

MB = 10**6
PIECE = 1 << 20  # written at once
KEPT_SECONDS = 3600.0
LOOK_SECONDS = 60.0
LONGEST_NAME = 200  # bytes
ENDINGS = frozenset({".zip", ".json", ".html"})
REASONS: dict[type[Exception], str] = {PrivateChats: "private", NoZone: "no_zone", WhichChannel: "no_channel"}

log = get_logger(__name__)

Bring = Callable[[Sequence[Path], Wish, Progress], Awaitable[Outcome]]


class Stage(StrEnum):
    """How far an upload is."""

    RECEIVING = "receiving"
    WAITING = "waiting"  # for another import to end
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


class NotTaken(Reject):
    """An upload is refused; `reason` is a key of the texts."""

    def __init__(self, reason: str, text: str, *, limit: int = 0) -> None:
        super().__init__(text)
        self.reason, self.limit = reason, limit


@dataclass
class Upload:
    """What a user sent, and what became of it."""

    token: str
    folder: Path
    size: int = 0
    stage: Stage = Stage.RECEIVING
    wish: Wish | None = None
    title: str = ""  # of the chat that is read now
    done: int = 0
    total: int = 0
    outcome: Outcome | None = None
    reason: str = ""
    error: str = ""
    touched: float = field(default_factory=monotonic)

    @property
    def is_busy(self) -> bool:
        return self.stage in {Stage.WAITING, Stage.RUNNING}

    @property
    def can_go_on(self) -> bool:
        """It is here, and another answer may help."""
        looked = self.stage is Stage.DONE and self.wish is not None and self.wish.only_look
        return looked or (self.stage is Stage.FAILED and bool(self.reason))

    def files(self) -> list[Path]:
        return sorted(self.folder.iterdir())


class ImportDesk:
    """A supervised job, and what the page asks it."""

    def __init__(self, folder: Path, bring: Bring, *, most_mb: int, keep_free_mb: int) -> None:
        self._folder = folder
        self._bring = bring
        self._most = most_mb * MB
        self._keep_free = keep_free_mb * 2**20
        self._uploads: dict[UUID, Upload] = {}
        self._waiting: asyncio.Queue[Upload] = asyncio.Queue()

    @property
    def most(self) -> int:
        """Bytes that one upload may have."""
        return self._most

    async def run(self, task: Task) -> None:
        """What an earlier process left is nothing to go on with: its user was told nothing yet."""
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)
        task.ready()
        while True:
            try:
                upload = await asyncio.wait_for(self._waiting.get(), LOOK_SECONDS)
            except TimeoutError:
                await self._forget_old()
            else:
                await self._import(upload)
            task.progress()

    def of(self, user_id: UUID) -> Upload | None:
        return self._uploads.get(user_id)

    async def receive(
        self, user_id: UUID, token: str, name: str, pieces: AsyncIterator[bytes], *, said: int | None
    ) -> Upload:
        """One file of an upload, never more than a piece of it in memory. Raises NotTaken."""
        if not _is_name(name):
            raise NotTaken("kind", "send a zip, result.json or messages.html as Telegram Desktop made them")
        upload = await self._upload(user_id, token)
        free = shutil.disk_usage(upload.folder).free - self._keep_free
        room = min(self._most - upload.size, free)
        if (said or 0) > room or room <= 0:
            raise self._too_large(free)
        path = upload.folder / name
        try:
            upload.size += await self._write(upload, path, pieces, room)
        except BaseException:
            path.unlink(missing_ok=True)  # half of a file must not be taken for one
            raise
        return upload

    async def _write(self, upload: Upload, path: Path, pieces: AsyncIterator[bytes], room: int) -> int:
        taken = 0
        with path.open("wb") as file:
            async for piece in _together(pieces):
                taken += len(piece)
                upload.touched = monotonic()
                if taken > room:
                    raise self._too_large(shutil.disk_usage(upload.folder).free - self._keep_free)
                await asyncio.to_thread(file.write, piece)
        return taken

    def begin(self, user_id: UUID, token: str, wish: Wish) -> Upload:
        """Import what was sent. Raises NotTaken."""
        upload = self._uploads.get(user_id)
        if upload is None or upload.token != token or not upload.files():
            raise NotTaken("gone", "what was sent is not here any more: choose the files again")
        if upload.is_busy:
            raise NotTaken("busy", "your last import is still running")
        upload.wish, upload.stage, upload.touched = wish, Stage.WAITING, monotonic()
        upload.reason = upload.error = upload.title = ""
        upload.done = upload.total = 0
        upload.outcome = None
        self._waiting.put_nowait(upload)
        return upload

    async def forget(self, user_id: UUID) -> None:
        """Raises NotTaken while it is imported."""
        upload = self._uploads.get(user_id)
        if upload is None:
            return
        if upload.is_busy:
            raise NotTaken("busy", "your last import is still running")
        del self._uploads[user_id]
        await asyncio.to_thread(shutil.rmtree, upload.folder, ignore_errors=True)

    async def _upload(self, user_id: UUID, token: str) -> Upload:
        upload = self._uploads.get(user_id)
        if upload is not None and upload.token == token and upload.stage is Stage.RECEIVING:
            return upload
        await self.forget(user_id)
        folder = self._folder / f"{user_id.hex}-{token}"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        upload = self._uploads[user_id] = Upload(token, folder)
        return upload

    def _too_large(self, free: int) -> NotTaken:
        if free < self._most:
            return NotTaken("no_room", "the disk has no room for it: free some space", limit=max(0, free))
        words = f"more than {self._most // MB:,} MB are not taken here (IMPORT_MAX_MB): use tga import on the machine"
        return NotTaken("too_large", words, limit=self._most)

    async def _import(self, upload: Upload) -> None:
        assert upload.wish is not None  # noqa: S101 - only begin() queues one

        def told(title: str, done: int, total: int) -> None:
            upload.title, upload.done, upload.total = title, done, total

        upload.stage = Stage.RUNNING
        try:
            upload.outcome = await self._bring(upload.files(), upload.wish, told)
        except AssistantError as exc:
            upload.reason = REASONS.get(type(exc), "")
            upload.error = str(exc).replace(f"{upload.folder}/", "")
            upload.stage = Stage.FAILED
        except BaseException:
            upload.error, upload.stage = "it ended by a fault of ours, which is in the log", Stage.FAILED
            raise
        else:
            upload.stage = Stage.DONE
        finally:
            upload.touched = monotonic()
            if not upload.can_go_on:
                await asyncio.to_thread(shutil.rmtree, upload.folder, ignore_errors=True)

    async def _forget_old(self) -> None:
        now = monotonic()
        for user_id, upload in list(self._uploads.items()):
            if not upload.is_busy and now - upload.touched > KEPT_SECONDS:
                await self.forget(user_id)


def _is_name(name: str) -> bool:
    """Of a file of an export, and of nothing else."""
    path = PurePosixPath(name)
    plain = path.name == name and name.isprintable() and len(name.encode()) <= LONGEST_NAME
    return plain and path.suffix.lower() in ENDINGS


async def _together(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Larger pieces: each is written by a thread."""
    held = bytearray()
    async for piece in pieces:
        held += piece
        if len(held) >= PIECE:
            yield bytes(held)
            held.clear()
    yield bytes(held)
