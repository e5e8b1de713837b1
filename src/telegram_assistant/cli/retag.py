"""`tga retag`: have posts tagged again, after another model, prompt or list of topics."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from telegram_assistant.bus.streams import Publisher
from telegram_assistant.cli.session import with_runtime
from telegram_assistant.cli.trace import find_post
from telegram_assistant.errors import Fatal
from telegram_assistant.stores.postgres.enrichment import StoredPosts
from telegram_assistant.wiring.runtime import Runtime

console = Console()

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
