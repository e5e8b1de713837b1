"""`tga import`: an export of Telegram Desktop becomes posts like any others."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated
from uuid import UUID

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from telegram_assistant.cli.session import print_json, with_runtime
from telegram_assistant.domain.access import SYSTEM_TENANT, SYSTEM_USER
from telegram_assistant.ingest.importing import Importer, Outcome, Report, Wish
from telegram_assistant.ingest.importing import Progress as Told
from telegram_assistant.services.importing import exported_channel, exported_zone
from telegram_assistant.source.export import Export
from telegram_assistant.source.export_posts import NoZone
from telegram_assistant.stores.postgres.channels import Channels
from telegram_assistant.wiring.importing import open_importer
from telegram_assistant.wiring.runtime import Runtime

console = Console()


def import_(
    paths: Annotated[
        list[Path], typer.Argument(help="A folder, a zip, result.json, or messages.html files", metavar="PATH...")
    ],
    *,
    channel: Annotated[
        str, typer.Option(help="Which channel it is, where HTML does not say: an id, or the @name of a watched one.")
    ] = "",
    zone: Annotated[
        str, typer.Option(help="Time zone of an export whose times have no offset, like Europe/Moscow.")
    ] = "",
    private: Annotated[bool, typer.Option("--private", help="Import private chats and groups too.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Tell what would change, and change nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    exported_zone(zone)

    async def work(runtime: Runtime) -> Outcome:
        importer = open_importer(runtime)
        wish = Wish(
            tenant_id=UUID(SYSTEM_TENANT),
            user_id=UUID(SYSTEM_USER),
            channel_id=await exported_channel(Channels(runtime.database), channel),
            zone=exported_zone(zone or runtime.settings.import_zone or ""),
            private=private,
            only_look=dry_run,
        )
        with Export.open(paths, latest=importer.latest) as export:
            try:
                return await _run(importer, export, wish)
            except NoZone:
                if not (sys.stdin.isatty() and console.is_terminal):
                    raise
        said = typer.prompt("Times in this export have no offset. Time zone of the computer that made it")
        with Export.open(paths, latest=importer.latest) as export:
            return await _run(importer, export, replace(wish, zone=exported_zone(said)))

    outcome = with_runtime(work)
    if as_json:
        print_json(outcome)
    else:
        _print(outcome, dry_run=dry_run)


async def _run(importer: Importer, export: Export, wish: Wish) -> Outcome:
    with _bar() as told:
        return await importer.run(export, wish, told)


@contextmanager
def _bar() -> Iterator[Told]:
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        tasks: dict[str, TaskID] = {}

        def told(title: str, done: int, size: int) -> None:
            if title not in tasks:
                tasks[title] = progress.add_task(title, total=size)
            progress.update(tasks[title], completed=done)

        yield told


def _print(outcome: Outcome, *, dry_run: bool) -> None:
    for report in outcome.reports:
        for line in _lines(report, dry_run=dry_run):
            console.print(line, highlight=False, markup=False, soft_wrap=True)
    if outcome.left_out:
        names = ", ".join(outcome.left_out[:5]) + (" …" if len(outcome.left_out) > 5 else "")
        words = f"Left out: {len(outcome.left_out)} private chats and groups ({names}); --private imports them."
        console.print(words, highlight=False, markup=False, soft_wrap=True)


def _lines(report: Report, *, dry_run: bool) -> Iterator[str]:
    would = "would be " if dry_run else ""
    yield (
        f"{report.title} ({report.channel_id}): {report.messages} messages; {report.new} {would}new,"
        f" {report.edited} {would}edited, {report.same} here already"
    )
    if report.past:
        yield f"  {report.past} of the new ones are deleted in Telegram by now; they are kept as deleted"
    if report.without_offset:
        yield "  Its times have no offset; they were read in the time zone that was given"
    if report.undated:
        yield f"  {report.undated} service messages were left out: HTML does not tell their times"
    if report.unusual:
        yield f"  {report.unusual} messages could not be understood; the ledger does not count them as captured"
    if report.files:
        yield f"  {report.files} files stored"
    for reason, count in report.files_refused.items():
        yield f"  {count} files not stored: {reason}"
