"""`tga reindex`: vectors, graph and full text made anew from the tables, after a restore or a loss."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from telegram_assistant.cli.session import with_runtime
from telegram_assistant.errors import Fatal, Retry
from telegram_assistant.stores.postgres.enrichment import StoredPosts
from telegram_assistant.wiring.runtime import Runtime

console = Console()


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
