"""The files of an export of Telegram Desktop: in a folder, in a zip, or given by name. Nothing is ever unpacked.

An export comes from a stranger as far as we know: paths may lead elsewhere, and a small zip may be huge inside.
"""

from __future__ import annotations

import os
import stat
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from telegram_assistant.errors import Reject

MOST_FILES = 1_000_000
MOST_BYTES = 1 << 40  # of a zip, unpacked
HIGHEST_RATIO = 200  # JSON and HTML shrink to a twentieth or so
SMALL = 1 << 20  # a file that may shrink as it likes
DEEPEST = 8  # folders below the one that was named


class BadExport(Reject):
    """It is no export that can be imported; the message is one line that says why and what to do."""


class ExportFiles(ABC):
    """Files by their names, with `/` between folders."""

    shown: str  # what the person named
    names: list[str]  # those that may hold messages

    @abstractmethod
    def open(self, name: str) -> IO[bytes]:
        """Raises BadExport where it cannot be read."""

    @abstractmethod
    def size(self, name: str) -> int | None:
        """None: there is no such file."""

    @abstractmethod
    def close(self) -> None: ...

    @contextmanager
    def reading(self, name: str) -> Iterator[IO[bytes]]:
        """What is wrong with the file is told in words."""
        try:
            with self.open(name) as file:
                yield file
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as exc:
            raise BadExport(f"{self.shown}: {name} in it is damaged ({exc}): copy or export it again") from exc
        except OSError as exc:
            raise BadExport(f"{self.shown}: {name} cannot be read: {exc.strerror or exc}") from exc


class Folder(ExportFiles):
    """A folder; with `chosen` only those files of it hold messages. Links out of it are not followed."""

    def __init__(self, root: Path, *, shown: str, chosen: Sequence[str] = ()) -> None:
        self._root = Path(os.path.realpath(root))
        self._known: dict[str, dict[str, str]] = {}
        self.shown = shown
        self.names = list(chosen) or sorted(self._found())

    def open(self, name: str) -> IO[bytes]:
        path = self._inside(name)
        if path is None:
            raise BadExport(f"{self.shown}: {name} leads out of the folder, or is no file")
        return path.open("rb")

    def size(self, name: str) -> int | None:
        path = self._inside(name)
        return None if path is None else path.stat().st_size

    def close(self) -> None:
        """Nothing is open."""

    def _inside(self, name: str) -> Path | None:
        folder, _, last = name.rpartition("/")
        known = self._known.get(folder)
        if known is None:
            known = self._known[folder] = self._files_in(folder)
        path = known.get(last)
        return None if path is None else Path(path)

    def _files_in(self, folder: str) -> dict[str, str]:
        """Once for each folder: to look for every file by itself costs more than to read the messages."""
        try:
            path = os.path.realpath(self._root / folder)
            if not Path(path).is_relative_to(self._root):
                return {}
            with os.scandir(path) as found:
                return {entry.name: entry.path for entry in found if entry.is_file(follow_symlinks=False)}
        except (OSError, ValueError):
            return {}

    def _found(self) -> Iterator[str]:
        for folder, folders, files in os.walk(self._root):
            below = Path(folder).relative_to(self._root)
            if len(below.parts) >= DEEPEST:
                folders.clear()
            yield from ((below / name).as_posix() for name in files if holds_messages(name))


class Zip(ExportFiles):
    """A zip, read where it lies."""

    def __init__(self, path: Path, *, shown: str) -> None:
        self.shown = shown
        try:
            self._zip = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, NotImplementedError, ValueError, EOFError) as exc:
            raise BadExport(f"{shown} is damaged, or no zip ({exc}): copy or pack it again") from exc
        try:
            self._members = self._checked(path.stat().st_size)
        except BadExport:
            self._zip.close()
            raise
        self.names = sorted(name for name in self._members if holds_messages(PurePosixPath(name).name))

    def open(self, name: str) -> IO[bytes]:
        return self._zip.open(self._members[name])

    def size(self, name: str) -> int | None:
        member = self._members.get(name)
        return None if member is None else member.file_size

    def close(self) -> None:
        self._zip.close()

    def _checked(self, packed: int) -> dict[str, zipfile.ZipInfo]:
        members = self._zip.infolist()
        if len(members) > MOST_FILES:
            raise BadExport(f"{self.shown} holds {len(members):,} files, more than any export: it is not read")
        total = sum(member.file_size for member in members)
        if total > MOST_BYTES or total > max(SMALL, packed * HIGHEST_RATIO):
            raise BadExport(f"{self.shown} would be {total:,} bytes unpacked from {packed:,}: it is not read")
        for member in members:
            self._check(member)
        return {member.filename: member for member in members if not member.is_dir()}

    def _check(self, member: zipfile.ZipInfo) -> None:
        path = PurePosixPath(member.filename)
        if path.is_absolute() or ".." in path.parts or "\\" in member.filename or "\0" in member.filename:
            raise BadExport(f"{self.shown} holds {member.filename!r}, a path that leaves the folder: it is not read")
        if stat.S_ISLNK(member.external_attr >> 16):
            raise BadExport(f"{self.shown} holds a link ({member.filename!r}): it is not read")
        if member.flag_bits & 1:
            raise BadExport(f"{self.shown} has a password: unpack it, and import the folder")
        if member.file_size > max(SMALL, member.compress_size * HIGHEST_RATIO):
            raise BadExport(f"{self.shown}: {member.filename} would be {member.file_size:,} bytes: it is not read")


def open_files(paths: Sequence[Path]) -> ExportFiles:
    """A folder, a zip, or files of one folder."""
    for path in paths:
        if not path.exists():
            raise BadExport(f"{path} does not exist")
    first = paths[0]
    if len(paths) == 1 and first.is_dir():
        return _with_messages(Folder(first, shown=str(first)))
    if len(paths) == 1 and first.suffix.lower() == ".zip":
        return _with_messages(Zip(first, shown=str(first)))
    if any(not path.is_file() for path in paths) or len({path.absolute().parent for path in paths}) > 1:
        raise BadExport("give one folder, one zip, or files of one folder")
    wrong = [path.name for path in paths if path.suffix.lower() not in {".json", ".html"}]
    if wrong:
        raise BadExport(f"{wrong[0]} is neither a folder, a zip, result.json nor messages.html of Telegram Desktop")
    shown = str(first) if len(paths) == 1 else str(first.parent)
    return Folder(first.absolute().parent, shown=shown, chosen=[path.name for path in paths])


def holds_messages(name: str) -> bool:
    """By the names that Telegram Desktop gives."""
    number = name.removeprefix("messages").removesuffix(".html")
    return name == "result.json" or (name == f"messages{number}.html" and (not number or number.isdecimal()))


def beside(files: ExportFiles, name: str, path: str) -> str | None:
    """A path as it stands in a file of the export, from the export's top; None where nothing is there."""
    folder = name.rpartition("/")[0]
    full = f"{folder}/{path}" if folder else path
    return full if path and files.size(full) is not None else None


def _with_messages(files: ExportFiles) -> ExportFiles:
    if not files.names:
        files.close()
        raise BadExport(
            f"{files.shown} holds no export: neither result.json nor messages.html is in it. To make one, open the"
            " channel in Telegram Desktop, then ⋮, Export chat history"
        )
    return files
