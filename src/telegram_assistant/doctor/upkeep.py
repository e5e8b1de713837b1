"""Whether what PostgreSQL knows of is there: the indexes by their marks, and what is being brought back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy.exc import DBAPIError

from telegram_assistant.config import Settings
from telegram_assistant.doctor.finding import Finding, ok, warn
from telegram_assistant.stages.index_upkeep import INDEXES, PASS, IndexesState, PassState, told_of
from telegram_assistant.stages.reconciler import ARCHIVE, ArchiveState, progress_of
from telegram_assistant.stores.postgres.database import open_database
from telegram_assistant.stores.postgres.upkeep import Upkeep
from telegram_assistant.wiring.models import place_of_indexes

NOTHING = "nothing: it is brought back from PostgreSQL; /health/details says how far it is"


async def look_at_upkeep(url: str, settings: Settings) -> list[Finding]:
    database = open_database(url, pool_size=1, ca_file=settings.tls_ca_file)
    upkeep = Upkeep(database)
    try:
        state, compared = await upkeep.state(INDEXES, IndexesState), await upkeep.state(PASS, PassState)
        archive, posts = await upkeep.state(ARCHIVE, ArchiveState), await upkeep.posts()
    except (DBAPIError, OSError):
        return []  # what is wrong with the database was said before
    finally:
        await database.dispose()
    found = [_indexes(settings, state, compared)]
    if archive.hurry:
        found.append(warn("pipeline", progress_of(archive, posts), NOTHING))
    return found


def _indexes(settings: Settings, state: IndexesState, compared: PassState) -> Finding:
    name = "indexes"
    if compared.why:
        return warn(name, str(told_of(state, compared)["error"]), NOTHING)
    if not state.place:
        return ok(name, "none was made yet")
    home = settings.tga_data_dir.absolute()
    if state.place == place_of_indexes(settings, home) and (gone := list(_exchanged(settings, state, home))):
        return warn(name, f"{', '.join(gone)}: gone, or another one", "start tga up, or a worker: it rebuilds them")
    return ok(name, f"as PostgreSQL knows them, at {state.place}")


def _exchanged(settings: Settings, state: IndexesState, home: Path) -> Iterator[str]:
    """Read only: whoever owns the index may be at work."""
    if not settings.qdrant_url:
        for tenant, mark in state.vectors.items():
            if _mark(home / "vectors" / tenant / "generations.json") != mark:
                yield f"vectors/{tenant}"
    if not settings.neo4j_url and state.graph and not (home / "graph" / "graph").exists():
        yield "graph"


def _mark(path: Path) -> str | None:
    try:
        return str(json.loads(path.read_text(encoding="utf-8")).get("mark", ""))
    except (OSError, ValueError):
        return None
