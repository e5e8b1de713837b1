"""`tga trace`: how a post came here, step by step. `tga retag`: have posts tagged again, after another model, prompt or
list of topics."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from telegram_assistant.bus.streams import Publisher
from telegram_assistant.cli.channels import find
from telegram_assistant.cli.session import print_json, with_runtime
from telegram_assistant.domain.post import post_id
from telegram_assistant.errors import Fatal
from telegram_assistant.stores.postgres.channels import Channels
from telegram_assistant.stores.postgres.enrichment import StoredPosts
from telegram_assistant.stores.postgres.pipeline import Recorded, path_of
from telegram_assistant.wiring.runtime import Runtime

console = Console()

Reference = Annotated[str, typer.Argument(help="A link like https://t.me/durov/42, or the post's id", metavar="POST")]


def trace(
    post: Reference, as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False
) -> None:
    steps = with_runtime(lambda runtime: _steps(runtime, post))
    began = steps[0].at
    if as_json:
        print_json(steps)
        return
    table = Table("stage", "outcome", "after", "took", "what came of it", box=None)
    for step in steps:
        after = f"{(step.at - began).total_seconds():.2f} s"
        table.add_row(step.stage, step.outcome, after, f"{step.duration_ms:.1f} ms", escape(step.note))
    console.print(f"captured {began:%Y-%m-%d %H:%M:%S} UTC, trace {steps[-1].trace_id}")
    console.print(table)


async def _steps(runtime: Runtime, reference: str) -> list[Recorded]:
    found = await find_post(runtime, reference)
    async with runtime.database.connect() as connection:
        steps = await path_of(connection, found)
    if not steps:
        raise Fatal(f"no post {reference} is stored; is its channel watched? (tga channels list)")
    return steps


async def find_post(runtime: Runtime, reference: str) -> UUID:
    """The id of the post that a link or an id names, stored or not."""
    try:
        return UUID(reference)
    except ValueError:
        pass
    channel, _, message = reference.rstrip("/").rpartition("/")
    if not message.isdecimal():
        raise Fatal(f"{reference} is no post: give a link like https://t.me/durov/42, or @durov/42, or the post's id")
    # A link into a private channel names it by its number, and only as a whole.
    known = await find(Channels(runtime.database), reference if "/c/" in reference else channel)
    return post_id(known.id, int(message))


References = Annotated[
    list[str], typer.Argument(help="Links like https://t.me/durov/42, or ids of posts", metavar="POST...")
]


def retag(posts: References) -> None:
    async def work(runtime: Runtime) -> int:
        from telegram_assistant.stages.tagging import ask_retag  # noqa: PLC0415 - the stages, which no other command needs

        wanted = {await find_post(runtime, post): post for post in posts}
        publisher, stored_posts = Publisher(runtime.redis), StoredPosts(runtime.database)
        asked = await ask_retag(publisher, stored_posts, list(wanted), runtime.clock)
        missing = [reference for post_id, reference in wanted.items() if post_id not in asked]
        if missing:
            raise Fatal(f"not stored, or deleted: {', '.join(missing)}; the others are tagged again")
        return len(asked)

    console.print(f"{with_runtime(work)} posts are tagged again.", highlight=False)
