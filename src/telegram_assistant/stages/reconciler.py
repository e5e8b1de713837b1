"""PostgreSQL is the truth, everything else may vanish (G10): what should exist is compared with what does, for every
stage, and what is missing is told of again.

A post is looked at when it had time to go through, and by turns with the whole archive. A turn is a few hundred posts
and belongs to one process; what it costs does not depend on how many posts there are. Whether Redis lost what it held
is asked by a mark that both know: then all that waited there is missing, and the archive is gone through at once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import UUID, uuid4

import msgspec
from redis.asyncio import Redis

from telegram_assistant.bus.streams import oldest_of
from telegram_assistant.bus.supervisor import Task
from telegram_assistant.log import get_logger
from telegram_assistant.metrics import ENGINE_LOSSES, EXAMINED, SWEPT
from telegram_assistant.names import REDIS_MARK
from telegram_assistant.stores.postgres import outbox
from telegram_assistant.stores.postgres.outbox import Bounds, Looked
from telegram_assistant.stores.postgres.upkeep import Turn, Upkeep, begin_anew, read_state

REDIS, RECENT, ARCHIVE = "redis", "recent", "archive"
PAGE = 500
EVERY = 5.0  # seconds between two looks at what is due
REDIS_EVERY = timedelta(seconds=10)
RECENT_EVERY = timedelta(seconds=20)
ARCHIVE_EVERY = timedelta(seconds=15)
BREATH = 0.05  # seconds between two turns of a pass that hurries: new posts come first
FIRST_LOOK = timedelta(days=2)  # so far back begins who has never looked
LONGEST_PAUSE = timedelta(days=2)  # between two attempts; what rests for longer was forgotten
MARGIN = timedelta(minutes=1)  # the clocks of engines differ, and a step is written before its event is published
HELD_MARGIN = timedelta(seconds=10)  # a post has the time of the process that captured it
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)

log = get_logger(__name__)


class RedisState(msgspec.Struct, frozen=True):
    """The mark that Redis should have. `beat` counts up on both sides: a Redis that went back in time is behind."""

    mark: str = ""
    beat: int = 0
    since: datetime = LONG_AGO  # nothing that waited in Redis before is there any more
    losses: int = 0


class RecentState(msgspec.Struct, frozen=True):
    """Posts that were captured up to here were looked at."""

    at: datetime | None = None
    after: UUID = UUID(int=0)


class ArchiveState(msgspec.Struct, frozen=True):
    """Where the pass through all posts is."""

    after: UUID | None = None
    began_at: datetime | None = None
    examined: int = 0
    published: int = 0
    hurry: str = ""  # why it does not take its time
    ended_at: datetime | None = None  # of the pass before


@dataclass
class Reconciler:
    """One per worker; they take turns."""

    upkeep: Upkeep
    redis: Redis
    groups: Sequence[tuple[str, str]]  # event and stage
    grace: timedelta = timedelta(minutes=5)

    async def run(self, task: Task) -> None:
        """A supervised job."""
        task.ready()
        while True:
            await self.watch_redis()
            await self.look_at_recent()
            hurries = await self.look_at_archive()
            task.progress()
            await asyncio.sleep(BREATH if hurries else EVERY)

    async def watch_redis(self) -> bool:
        """Whether Redis has lost what it held."""
        async with self.upkeep.turn(REDIS, RedisState, every=REDIS_EVERY) as turn:
            if turn is None:
                return False
            known = turn.state
            found = await cast("Any", self.redis.hgetall(REDIS_MARK))
            same = found.get("mark") == known.mark and int(found.get("beat", 0)) >= known.beat
            lost = bool(known.mark) and not same
            mark = known.mark if same else uuid4().hex
            turn.state = RedisState(
                mark=mark,
                beat=max(known.beat, int(found.get("beat", 0)) if same else 0) + 1,
                since=turn.now if lost else known.since,
                losses=known.losses + lost,
            )
            await cast("Any", self.redis.hset(REDIS_MARK, mapping={"mark": mark, "beat": turn.state.beat}))
            if lost:
                why = f"Redis lost its data before {turn.now:%Y-%m-%d %H:%M:%S} UTC"
                await begin_anew(turn.connection, ARCHIVE, ArchiveState(hurry=why))
        if lost:
            ENGINE_LOSSES.labels(REDIS).inc()
            log.warning("redis_lost_its_data", todo="none: every post is looked at again, what waited is told of again")
        return lost

    async def look_at_recent(self) -> int:
        """Posts that had their time since the last look; how many."""
        async with self.upkeep.turn(RECENT, RecentState, every=RECENT_EVERY) as turn:
            if turn is None:
                return 0
            since = turn.state.at or turn.now - FIRST_LOOK
            bounds = await self._bounds(turn)
            posts = await outbox.posts_to_check(
                turn.connection, bounds, after=turn.state.after, since=since, limit=PAGE
            )
            # Not beyond: what was captured later comes when it had its time, and what is held back then.
            posts = [post for post in posts if post.captured_at < bounds.before]
            await self._publish(turn, posts)
            if posts:
                turn.state = RecentState(at=posts[-1].captured_at, after=posts[-1].post_id)
        return len(posts)

    async def look_at_archive(self) -> bool:
        """The next posts of all; whether the pass hurries."""
        hurries = bool((await self.upkeep.state(ARCHIVE, ArchiveState)).hurry)
        async with self.upkeep.turn(ARCHIVE, ArchiveState, every=timedelta() if hurries else ARCHIVE_EVERY) as turn:
            if turn is None:
                return False
            state, bounds = turn.state, await self._bounds(turn, hurry=bool(turn.state.hurry))
            posts = await outbox.posts_to_check(turn.connection, bounds, after=state.after, limit=PAGE)
            told = await self._publish(turn, posts)
            turn.state = msgspec.structs.replace(
                state,
                after=posts[-1].post_id if posts else None,
                began_at=state.began_at or turn.now,
                examined=state.examined + len(posts),
                published=state.published + told,
            )
            if len(posts) < PAGE:
                log.info("archive_examined", posts=turn.state.examined, published_again=turn.state.published)
                turn.state = ArchiveState(ended_at=turn.now)
        return bool(turn.state.hurry)

    async def report(self) -> dict[str, Any]:
        """For health: after a loss, how much of the archive was looked at again."""
        state, redis = await self.upkeep.state(ARCHIVE, ArchiveState), await self.upkeep.state(REDIS, RedisState)
        of = await self.upkeep.posts()
        return {
            "status": "degraded" if state.hurry else "ok",
            "error": progress_of(state, of) if state.hurry else None,
            "examined": state.examined,
            "of": of,
            "published_again": state.published,
            "pass_began_at": state.began_at.isoformat() if state.began_at else None,
            "pass_before_ended_at": state.ended_at.isoformat() if state.ended_at else None,
            "redis_losses": redis.losses,
        }

    async def _bounds(self, turn: Turn[Any], *, hurry: bool = False) -> Bounds:
        """What moved after the oldest that is on its way may be on its way too. After a loss nothing older is."""
        known = await read_state(turn.connection, REDIS, RedisState)
        oldest = await oldest_of(self.redis, self.groups)
        before = turn.now - self.grace
        if oldest is not None:
            before = min(before, datetime.fromtimestamp(oldest, UTC) - MARGIN)
        before = max(before, known.since)
        held_back = await outbox.oldest_unpublished(turn.connection)
        flows = hurry and held_back is not None and turn.now - held_back < MARGIN  # then a few are told of twice
        if held_back is not None and not flows:
            before = min(before, held_back - HELD_MARGIN)
        return Bounds(before=before, waits_since=max(turn.now - LONGEST_PAUSE, known.since))

    async def _publish(self, turn: Turn[Any], posts: Iterable[Looked]) -> int:
        looked = list(posts)
        EXAMINED.inc(len(looked))
        missing = [post for post in looked if post.lacks]
        await outbox.publish_again(turn.connection, missing)
        kinds = Counter(lack for post in missing for lack in post.lacks)
        for kind, count in kinds.items():
            SWEPT.labels(kind).inc(count)
        if missing:
            log.warning("published_again", posts=len(missing), **kinds)
        return len(missing)


def progress_of(state: ArchiveState, of: int) -> str:
    """How far the archive was looked at again after a loss, in words."""
    told = f"{state.hurry}: {state.examined:,} of about {of:,} posts were looked at again,"
    return f"{told} {state.published:,} are on their way again"
