"""What a backup says about itself: who made it, what is in it, and the SHA-256 of every part."""

from __future__ import annotations

from datetime import datetime
from pathlib import PurePosixPath

import msgspec

from telegram_assistant.errors import Fatal

FORMAT = 1
MANIFEST = "manifest.json"
DATABASE, KEYS, MEDIA, SIMULATOR = "database", "keys", "media", "simulator"
PARTS = (DATABASE, KEYS, MEDIA, SIMULATOR)
INCLUDED = "included"


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
