"""Writes to both indexes while no file may grow, and afterwards. For test_full_disk.py, as a process of its own."""

from __future__ import annotations

import asyncio
import resource
import sys
from pathlib import Path
from uuid import UUID

from telegram_assistant.embedded.folder import DataFolder
from telegram_assistant.errors import Retry
from telegram_assistant.index.edge_vectors import EdgeVectors
from telegram_assistant.index.ladybug_graph import LadybugGraph
from telegram_assistant.index.vectors import Model

TENANT = UUID(int=1)


def no_more_bytes(*, full: bool) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 if full else resource.RLIM_INFINITY, resource.RLIM_INFINITY))


async def main(folder: Path) -> None:
    graph, vectors, home = (
        LadybugGraph(folder / "graph", memory_mb=128),
        EdgeVectors(folder / "vectors"),
        DataFolder(folder),
    )
    await graph.set_mark("before")
    await vectors.open(TENANT, Model("m", 4))
    await vectors.set_mark(TENANT, "before")
    home.try_to_write()
    no_more_bytes(full=True)
    for _ in range(3):
        for write in (
            graph.set_mark("during"),
            vectors.set_mark(TENANT, "during"),
            asyncio.to_thread(home.try_to_write),
        ):
            try:
                await write
            except (Retry, OSError) as exc:
                sys.stdout.write(f"refused: {type(exc).__name__}\n")
    sys.stdout.write(f"read: {await graph.mark()} {await vectors.mark(TENANT)}\n")
    no_more_bytes(full=False)
    await graph.set_mark("after")
    await vectors.set_mark(TENANT, "after")
    home.try_to_write()
    sys.stdout.write(f"read: {await graph.mark()} {await vectors.mark(TENANT)}\n")
    await graph.close()
    await vectors.close()


asyncio.run(main(Path(sys.argv[1])))
