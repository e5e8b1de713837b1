"""The topics of forums: their titles, and which of them were closed or deleted. Posts name them by id."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

from telegram_assistant.bus.supervisor import Task
from telegram_assistant.domain.accounts import Priority
from telegram_assistant.domain.source import SourceError
from telegram_assistant.ingest.origins import Readers
from telegram_assistant.log import get_logger
from telegram_assistant.stores.postgres.channels import Channel
from telegram_assistant.stores.postgres.topics import ForumTopics

EVERY_SECONDS = 15.0
FORUMS = timedelta(hours=1)
OTHERS = timedelta(days=1)  # a group may become a forum
AT_ONCE = 5  # groups in one round: each costs a request that Telegram limits hard

log = get_logger(__name__)


class TopicReader:
    """A supervised job."""

    def __init__(self, store: ForumTopics, readers: Readers, *, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._readers = readers
        self._clock = clock

    async def run(self, task: Task) -> None:
        task.ready()
        while True:
            await self.step(task.progress)
            task.progress()
            await asyncio.sleep(EVERY_SECONDS)

    async def step(self, progress: Callable[[], None] = lambda: None) -> None:
        """Ask for the topics of those that were not asked for a while."""
        reach = await self._readers.reach()
        due = await self._store.due(self._clock(), forums=FORUMS, others=OTHERS, limit=AT_ONCE, reach=reach)
        for channel in due:
            await self._look(channel)
            progress()

    async def _look(self, channel: Channel) -> None:
        """One that fails waits as long as the others, so that it keeps none of them waiting."""
        now = self._clock()
        try:
            source = await self._readers.reader(channel, priority=Priority.REFRESH)
            await self._store.save(channel.id, await source.forum(), now)
        except SourceError as exc:
            log.warning("topics_failed", channel=channel.shown, reason=str(exc))
            await self._store.looked(channel.id, now)
