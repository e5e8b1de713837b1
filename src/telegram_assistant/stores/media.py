"""Files of posts: a folder by default, any S3 by address. Each is kept once, by its SHA-256 (SPEC 8)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterable, AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Self
from uuid import UUID, uuid4

import obstore
from obstore.exceptions import BaseError
from obstore.store import LocalStore, MemoryStore, ObjectStore, S3Store

from telegram_assistant.domain.media_rules import media_key
from telegram_assistant.errors import Fatal, Retry, Skip
from telegram_assistant.tls import ADVICE, authorities

if TYPE_CHECKING:
    from obstore import GetOptions
    from obstore.store import ClientConfig, S3Config

INCOMING = "incoming"  # what has no SHA-256 yet
MARK = "mark"  # the one object that is no file of a post
PART = 5 * 1024 * 1024  # S3 accepts no smaller parts, and all of one are in memory
READ_PIECE = 256 * 1024
REQUEST_SECONDS = 60


class MediaStoreError(Retry):
    """The store did not do its work: no fault of the file, and nothing is lost by trying later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Access:
    """How to reach an S3; what is missing is taken from the environment, as the AWS tools do."""

    endpoint: str | None = None
    region: str | None = None
    access_key_id: str | None = None
    secret_access_key: str | None = field(default=None, repr=False)
    ca_file: Path | None = None  # of an authority of yours, besides the usual ones


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file that is in the store."""

    sha256: str
    size: int
    key: str


class MediaStore:
    """Files arrive under a temporary key while they are hashed, and then take the place of their hash."""

    def __init__(self, store: ObjectStore, *, shown: str, folder: Path | None = None) -> None:
        self._store = store
        self._folder = folder
        self.shown = shown

    @classmethod
    def open(cls, where: str | Path, *, s3: S3Access | None = None) -> Self:
        """A folder, `s3://bucket/prefix`, or `memory://` for trials; nothing is connected yet."""
        if isinstance(where, str) and where.startswith("memory:"):
            return cls(MemoryStore(), shown="memory")
        if isinstance(where, str) and where.startswith("s3:"):
            return cls(_open_s3(where, s3 or S3Access()), shown=where)
        if isinstance(where, str) and "://" in where and not where.startswith("file://"):
            raise Fatal(f"MEDIA_URL={where!r} is neither a folder nor s3://bucket/prefix")
        folder = Path(str(where).removeprefix("file://")).absolute()
        try:
            store = LocalStore(folder, mkdir=True)
        except (BaseError, OSError) as exc:
            raise Fatal(f"Cannot keep media in {folder}: {_reason(exc)}") from exc
        return cls(store, shown=str(folder), folder=folder)

    async def check(self) -> None:
        """Write something and take it away again, so that a wrong address or key shows at the start."""
        key = _temporary_key()
        try:
            with self._translated("write to"):
                await obstore.put_async(self._store, key, b"check", use_multipart=False)
            await self.delete(key)
        except MediaStoreError as exc:
            raise Fatal(f"Cannot use the media store: {exc}") from exc

    async def answers(self) -> None:
        """Ask for a file that is not there: raises when the store is away, and costs next to nothing."""
        await self.size_of("is-it-there")

    async def put(self, pieces: AsyncIterable[bytes], *, tenant_id: UUID, extension: str) -> StoredFile:
        """Keep a file. What the pieces raise is passed on, and nothing of the file stays."""
        temporary = _temporary_key()
        digest, size = sha256(), 0
        with self._translated("write to"):
            writer = obstore.open_writer_async(self._store, temporary, buffer_size=PART, max_concurrency=1)
            async with writer:  # an error on the way aborts the upload
                async for piece in pieces:
                    digest.update(piece)
                    size += len(piece)
                    await writer.write(piece)
        key = media_key(tenant_id, digest.hexdigest(), extension)
        await self._settle(temporary, key, size)
        return StoredFile(digest.hexdigest(), size, key)

    async def stream(self, key: str, *, part: tuple[int, int] | None = None) -> AsyncIterator[bytes]:
        """A file's bytes in pieces, or those from `part[0]` up to `part[1]`; Skip when it is not there."""
        options: GetOptions = {"range": part} if part is not None else {}
        with self._translated("read from"):
            try:
                found = await obstore.get_async(self._store, key, options=options)
            except FileNotFoundError as exc:
                raise Skip(f"{key} is not in the media store") from exc
            async for piece in found.stream(min_chunk_size=READ_PIECE):
                yield bytes(piece)

    async def size_of(self, key: str) -> int | None:
        """None when there is no such file."""
        with self._translated("read from"):
            try:
                return (await obstore.head_async(self._store, key))["size"]
            except FileNotFoundError:
                return None

    async def exists(self, key: str) -> bool:
        return await self.size_of(key) is not None

    async def mark(self) -> str | None:
        """What tells this store from any other, as `set_mark` wrote it; None: it was not marked, or was emptied."""
        try:
            return b"".join([piece async for piece in self.stream(MARK)]).decode(errors="replace")
        except Skip:
            return None

    async def set_mark(self, mark: str) -> None:
        with self._translated("write to"):
            await obstore.put_async(self._store, MARK, mark.encode(), use_multipart=False)

    async def delete(self, key: str) -> None:
        """Nothing happens where it is gone already."""
        with self._translated("delete from"):
            try:
                await obstore.delete_async(self._store, key)
            except FileNotFoundError:
                return

    async def clean(self, *, older_than: timedelta) -> int:
        """Delete what killed uploads left; younger ones may still be under way in another process."""
        limit = datetime.now(UTC) - older_than
        with self._translated("clean"):
            if self._folder is not None:
                # Listing hides the unfinished files of a folder, so look at the folder itself.
                return await asyncio.to_thread(_clean_folder, self._folder / INCOMING, limit)
            listed = obstore.list(self._store, INCOMING)
            old = [found["path"] async for batch in listed for found in batch if found["last_modified"] < limit]
            if old:
                await obstore.delete_async(self._store, old)
            return len(old)

    async def _settle(self, temporary: str, key: str, size: int) -> None:
        if await self.size_of(key) == size:
            await self.delete(temporary)
            return
        with self._translated("write to"):
            await obstore.rename_async(self._store, temporary, key)
            if self._folder is not None:
                await asyncio.to_thread(_make_durable, self._folder / key)

    @contextmanager
    def _translated(self, what: str) -> Iterator[None]:
        try:
            yield
        except (BaseError, OSError) as exc:
            raise MediaStoreError(f"could not {what} {self.shown}: {_reason(exc)}") from exc


def _open_s3(url: str, access: S3Access) -> ObjectStore:
    config: S3Config = {}
    if access.endpoint:
        config["endpoint"] = access.endpoint
    if access.region:
        config["region"] = access.region
    if access.access_key_id and access.secret_access_key:
        config["access_key_id"] = access.access_key_id
        config["secret_access_key"] = access.secret_access_key
    client: ClientConfig = {
        "allow_http": (access.endpoint or "").startswith("http://"),
        "timeout": timedelta(seconds=REQUEST_SECONDS),
    }
    if known := authorities(access.ca_file):
        client["root_certificate"] = known
    try:
        return S3Store.from_url(
            url,
            config=config,
            client_options=client,
            retry_config={"max_retries": 3, "retry_timeout": timedelta(seconds=REQUEST_SECONDS)},
        )
    except (BaseError, OSError, ValueError) as exc:
        raise Fatal(f"Cannot use MEDIA_URL={url}: {_reason(exc)}") from exc


def _temporary_key() -> str:
    return f"{INCOMING}/{uuid4().hex}"


def _clean_folder(folder: Path, limit: datetime) -> int:
    if not folder.is_dir():
        return 0
    removed = 0
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # an upload that is done right now
            if datetime.fromtimestamp(path.stat().st_mtime, UTC) < limit:
                path.unlink()
                removed += 1
    return removed


def _make_durable(path: Path) -> None:
    """The database is about to promise that this file is there: it must outlive a power cut too."""
    for part in (path, path.parent):
        handle = os.open(part, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _reason(exc: Exception) -> str:
    """The first line: what follows are the library's own details."""
    words = str(exc).strip() or type(exc).__name__
    if "InvalidCertificate" in words:  # said only in those details
        return f"its certificate is not trusted: {ADVICE}"
    return words.splitlines()[0]
