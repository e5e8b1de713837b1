"""Comments under a channel's posts, where they are wanted (off by default): saved the same way as posts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

from telegram_assistant.bus.supervisor import Task
from telegram_assistant.domain.accounts import Priority
from telegram_assistant.domain.ledger import Coverage
from telegram_assistant.domain.source import Source, SourceError
from telegram_assistant.errors import Skip
from telegram_assistant.ingest.origins import Readers
from telegram_assistant.ingest.saver import Reading, Saver
from telegram_assistant.log import get_logger
from telegram_assistant.stores.postgres.channels import Channel
from telegram_assistant.stores.postgres.comments import Comments, Thread

EVERY_SECONDS = 15.0
RECENT = timedelta(days=7)  # as long as posts themselves are read again
THREADS = 50  # of one channel in one round

log = get_logger(__name__)


class CommentReader:
    """A supervised job."""

    def __init__(
        self,
        store: Comments,
        saver: Saver,
        readers: Readers,
        *,
        clock: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._saver = saver
        self._readers = readers
        self._clock = clock

    async def run(self, task: Task) -> None:
        task.ready()
        while True:
            await self.step(task.progress)
            task.progress()
            await asyncio.sleep(EVERY_SECONDS)

    async def step(self, progress: Callable[[], None] = lambda: None) -> int:
        """Read what is new under all channels; how many comments that was."""
        found = 0
        for channel in await self._store.channels(await self._readers.reach()):
            found += await self._read(channel, progress)
            progress()
        return found

    async def _read(self, channel: Channel, progress: Callable[[], None]) -> int:
        """One channel's failure is its own; the next round tries again."""
        found = 0
        try:
            threads = await self._store.waiting(channel.id, since=self._clock() - RECENT, limit=THREADS)
            if threads:
                source = await self._readers.reader(channel, priority=Priority.REFRESH)
                group_id = channel.linked_id or await self._find_group(channel, source)
                for thread in threads if group_id else ():
                    found += await self._read_thread(channel, source, thread, progress)
        except (SourceError, Skip) as exc:
            log.warning("comments_failed", channel=channel.shown, reason=str(exc))
        return found

    async def _find_group(self, channel: Channel, source: Source) -> int:
        info = await source.describe()
        if info.linked_id is None:
            log.info("no_discussion_group", channel=channel.shown)
            await self._store.switch(channel.id, on=False)
            return 0
        await self._store.add_group(info.linked_id, channel)
        return info.linked_id

    async def _read_thread(self, channel: Channel, source: Source, thread: Thread, progress: Callable[[], None]) -> int:
        after_id, found = thread.after_id, 0
        while True:
            page = await source.comments_after(thread.message_id, after_id)
            progress()  # with every answer: an account asks once a second, and a channel has many threads
            if page.posts:
                ids = [post.message_id for post in page.posts]
                group_id = page.posts[0].channel_id
                if group_id != channel.linked_id:  # its owner chose another group meanwhile
                    await self._store.add_group(group_id, channel)
                # Between two comments of a thread lie those of others: only what was seen is proven.
                saved = await self._saver.save(
                    Reading(channel_id=group_id, posts=page.posts, proven=Coverage.of_ids(ids), newest_id=max(ids))
                )
                await self._store.relate(thread.post_id, [post.id for post in page.posts])
                after_id = max(ids)
                found += len(saved.new)
            if page.reached_end or not page.posts:
                return found
