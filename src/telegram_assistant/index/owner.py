"""A folder that one process uses at a time."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO

from telegram_assistant.embedded.folder import explain_os_error
from telegram_assistant.errors import Fatal, Retry


class Owner:
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
