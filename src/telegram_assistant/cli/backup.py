"""`tga backup`, `tga restore`, `tga migrate` and `tga reindex`: the archive as a file, its schema, and its indexes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from telegram_assistant.backup.archive import INCLUDED, MEDIA, ArchiveReader, Manifest
from telegram_assistant.backup.saving import check_backup, check_folder, check_room, save
from telegram_assistant.backup.saving import restore as restore_into
from telegram_assistant.cli.session import opened, with_runtime
from telegram_assistant.config import Settings, load_settings
from telegram_assistant.errors import Fatal, Retry
from telegram_assistant.log import configure_logging
from telegram_assistant.stores.postgres.database import check_server, open_database
from telegram_assistant.stores.postgres.enrichment import StoredPosts
from telegram_assistant.stores.postgres.migrate import known_revisions
from telegram_assistant.stores.postgres.migrate import migrate as bring_up_to_date
from telegram_assistant.terminal import Steps
from telegram_assistant.wiring.runtime import Runtime

console = Console()


def backup(
    file: Annotated[Path, typer.Argument(help="Where to write it; must not exist yet.", metavar="FILE")],
) -> None:
    settings = _settings()

    async def main() -> Manifest:
        async with opened(settings, Steps(console)) as runtime:
            return await save(runtime, file.absolute())

    manifest = asyncio.run(main())
    console.print(f"{escape(str(file))}: {_counted(manifest)}.", highlight=False, soft_wrap=True)
    if manifest.media != INCLUDED:
        console.print(f"Files are in {escape(manifest.media)} and not in the backup.", highlight=False, soft_wrap=True)
    if settings.tga_secret_key is not None:
        console.print("TGA_SECRET_KEY is not in it: without that key the Telegram sessions cannot be used.")


def restore(
    file: Annotated[Path, typer.Argument(help="Written by tga backup.", metavar="FILE")],
) -> None:
    settings = _settings()
    steps = Steps(console)
    with ArchiveReader(file) as archive:
        check_folder(settings)
        check_room(archive, settings)
        with steps.step("Checking every part"):
            check_backup(archive, settings)

        async def main() -> Manifest:
            async with opened(settings, steps) as runtime:
                return await restore_into(runtime, archive)

        manifest = asyncio.run(main())
    said = f"Restored as of {manifest.created_at:%Y-%m-%d %H:%M} UTC: {_counted(manifest)}."
    console.print(said, highlight=False, soft_wrap=True)
    if manifest.media != INCLUDED:
        console.print(f"Files are expected in {escape(manifest.media)}.", highlight=False, soft_wrap=True)
    console.print("Next: tga reindex, which makes the vectors and the graph anew; then tga up.")


def migrate() -> None:
    settings = load_settings()
    configure_logging(json=settings.log_format == "json", level="WARNING")
    if settings.database_url is None:
        schema = with_runtime(lambda runtime: bring_up_to_date(runtime.database))
    else:
        schema = asyncio.run(_migrate(settings.database_url.get_secret_value(), settings.tls_ca_file))
    newer = "" if schema in known_revisions() else ", of a newer version; this one runs on it"
    console.print(f"The schema is {schema}{newer}.", highlight=False)


async def _migrate(url: str, ca_file: Path | None) -> str:
    await check_server(url, ca_file=ca_file)
    database = open_database(url, ca_file=ca_file)
    try:
        return await bring_up_to_date(database)
    finally:
        await database.dispose()


def _settings() -> Settings:
    settings = load_settings()
    configure_logging(json=settings.log_format == "json", level="WARNING")
    return settings


def _counted(manifest: Manifest) -> str:
    posts = manifest.tables["posts"].rows if "posts" in manifest.tables else 0
    rows = sum(table.rows for table in manifest.tables.values())
    size = sum(member.size for member in manifest.members.values()) / 2**20
    files = len(manifest.files(MEDIA))
    return f"{posts} posts, {rows} rows of {len(manifest.tables)} tables, {files} files, {size:.1f} MB"


def reindex(
    keep: Annotated[
        bool, typer.Option(help="Only put in what is missing or different; off: drop the indexes first.")
    ] = True,
) -> None:
    async def work(runtime: Runtime) -> int:
        from telegram_assistant.stages.reindexing import Reindexing  # noqa: PLC0415 - all models
        from telegram_assistant.wiring.worker import open_indexes  # noqa: PLC0415 - all models

        indexes = open_indexes(runtime)
        try:
            await indexes.hold()
        except Retry as exc:
            raise Fatal(f"{exc}: stop tga up (or tga worker), reindex, and start it again") from exc
        reindexing = Reindexing(indexes, StoredPosts(runtime.database))
        total = await reindexing.count()
        with _bar() as progress:
            task = progress.add_task("Posts", total=total)
            return await reindexing.run(lambda done: progress.advance(task, done), keep=keep)

    console.print(f"{with_runtime(work)} posts are in the indexes.", highlight=False)


def _bar() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, disable=not console.is_terminal)
