"""What keeps the full-text index whole: posts without a document get one, and words are counted now and then."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from uuid import UUID

from telegram_assistant.bus.supervisor import Task
from telegram_assistant.log import get_logger
from telegram_assistant.stages.index_entry import EntryReader, TextIndex
from telegram_assistant.stores.postgres.search import SearchDocuments

EVERY = 15.0  # seconds
BATCH = 200
BREATH = 0.2  # between two batches: new posts come first
LOOK_EVERY = 3600.0  # for posts without a document: indexing itself makes one for each
COUNT_EVERY = 6 * 3600.0
GROWN = 0.1  # by this share: words are counted anew

log = get_logger(__name__)


@dataclass
class SearchUpkeep:
    """Several processes may do it at once: each document is written once, and counts are the same."""

    texts: TextIndex
    documents: SearchDocuments
    entries: EntryReader
    counted: int = 0  # documents at the last count
    counted_at: float | None = None
    changed: int = 0  # documents that had been written by then

    async def run(self, task: Task) -> None:
        """A supervised job."""
        task.ready()
        loop = asyncio.get_running_loop()
        look_at = loop.time()
        while True:
            if loop.time() >= look_at:
                await self.fill(task)
                look_at = loop.time() + LOOK_EVERY
            await self.count(loop.time())
            task.progress()
            await asyncio.sleep(EVERY)

    async def fill(self, task: Task | None = None) -> int:
        """Make the documents of posts that were indexed before there were any, or by an older version."""
        done = 0
        before: list[UUID] = []
        while (missing := await self.documents.missing(limit=BATCH)) and missing != before:
            await self.texts.put((await self.entries.of(missing)).values())
            done += len(missing)
            before = missing  # the same again: nothing can be made of them now
            if task is not None:
                task.progress()
            await asyncio.sleep(BREATH)
        if done:
            log.info("search_documents_made", posts=done)
        return done

    async def count(self, now: float) -> bool:
        """Whether it was time to count."""
        grown = self.texts.changed - self.changed
        due = self.counted_at is None or now >= self.counted_at + COUNT_EVERY
        if not due and grown <= max(20, GROWN * self.counted):
            return False
        self.changed = self.texts.changed
        self.counted = await self.documents.count_terms()
        self.counted_at = now
        return True
