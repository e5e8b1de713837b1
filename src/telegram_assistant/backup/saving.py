"""`tga backup` saves a snapshot of the tables, the files that it names, and the keys. `tga restore` brings them back.

A restore needs a place where nothing is yet, and begins after every byte of the backup was checked.
"""

from __future__ import annotations

import asyncio
import gzip
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event

from telegram_assistant import __version__
from telegram_assistant.backup.archive import (
    DATABASE,
    FORMAT,
    INCLUDED,
    KEYS,
    MEDIA,
    SIMULATOR,
    ArchiveReader,
    ArchiveWriter,
    Manifest,
    TableDump,
    table_file,
)
from telegram_assistant.config import Settings
from telegram_assistant.embedded.folder import explain_os_error
from telegram_assistant.errors import Fatal
from telegram_assistant.stores.media import INCOMING
from telegram_assistant.stores.postgres.copying import (
    columns_of,
    copy_in,
    copy_out,
    empty_tables,
    first_filled,
    go_on_from,
    last_numbers,
    make_tables_anew,
    schema_version,
    snapshot,
)
from telegram_assistant.stores.postgres.database import raw_transaction
from telegram_assistant.stores.postgres.migrate import known_revisions, migrate
from telegram_assistant.wiring.runtime import Runtime

# Of the engines on this machine: those of another make their own.
NOT_KEPT = frozenset({"running.json", "postgres.password", "valkey.password"})
QUICK = 3  # of gzip's levels: a third of the time of the best, a tenth larger
INDEXES = ("vectors", "graph")  # of other posts; `tga reindex` makes them


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


def check_backup(archive: ArchiveReader, settings: Settings) -> None:
    """Fatal unless this version can restore it here. Nothing is changed."""
    manifest, shown = archive.manifest, archive.path.name
    if manifest.schema not in known_revisions():
        raise Fatal(
            f"{shown} was made by a newer version ({manifest.version}, schema {manifest.schema}): restore it with that"
        )
    if manifest.demo != settings.demo:
        raise Fatal(
            f"{shown} is of a demo: unset TELEGRAM_API_ID to restore it"
            if manifest.demo
            else f"{shown} is not of a demo: set TELEGRAM_API_ID and TELEGRAM_API_HASH as they were"
        )
    if manifest.media == INCLUDED and media_folder(settings, settings.tga_data_dir) is None:
        raise Fatal(f"{shown} brings files, and MEDIA_URL is no folder: unset it, or copy them there yourself")
    archive.check()


def check_folder(settings: Settings) -> None:
    """Fatal where something is that a restore would mix with."""
    home = settings.tga_data_dir.absolute()
    media = media_folder(settings, home)
    taken = [home / KEYS / "session.key", *(home / name for name in (*INDEXES, SIMULATOR))]
    for path in [*taken, *([media] if media else [])]:
        if path.is_file() or (path.is_dir() and any(inside.is_file() for inside in path.rglob("*"))):
            raise Fatal(f"{path} is there already: restore into an empty data folder (TGA_DATA_DIR)")


async def restore(runtime: Runtime, archive: ArchiveReader) -> Manifest:
    """Files first, then the tables in one transaction: what fails on the way leaves the place as empty as before."""
    if runtime.joined:
        raise Fatal(f"{runtime.folder.path} is in use by a tga that runs: stop it first")
    async with raw_transaction(runtime.database) as connection:
        schema = await schema_version(connection)
        if schema not in known_revisions():  # rows of then would miss what its migrations do to them
            raise Fatal(
                f"The database has the schema of a newer version ({schema}): restore with that, or into a new database"
            )
        _refuse_filled(await first_filled(connection))
    manifest = archive.manifest
    placed: list[Path] = []
    try:
        with runtime.steps.step("Media and keys"):
            await _place(runtime, archive, placed)
        with runtime.steps.step("Database"):
            await _fill_tables(runtime, archive)
    except BaseException as exc:
        for path in placed:
            path.unlink(missing_ok=True)
        await migrate(runtime.database)
        if isinstance(exc, OSError):
            raise Fatal(explain_os_error(exc, runtime.folder.path)) from exc
        raise
    return manifest


async def _place(runtime: Runtime, archive: ArchiveReader, placed: list[Path]) -> None:
    """A thread cannot be cancelled: who interrupts us waits for its end, or it would go on behind the tidying up."""
    stop = Event()
    placing = asyncio.ensure_future(asyncio.to_thread(_place_files, runtime, archive, placed, stop))
    try:
        await asyncio.shield(placing)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.gather(placing, return_exceptions=True)
        raise


def _place_files(runtime: Runtime, archive: ArchiveReader, placed: list[Path], stop: Event) -> None:
    home = runtime.folder.path
    media = media_folder(runtime.settings, home) or home / MEDIA  # in an S3: the backup brings no files
    for part, folder in {KEYS: home / KEYS, SIMULATOR: home / SIMULATOR, MEDIA: media}.items():
        for name in archive.manifest.files(part):
            if stop.is_set():
                return
            target = folder / name.removeprefix(f"{part}/")
            if target.exists():
                raise Fatal(f"{target} is there already: restore into an empty data folder (TGA_DATA_DIR)")
            placed.append(target)
            archive.extract(name, target)


async def _fill_tables(runtime: Runtime, archive: ArchiveReader) -> None:
    """With the schema of then; what migrations do to the rows since then, they do at the end."""
    manifest, database = archive.manifest, runtime.database
    if manifest.schema != known_revisions()[0]:
        await make_tables_anew(database, schema=manifest.schema)
    async with empty_tables(database) as connection:
        _refuse_filled(await first_filled(connection))
        for name, table in manifest.tables.items():
            with archive.file(table_file(name)) as packed, gzip.open(packed) as source:
                rows = await copy_in(connection, name, table.columns, source)
            if rows != table.rows:
                raise Fatal(f"{archive.path.name} is damaged: {name} has {rows} rows instead of {table.rows}")
        await go_on_from(connection, manifest.sequences)
    await migrate(database)


def _refuse_filled(table: str | None) -> None:
    if table is not None:
        raise Fatal(f"The database is not empty (there are {table}): restore into a new one")


def check_room(archive: ArchiveReader, settings: Settings) -> None:
    """Fatal when the disk cannot hold it; tables grow when they are unpacked, and their indexes come on top."""
    home = settings.tga_data_dir.absolute()
    growth = 0 if settings.database_url is not None else 8  # tables of a server of yours are not on this disk
    needed = sum(
        member.size * (growth if name.startswith(f"{DATABASE}/") else 1)
        for name, member in archive.manifest.members.items()
    )
    place = next(path for path in (home, *home.parents) if path.exists())
    free = shutil.disk_usage(place).free
    if free < needed:
        raise Fatal(f"{archive.path.name} needs about {needed >> 20} MB, and only {free >> 20} MB are free in {place}")
