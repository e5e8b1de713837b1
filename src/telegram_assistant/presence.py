"""Which roles run somewhere (G9): each process gives a sign in PostgreSQL, and tells of a role that gives none.

Health is asked of a process that runs. When the only `tga ingest` is gone, the others are the ones that can tell.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from datetime import timedelta
from time import monotonic
from typing import Any

from telegram_assistant.bus.supervisor import Task
from telegram_assistant.stores.postgres.upkeep import Upkeep

EVERY_SECONDS = 15.0
SILENT = timedelta(seconds=75)
FORGOTTEN = timedelta(days=7)  # a role that was given up is missed no longer than this
COSTS = {
    "ingest": "nothing new is captured",
    "worker": "new posts are not tagged and indexed",
    "api": "the pages and the API do not answer, digests and alerts wait",
}


class Presence:
    """A supervised job of every process."""

    def __init__(self, upkeep: Upkeep, roles: Collection[str]) -> None:
        self._upkeep = upkeep
        self._roles = roles
        self._began = monotonic()

    async def run(self, task: Task) -> None:
        await self._upkeep.sign(self._roles)
        task.ready()
        while True:
            await asyncio.sleep(EVERY_SECONDS)
            await self._upkeep.sign(self._roles)
            task.progress()

    async def report(self) -> dict[str, Any]:
        """For health: roles that ran and give no sign any more. Just after a start the others may be starting too."""
        signs = await self._upkeep.signs()
        silent = {role: age for role, age in signs.items() if role in COSTS and SILENT < age < FORGOTTEN}
        if monotonic() - self._began < SILENT.total_seconds():
            silent = {}
        said = [
            f"no `tga {role}` has given a sign for {age.total_seconds() / 60:.0f} min; {COSTS[role]}; start it"
            for role, age in silent.items()
        ]
        return {
            "status": "degraded" if said else "ok",
            "error": ". ".join(said) or None,
            "seconds_since_sign": {role: round(age.total_seconds()) for role, age in signs.items()},
        }
