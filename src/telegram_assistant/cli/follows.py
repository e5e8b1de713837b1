"""`tga channels followed`: what the connected accounts follow, to look at or to add."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated
from uuid import UUID

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from telegram_assistant.cli.session import print_json, with_runtime
from telegram_assistant.domain.access import SYSTEM_TENANT, SYSTEM_USER
from telegram_assistant.domain.source import Followed
from telegram_assistant.errors import Fatal
from telegram_assistant.ingest.follows import ask_follows, folder_of
from telegram_assistant.stores.postgres.watched_channels import Requests, WatchedChannels
from telegram_assistant.wiring.runtime import Runtime

SECONDS = 60.0

console = Console()
Row = tuple[Followed, bool]  # and whether it is watched, or asked for


def followed(
    link: Annotated[str, typer.Argument(help="of a shared folder: https://t.me/addlist/…", metavar="[LINK]")] = "",
    folder: Annotated[str, typer.Option(help="Only the channels of this folder.")] = "",
    add: Annotated[bool, typer.Option("--add", help="Watch all of them.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    try:
        slug = folder_of(link)
    except ValueError as exc:
        raise Fatal(str(exc)) from exc

    async def work(runtime: Runtime) -> None:
        rows = [row for row in await _rows(runtime, slug) if not folder or folder in row[0].folders]
        if as_json:
            print_json([_plain(*row) for row in rows])
        else:
            console.print(_table(rows) if rows else "No channels there.")
        if add:
            await _add(runtime, [one for one, watched in rows if not watched])

    with_runtime(work)


async def _rows(runtime: Runtime, slug: str) -> list[Row]:
    answer = await ask_follows(runtime.redis, UUID(SYSTEM_TENANT), slug, seconds=SECONDS)
    if answer is None:
        raise Fatal("capture does not answer: start the assistant (make run), and try again")
    if answer.error:
        raise Fatal(answer.error)
    watched = WatchedChannels(runtime.database)
    asked = {one.reference for one in await Requests(runtime.database).open()}
    return [
        (one, str(one.ref) in asked or await watched.get(UUID(SYSTEM_TENANT), one.info.id) is not None)
        for one in answer.followed
    ]


async def _add(runtime: Runtime, new: Sequence[Followed]) -> None:
    requests = Requests(runtime.database)
    for one in new:
        await requests.add(UUID(SYSTEM_TENANT), UUID(SYSTEM_USER), str(one.ref))
    typer.echo(f"{len(new)} noted; they are looked up one by one: tga channels list", err=True)


def _plain(one: Followed, watched: bool) -> dict[str, object]:
    told = {"reference": str(one.ref), "id": one.info.id, "title": one.info.title}
    return {**told, "folders": list(one.folders), "watched": watched}


def _table(rows: Sequence[Row]) -> Table:
    table = Table("channel", "title", "folders", "watched")
    for one, watched in rows:
        # Text, not str: a title may hold brackets, which are markup to the table.
        table.add_row(Text(str(one.ref)), Text(one.info.title), Text(", ".join(one.folders)), "yes" if watched else "")
    return table
