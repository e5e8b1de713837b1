"""What is missing is a query (LESSONS 13): posts that no index knows and that wait nowhere are told of again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from telegram_assistant.bus.supervisor import Task
from telegram_assistant.log import get_logger
from telegram_assistant.metrics import SWEPT
from telegram_assistant.names import INDEXING, POSTS_DELETED, POSTS_PARSED, VISION_ANALYSIS
from telegram_assistant.stores.postgres.steps import Steps

LIMIT = 500
EVERY = 60.0  # seconds; the recent days
RECENT = timedelta(days=2)
ALL_EVERY = 3600.0  # the whole archive
UNPUBLISHED = timedelta(minutes=1)  # what waits in the outbox so long is held back, not missing
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)

log = get_logger(__name__)


@dataclass(frozen=True)
class Sweep:
    """`idle` says whether the pipeline has nothing to do: what is on its way is not missing."""

    steps: Steps
    idle: Callable[[], bool]
    clock: Callable[[], datetime]
    grace: timedelta = timedelta(minutes=5)

    async def run(self, task: Task) -> None:
        """A supervised job."""
        task.ready()
        loop = asyncio.get_running_loop()
        everything_at = loop.time()
        while True:
            if self.idle() and not await self.steps.unpublished(UNPUBLISHED):
                whole = loop.time() >= everything_at
                found = await self.step(LONG_AGO if whole else self.clock() - RECENT)
                if whole and found < LIMIT:
                    everything_at = loop.time() + ALL_EVERY
            task.progress()
            await asyncio.sleep(EVERY)

    async def step(self, since: datetime) -> int:
        """Tell of what is missing; the most that was found of one kind."""
        before = self.clock() - self.grace
        unindexed = await self.steps.missing(INDEXING, since=since, before=before, limit=LIMIT)
        unseen = await self.steps.missing(VISION_ANALYSIS, since=since, before=before, limit=LIMIT)
        remaining = await self.steps.remaining(since=since, before=before, limit=LIMIT)
        for kind, event, posts in (
            ("unindexed", POSTS_PARSED, unindexed),
            ("unseen", POSTS_PARSED, [post for post in unseen if post not in set(unindexed)]),
            ("remaining", POSTS_DELETED, remaining),
        ):
            if posts:
                SWEPT.labels(kind).inc(len(posts))
                log.warning("published_again", kind=kind, posts=len(posts))
                await self.steps.publish_again(event, posts, trace_id=uuid4().hex)
        return max(len(unindexed), len(unseen), len(remaining))
