"""`tga backup`: a snapshot of the tables, then the files that it names, then the keys."""

from __future__ import annotations

import asyncio
import gzip
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from telegram_assistant import __version__
from telegram_assistant.backup.archive import ArchiveWriter
from telegram_assistant.backup.manifest import (
    FORMAT,
    INCLUDED,
    KEYS,
    MEDIA,
    SIMULATOR,
    Manifest,
    TableDump,
    table_file,
)
from telegram_assistant.config import Settings
from telegram_assistant.errors import Fatal
from telegram_assistant.stores.media import INCOMING
from telegram_assistant.stores.postgres.copying import columns_of, copy_out, last_numbers, schema_version, snapshot
from telegram_assistant.stores.postgres.migrate import known_revisions
from telegram_assistant.wiring.runtime import Runtime

# Of the engines on this machine: those of another make their own.
NOT_KEPT = frozenset({"running.json", "postgres.password", "valkey.password"})
QUICK = 3  # of gzip's levels: a third of the time of the best, a tenth larger


async def save(runtime: Runtime, path: Path) -> Manifest:
    """Write a backup to `path`. Writes to the database meanwhile go on, and are not in it."""
    steps, settings, home = runtime.steps, runtime.settings, runtime.folder.path
    media = media_folder(settings, home)
    with ArchiveWriter(path) as archive:
        with steps.step("Database"):
            schema, tables, numbers = await _save_tables(runtime, archive)
        # After the tables: every file that they name is in its place before they do (stores/media.py).
        if media is not None:
            with steps.step("Media"):
                await asyncio.to_thread(_add_folder, archive, MEDIA, media)
        with steps.step("Keys"):
            await asyncio.to_thread(_add_folder, archive, KEYS, home / KEYS)
            if settings.demo:
                await asyncio.to_thread(_add_folder, archive, SIMULATOR, home / SIMULATOR)
        manifest = Manifest(
            format=FORMAT,
            version=__version__,
            schema=schema,
            created_at=runtime.clock(),
            demo=settings.demo,
            media=INCLUDED if media is not None else str(settings.media_url),
            tables=tables,
            sequences=numbers,
            members=archive.members,
        )
        await asyncio.to_thread(archive.finish, manifest)
    return manifest


def media_folder(settings: Settings, home: Path) -> Path | None:
    """Where files are kept; None: in an S3, which has backups of its own."""
    where = settings.media_url
    if where is None:
        return home / MEDIA
    if where.startswith(("s3:", "memory:")):
        return None
    return Path(where.removeprefix("file://")).absolute()


async def _save_tables(runtime: Runtime, archive: ArchiveWriter) -> tuple[str, dict[str, TableDump], dict[str, int]]:
    tables: dict[str, TableDump] = {}
    async with snapshot(runtime.database) as connection:
        schema = await schema_version(connection)
        if schema not in known_revisions():  # there may be tables that this version would leave out
            raise Fatal(f"The database was made by a newer version (schema {schema}): make the backup with that")
        for name, columns in (await columns_of(connection)).items():
            # A tar wants to know the size of a member before its first byte.
            with tempfile.NamedTemporaryFile(dir=archive.path.parent, prefix=f".{archive.path.name}.") as draft:
                with gzip.GzipFile(fileobj=draft, mode="wb", compresslevel=QUICK, mtime=0) as packed:
                    tables[name] = TableDump(columns, await copy_out(connection, name, columns, packed.write))
                draft.flush()
                await asyncio.to_thread(archive.add, table_file(name), Path(draft.name))
        return schema, tables, await last_numbers(connection)


def _add_folder(archive: ArchiveWriter, part: str, folder: Path) -> None:
    for path in _files(folder):
        with suppress(FileNotFoundError):  # evicted at this very moment
            archive.add(f"{part}/{path.relative_to(folder).as_posix()}", path)


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        kept = inside.parts[0] != INCOMING and inside.name not in NOT_KEPT and inside.suffix != ".new"
        if kept and path.is_file() and not path.is_symlink():
            yield path
