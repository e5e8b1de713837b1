"""The backup file: a tar with a manifest. It gets its name when it is whole; every SHA-256 is checked on reading."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from datetime import datetime
from hashlib import sha256
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import IO, Self

import msgspec

from telegram_assistant.errors import Fatal

PIECE = 1 << 20
PRIVATE = 0o600  # sessions and keys are in it
FORMAT = 1
MANIFEST = "manifest.json"
INCLUDED = "included"


class ArchiveWriter(AbstractContextManager["ArchiveWriter"]):
    """Leaves nothing behind unless `finish` was called."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.members: dict[str, Member] = {}
        self._draft = path.with_name(f".{path.name}.{os.getpid()}.new")

    def __enter__(self) -> Self:
        if self.path.exists():
            raise Fatal(f"{self.path} exists already: choose another name")
        try:
            self._file = os.fdopen(os.open(self._draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC, PRIVATE), "wb")
        except OSError as exc:
            raise Fatal(f"Cannot write {self.path}: {exc.strerror}") from exc
        self._tar = tarfile.open(fileobj=self._file, mode="w")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        self._draft.unlink(missing_ok=True)
        if isinstance(error, OSError) and not isinstance(error, ConnectionError):
            raise Fatal(f"Cannot write {self.path}: {error.strerror or error}") from error

    def add(self, name: str, source: Path) -> None:
        with source.open("rb") as file:
            info = self._tar.gettarinfo(arcname=name, fileobj=file)
            info.mode, info.uid, info.gid, info.uname, info.gname = PRIVATE, 0, 0, "", ""
            reading = _Hashing(file)
            self._tar.addfile(info, reading)
        self.members[name] = Member(info.size, reading.digest.hexdigest())

    def finish(self, manifest: Manifest) -> None:
        content = manifest.encode()
        info = tarfile.TarInfo(MANIFEST)
        info.size, info.mode = len(content), PRIVATE
        self._file.flush()
        with io.BytesIO(content) as file:
            self._tar.addfile(info, file)
        self._tar.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._draft.replace(self.path)


class ArchiveReader(AbstractContextManager["ArchiveReader"]):
    """Reads the manifest at once; `check` reads everything."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._tar = tarfile.open(path, mode="r:")  # noqa: SIM115 - closed on exit
        except (tarfile.TarError, EOFError) as exc:
            raise Fatal(f"{path.name} is damaged, or no backup of ours: {exc}") from exc
        except OSError as exc:
            raise Fatal(f"Cannot read {path}: {exc.strerror}") from exc
        with ExitStack() as stack:
            stack.callback(self._tar.close)
            self.manifest = self._manifest()
            stack.pop_all()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tar.close()

    def _manifest(self) -> Manifest:
        name = self.path.name
        try:
            content = self._tar.extractfile(MANIFEST)
        except (KeyError, tarfile.TarError, EOFError, OSError) as exc:
            raise Fatal(f"{name} is not whole: its manifest, which is written last, is not in it") from exc
        return read_manifest(content.read() if content else b"", name)

    def file(self, name: str) -> IO[bytes]:
        try:
            found = self._tar.extractfile(name)
        except KeyError:
            found = None
        if found is None:
            raise Fatal(f"{self.path.name} is damaged: {name} is not in it")
        return found

    def check(self, told: Callable[[int], None] = lambda _: None) -> None:
        """Every byte that the manifest promises is there."""
        for name, member in self.manifest.members.items():
            digest, size = sha256(), 0
            with self.file(name) as file:
                try:
                    while piece := file.read(PIECE):
                        digest.update(piece)
                        size += len(piece)
                        told(len(piece))
                except (tarfile.TarError, OSError) as exc:
                    raise Fatal(f"{self.path.name} is damaged: {name} cannot be read ({exc})") from exc
            if (size, digest.hexdigest()) != (member.size, member.sha256):
                raise Fatal(f"{self.path.name} is damaged: {name} is not what was saved")

    def extract(self, name: str, target: Path) -> None:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (
            self.file(name) as file,
            os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE), "wb") as out,
        ):
            while piece := file.read(PIECE):
                out.write(piece)
            out.flush()
            os.fsync(out.fileno())


class _Hashing:
    """Counts the SHA-256 of what is read through it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = sha256()

    def read(self, size: int = -1) -> bytes:
        piece = self._file.read(size)
        self.digest.update(piece)
        return piece


DATABASE, KEYS, MEDIA, SIMULATOR = "database", "keys", "media", "simulator"


PARTS = (DATABASE, KEYS, MEDIA, SIMULATOR)


class Member(msgspec.Struct, frozen=True):
    """A file in the archive, as it lies there."""

    size: int
    sha256: str


class TableDump(msgspec.Struct, frozen=True):
    """A table: its rows are in `database/<name>.copy.gz`, in the order of these columns."""

    columns: list[str]
    rows: int


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The last member of the archive: a file that was not written to its end has none."""

    format: int
    version: str
    schema: str
    created_at: datetime
    demo: bool
    media: str  # included, or where the files are
    tables: dict[str, TableDump]  # in the order in which they can be filled
    sequences: dict[str, int]  # table.column -> the last number that was given out
    members: dict[str, Member]

    def encode(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(self), indent=1)

    def files(self, part: str) -> list[str]:
        return [name for name in self.members if name.startswith(f"{part}/")]


class _Format(msgspec.Struct):
    format: int
    version: str = "unknown"


def read_manifest(content: bytes, shown: str) -> Manifest:
    """Fatal where it is not ours, of a newer version, or names files that lead elsewhere."""
    try:
        made_by = msgspec.json.decode(content, type=_Format)
        if made_by.format > FORMAT:
            raise Fatal(f"{shown} was made by a newer version ({made_by.version}): restore it with that version")
        manifest = msgspec.json.decode(content, type=Manifest)
    except msgspec.MsgspecError as exc:
        raise Fatal(f"{shown} is damaged, or no backup of ours: its manifest cannot be read ({exc})") from exc
    strays = [name for name in manifest.members if not _is_ours(name)]
    if strays:
        raise Fatal(f"{shown} is no backup of ours: it holds {strays[0]!r}")
    missing = [table for table in manifest.tables if table_file(table) not in manifest.members]
    if missing:
        raise Fatal(f"{shown} is damaged: the table {missing[0]} is not in it")
    return manifest


def table_file(table: str) -> str:
    return f"{DATABASE}/{table}.copy.gz"


def _is_ours(name: str) -> bool:
    path = PurePosixPath(name)
    return len(path.parts) > 1 and path.parts[0] in PARTS and ".." not in path.parts and str(path) == name
