"""A visitor of the demo: asks, as a person would, for the older posts of its channels, and then for what rises.

Trends need a past, and the first visit of a channel looks back a day only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.bus.supervisor import Task
from telegram_assistant.domain.access import SYSTEM_TENANT
from telegram_assistant.jobs import TRENDS
from telegram_assistant.language.documents import WORDS_ONLY
from telegram_assistant.log import get_logger
from telegram_assistant.stores.postgres.channels import Channels
from telegram_assistant.stores.postgres.jobs import JobRuns
from telegram_assistant.stores.postgres.trends import Trends

EVERY = 2.0  # seconds between two looks at how far it is
PATIENCE = timedelta(minutes=10)  # a post that is never indexed does not keep the visitor for ever
KEPT = timedelta(days=365)

_ON_ITS_WAY = """
SELECT EXISTS (SELECT 1 FROM posts p LEFT JOIN search_documents d ON d.post_id = p.id
WHERE p.posted_at < :before AND p.deleted_at IS NULL AND coalesce(d.version, :words_only) = :words_only)
"""

log = get_logger(__name__)


class Visitor:
    """A supervised job that has nothing more to do after the first minutes. Every step may be repeated."""

    def __init__(self, database: AsyncEngine, usernames: Sequence[str], *, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._usernames = usernames
        self._clock = clock
        self._came = clock()
        self._channels = Channels(database)
        self._asked: set[int] = set()

    async def run(self, task: Task) -> None:
        task.ready()
        while not await self.step():
            task.progress()
            await asyncio.sleep(EVERY)
        await asyncio.get_running_loop().create_future()  # a job that ends counts as failed

    async def step(self) -> bool:
        """Do what can be done now; whether all is done."""
        waited = self._clock() - self._came > PATIENCE
        if not waited and not (await self._history_is_there() and await self._all_is_indexed()):
            return False
        await self._ask_for_trends()
        return True

    async def _history_is_there(self) -> bool:
        """As `tga backfill @name --all`, after the first visit of each."""
        there = True
        for username in self._usernames:
            channel = await self._channels.by_username(username)
            if channel is None or channel.requested_from is None:
                there = False
            elif channel.status == "active" and channel.requested_from > 1 and channel.id not in self._asked:
                self._asked.add(channel.id)
                await self._channels.ask_history(channel.id, None)
                there = False
        return there and not await self._channels.with_holes(limit=1)

    async def _all_is_indexed(self) -> bool:
        values = {"before": self._came, "words_only": WORDS_ONLY}
        async with self._database.connect() as connection:
            return not (await connection.execute(text(_ON_ITS_WAY), values)).scalar_one()

    async def _ask_for_trends(self) -> None:
        """As `tga jobs run trends`, where none were found yet."""
        now = self._clock()
        found = await Trends(self._database).page(UUID(SYSTEM_TENANT), since=now - KEPT, before=now, limit=1)
        if not found:
            await JobRuns(self._database).ask(TRENDS, now)
            log.info("demo_asked_for_trends", after_seconds=round((now - self._came).total_seconds()))
