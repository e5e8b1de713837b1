"""The data folder: one owner at a time, room to work in, and a home that PostgreSQL's user can enter."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import secrets
import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from telegram_assistant.errors import Fatal, Retry

PROBE_BYTES = 64 * 1024


@dataclass(frozen=True)
class Running:
    """Where the engines are that a running `tga up` uses."""

    database_url: str
    redis_url: str
    telegram: dict[str, str] | None = None  # settings of the simulated Telegram, in a demo


class DataFolder:
    """`TGA_DATA_DIR`, held by a lock that the kernel drops with the process, however that ends."""

    def __init__(self, path: Path, *, min_free_mb: int = 0) -> None:
        self.path = path.absolute()
        self._min_free_mb = min_free_mb
        self._announced = self.path / "keys" / "running.json"
        self._lock: IO[str] | None = None

    def open(self) -> None:
        """Make it ready and take its lock; refuse one that is in use."""
        self.make()
        try:
            self._lock = self._take_lock()
            self._announced.unlink(missing_ok=True)  # of a start that was killed
        except OSError as exc:
            raise Fatal(explain_os_error(exc, self.path)) from exc

    def inherit(self) -> bool:
        """Take the lock if its owner is gone; what that one announced stays true once the engines are back."""
        try:
            self._lock = self._take_lock()
        except Fatal:
            return False
        return True

    def make(self) -> None:
        """Create the folder; refuse one that is read-only or on a full disk."""
        try:
            # 0711: PostgreSQL may have to run as another user and must pass through; what is secret inside is 0600.
            self.path.mkdir(mode=0o711, parents=True, exist_ok=True)
            for name in ("log", "keys"):
                (self.path / name).mkdir(mode=0o700, exist_ok=True)
            free = shutil.disk_usage(self.path).free // 2**20
            if free < self._min_free_mb:
                raise Fatal(
                    f"Only {free} MB are free in {self.path}, {self._min_free_mb} MB are needed: free some space, or"
                    " set TGA_DATA_DIR to a folder on another disk"
                )
        except OSError as exc:
            raise Fatal(explain_os_error(exc, self.path)) from exc

    def try_to_write(self) -> None:
        """Whether the disk takes bytes now. Raises OSError."""
        probe = self.path / f"probe.{os.getpid()}"
        try:
            probe.write_bytes(bytes(PROBE_BYTES))
        finally:
            probe.unlink(missing_ok=True)

    def close(self) -> None:
        if self._lock is not None:
            self._announced.unlink(missing_ok=True)
            self._lock.close()
            self._lock = None

    def announce(self, running: Running) -> None:
        """Tell other commands on this folder where the engines are."""
        draft = self._announced.with_suffix(".new")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(asdict(running), file)
        draft.replace(self._announced)

    def running(self) -> Running | None:
        """What the `tga` that holds this folder announced; None when none does."""
        try:
            with (self.path / "lock").open("r") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except BlockingIOError:
            try:
                return Running(**json.loads(self._announced.read_text(encoding="utf-8")))
            except FileNotFoundError as exc:
                raise Fatal(f"The tga that uses {self.path} is just starting: try again in a moment") from exc
        return None

    def secret(self, name: str) -> str:
        """A password of ours: made at the first call, kept in a 0600 file. Of two who make it at once, one wins."""
        path = self.path / "keys" / name
        try:
            return path.read_text(encoding="ascii").strip()
        except FileNotFoundError:
            draft = path.with_name(f"{name}.{os.getpid()}.new")
            draft.unlink(missing_ok=True)  # left by a start that was killed
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
                file.write(secrets.token_hex(24))
                file.flush()
                os.fsync(file.fileno())
            with contextlib.suppress(FileExistsError):
                os.link(draft, path)
            draft.unlink()
            return path.read_text(encoding="ascii").strip()

    def _take_lock(self) -> IO[str]:
        file = (self.path / "lock").open("a+", encoding="ascii")
        try:
            _lock(file)
        except BlockingIOError as exc:
            file.seek(0)
            owner = file.read().strip()
            file.close()
            raise Fatal(
                f"{self.path} is in use by another tga (process {owner or 'unknown'}): stop that one, or set"
                " TGA_DATA_DIR to another folder"
            ) from exc
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        return file


def _lock(file: IO[str], attempts: int = 10) -> None:
    """Others may hold it for an instant, to see whether a process runs here (`DataFolder.running`)."""
    for _ in range(attempts - 1):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.02)
        else:
            return
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def explain_os_error(exc: OSError, path: Path) -> str:
    """One line for what the file system refused."""
    if exc.errno == errno.ENOSPC:
        return explain_full_disk(path)
    if exc.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"No permission to write in {path}: set TGA_DATA_DIR to a folder of yours ({exc.strerror})"
    if exc.errno in (errno.ENOTDIR, errno.EEXIST):
        return f"{path} is not a folder: set TGA_DATA_DIR to one"
    return f"Cannot use the data folder {path}: {exc}"


def explain_full_disk(path: Path) -> str:
    return f"The disk of {path} is full: free some space, or set TGA_DATA_DIR to a folder on another disk"


class FolderLock:
    """Holds a folder by a lock that the kernel drops with the process, however that ends.

    The engines lock their files too, but each in its own way: Ladybug's lock is lost when the same process opens the
    files twice, and Qdrant Edge knows of one shard only.
    """

    def __init__(self, folder: Path, what: str) -> None:
        self.folder = folder
        self._what = what
        self._lock: IO[str] | None = None

    def take(self) -> None:
        """Make the folder ours; Retry while another process holds it."""
        if self._lock is not None:
            return
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = (self.folder / "lock").open("a", encoding="ascii")
        except OSError as exc:
            raise Fatal(explain_os_error(exc, self.folder)) from exc
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            file.close()
            raise Retry(f"Another process holds the {self._what} in {self.folder}") from exc
        self._lock = file

    def is_there(self) -> bool:
        """Whether the folder is still the one that was taken: it may have been deleted, or replaced."""
        try:
            there = (self.folder / "lock").stat()
        except OSError:
            return False
        return self._lock is not None and os.path.samestat(there, os.fstat(self._lock.fileno()))

    def release(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None
