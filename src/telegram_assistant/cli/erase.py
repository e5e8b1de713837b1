"""`tga tenants erase`: a tenant leaves without a trace."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Annotated

import typer

from telegram_assistant.access.erase import Eraser
from telegram_assistant.access.people import People
from telegram_assistant.cli.access import Name, console, find_tenant
from telegram_assistant.cli.session import with_runtime
from telegram_assistant.errors import Fatal
from telegram_assistant.wiring.keeping import open_media_store
from telegram_assistant.wiring.models import open_graph, open_vectors
from telegram_assistant.wiring.runtime import Runtime


def erase_tenant(
    name: Name, yes: Annotated[bool, typer.Option("--yes", help="Do not ask, for scripts.")] = False
) -> None:
    async def work(runtime: Runtime) -> None:
        tenant = await find_tenant(People(runtime.database, runtime.clock), name)
        async with AsyncExitStack() as stack:
            eraser = _eraser(runtime, stack)
            found = await eraser.foresee(tenant.id)
            console.print(
                f"{tenant.name}: {len(found.users)} users, {len(found.channels)} channels that no other tenant watches,"
                f" {found.posts} posts"
            )
            if not yes and typer.prompt("Type the name of the tenant to erase it") != tenant.name:
                raise Fatal("That is another name: nothing was erased")
            erased = await eraser.erase(tenant.id)
            console.print(f"Erased: {erased.posts} posts, {erased.files} files, and everything else of {tenant.name}")

    with_runtime(work)


def _eraser(runtime: Runtime, stack: AsyncExitStack) -> Eraser:
    vectors = open_vectors(runtime.settings, runtime.folder.path)
    stack.push_async_callback(vectors.close)
    graph = open_graph(runtime.settings, runtime.folder.path)
    stack.push_async_callback(graph.close)
    media = open_media_store(runtime)
    return Eraser(runtime.database, runtime.redis, vectors=vectors, graph=graph, media=media, clock=runtime.clock)
