"""`tga dead-letters`: what failed for good, why, and once more."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from telegram_assistant.bus.retry_queue import replay as replay_letters
from telegram_assistant.cli.session import print_json, with_runtime
from telegram_assistant.errors import Fatal
from telegram_assistant.stages import STAGES
from telegram_assistant.stores.postgres.pipeline import DeadLetters, Letter
from telegram_assistant.wiring.runtime import Runtime

SHOWN = 80

console = Console()

MOST = 10_000
LARGEST = 2**63 - 1  # that PostgreSQL counts to

Ids = Annotated[
    list[int] | None,
    typer.Argument(help="Numbers from tga dead-letters list", metavar="ID...", min=1, max=LARGEST),
]
All = Annotated[bool, typer.Option("--all", help="Every letter, or every one of --stage.")]
OfStage = Annotated[str | None, typer.Option("--stage", help="Only letters of this stage.")]


def list_(
    stage: OfStage = None,
    limit: Annotated[int, typer.Option(min=1, max=MOST, help="At most so many, newest first.")] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    _known(stage)
    letters = with_runtime(lambda runtime: DeadLetters(runtime.database).find(stage=stage, limit=limit))
    if as_json:
        print_json([_plain(letter) for letter in letters])
        return
    if not letters:
        console.print("No dead letters.")
        return
    table = Table("id", "stage", "event", "attempts", "since", "reason", box=None)
    for letter in letters:
        since = f"{letter.created_at:%Y-%m-%d %H:%M}"
        table.add_row(
            str(letter.id), letter.stage, letter.event, str(letter.attempts), since, escape(letter.reason[:SHOWN])
        )
    console.print(table)


def show(
    letter: Annotated[int, typer.Argument(help="Number from tga dead-letters list", metavar="ID", min=1, max=LARGEST)],
) -> None:
    found = with_runtime(lambda runtime: DeadLetters(runtime.database).find(ids=[letter]))
    if not found:
        raise Fatal(f"there is no dead letter {letter}; see: tga dead-letters list")
    plain = _plain(found[0])
    traceback = plain.pop("traceback")
    print_json(plain)
    if traceback:
        typer.echo(traceback)


def replay(ids: Ids = None, every: All = False, stage: OfStage = None) -> None:
    _known(stage)

    async def work(runtime: Runtime) -> int:
        letters = await _chosen(runtime, ids, every=every, stage=stage)
        readable = await replay_letters(runtime.redis, DeadLetters(runtime.database), letters)
        for letter in letters:
            if letter not in readable:
                console.print(f"{letter.id}: is no event and cannot be replayed; tga dead-letters drop {letter.id}")
        return len(readable)

    console.print(f"{with_runtime(work)} replayed.")


def drop(ids: Ids = None, every: All = False, stage: OfStage = None) -> None:
    _known(stage)

    async def work(runtime: Runtime) -> int:
        letters = await _chosen(runtime, ids, every=every, stage=stage)
        return await DeadLetters(runtime.database).drop([letter.id for letter in letters])

    console.print(f"{with_runtime(work)} dropped.")


async def _chosen(runtime: Runtime, ids: list[int] | None, *, every: bool, stage: str | None) -> list[Letter]:
    if bool(ids) == every:
        raise Fatal("name the letters by their numbers, or say --all")
    letters = DeadLetters(runtime.database)
    if every:
        return await letters.find(stage=stage, limit=MOST)
    found = await letters.find(ids=ids)
    unknown = set(ids or ()) - {letter.id for letter in found}
    if unknown:
        raise Fatal(f"there is no dead letter {', '.join(map(str, sorted(unknown)))}; see: tga dead-letters list")
    return found


def _known(stage: str | None) -> None:
    if stage is not None and stage not in STAGES:
        raise Fatal(f"there is no stage {stage!r}; there are {', '.join(STAGES)}")


def _plain(letter: Letter) -> dict[str, object]:
    return {name: value if _is_plain(value) else str(value) for name, value in asdict(letter).items()}


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str | int | dict | list)
