"""Live updates: posts, edits and deletions of joined channels within seconds. Polling stays the proof.

An update proves one id and nothing else. After an interruption the channel is visited at once, because edits and
deletions that happened meanwhile may never be told.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from datetime import datetime, timedelta
from math import inf
from time import monotonic
from typing import Any, Protocol

from telegram_assistant.bus.supervisor import Task
from telegram_assistant.domain.ledger import Coverage
from telegram_assistant.domain.source import Deleted, Interrupted, LiveUpdate, NewPost, SourceError
from telegram_assistant.domain.visits import Mode
from telegram_assistant.errors import Skip
from telegram_assistant.freshness import Freshness
from telegram_assistant.ingest.saver import Reading, Saver
from telegram_assistant.log import get_logger
from telegram_assistant.metrics import LIVE_FAILURES, LIVE_UPDATES, POSTS_PARSED_COUNT
from telegram_assistant.stores.outage import is_outage
from telegram_assistant.stores.postgres.channels import Channels

LOOK_SECONDS = 5.0  # how soon a new account is listened to
LANES = 3  # updates of one account that are saved at once
LANE_SIZE = 50
AGAIN_SECONDS = 10.0  # after a failure of one account
ALBUM_AGAIN = timedelta(seconds=15)

log = get_logger(__name__)


class LiveAccounts(Protocol):
    """The accounts that can listen, and what each of them hears."""

    async def active(self) -> list[str]: ...

    def updates(self, account_id: str) -> AsyncIterator[LiveUpdate]: ...

    def name_of(self, account_id: str) -> str: ...


class LiveReaders:
    """A supervised job: one listener per account, as accounts come and go."""

    def __init__(
        self,
        channels: Channels,
        saver: Saver,
        accounts: LiveAccounts,
        *,
        clock: Callable[[], datetime],
        due: asyncio.Event,
        freshness: Freshness,
        gaps_apart: float = 0.0,
        ticks: Callable[[], float] = monotonic,
    ) -> None:
        self._channels = channels
        self._saver = saver
        self._accounts = accounts
        self._clock = clock
        self._due = due
        self._gaps_apart = gaps_apart
        self._ticks = ticks
        self._gaps: dict[tuple[str | None, int | None], float] = {}  # when each is, or was, looked at because of a gap
        self._freshness = freshness
        self._listeners: dict[str, asyncio.Future[Any]] = {}
        self._restarts: Counter[str] = Counter()

    async def report(self) -> dict[str, Any]:
        """For health: each account's listener by itself. What is wrong is told by freshness already."""
        accounts: dict[str, dict[str, Any]] = {
            self._accounts.name_of(account_id): {
                "listening": self._freshness.state("listener", account_id),
                "saving": self._freshness.state("live updates", account_id),
                "restarts": self._restarts[account_id],
            }
            for account_id in self._listeners
        }
        bad = [one for one in accounts.values() if "stale" in (one["listening"]["status"], one["saving"]["status"])]
        status = "ok" if not bad else "failing" if len(bad) == len(accounts) else "degraded"
        return {"status": status, "error": None, "told_as": "freshness", "accounts": accounts}

    async def run(self, task: Task) -> None:
        task.ready()
        listeners = self._listeners
        try:
            while True:
                active = await self._accounts.active()
                for account_id in active:
                    if account_id not in listeners or listeners[account_id].done():
                        self._restarts[account_id] += account_id in listeners
                        listeners[account_id] = asyncio.ensure_future(self._listen(account_id, task))
                for account_id in set(listeners) - set(active):
                    listeners.pop(account_id).cancel()
                task.progress()
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            for listener in listeners.values():
                listener.cancel()
            await asyncio.gather(*listeners.values(), return_exceptions=True)
            listeners.clear()

    async def _listen(self, account_id: str, task: Task) -> None:
        """Until it fails. What was missed meanwhile is read again once it listens: that is the first it hears.

        Not before: an account that cannot connect would have everything read again with each attempt.
        """
        try:
            await self._take_all(account_id, task)
        except* SourceError as group:
            log.warning("live_interrupted", account=account_id, reason="; ".join(str(exc) for exc in group.exceptions))
        except* Exception:
            log.exception("live_failed", account=account_id)
        await asyncio.sleep(AGAIN_SECONDS)

    async def _take_all(self, account_id: str, task: Task) -> None:
        """A channel has its lane, and its order in it; a save waits for the disk, while others go on."""
        lanes: list[asyncio.Queue[LiveUpdate]] = [asyncio.Queue(LANE_SIZE) for _ in range(LANES)]

        async def follow(lane: asyncio.Queue[LiveUpdate]) -> None:
            while True:
                await self._take_or_look(account_id, await lane.get())
                task.progress()

        async with asyncio.TaskGroup() as group:
            for lane in lanes:
                group.create_task(follow(lane))
            async for update in self._accounts.updates(account_id):
                await lanes[(_channel_of(update) or 0) % LANES].put(update)

    async def _take_or_look(self, account_id: str, update: LiveUpdate) -> None:
        """One update that cannot be saved is no reason to miss the others: its channel is read instead."""
        try:
            with self._freshness.trying("live updates", account_id):
                await self.take(update, account_id)
        except Exception as exc:
            LIVE_FAILURES.labels(account_id).inc()
            if is_outage(exc) or isinstance(update, Interrupted):
                raise
            log.exception("live_update_failed", account=account_id, channel_id=_channel_of(update))
            await self._look_again(_channel_of(update), None)

    async def take(self, update: LiveUpdate, account_id: str | None = None) -> None:
        """`account_id`: who listens; a gap concerns the channels that this one reads."""
        LIVE_UPDATES.labels(type(update).__name__).inc()
        match update:
            case NewPost(post):
                ids = Coverage.of_ids([post.message_id])
                await self._save(
                    Reading(
                        channel_id=post.channel_id,
                        posts=(post,),
                        proven=ids,
                        newest_id=post.message_id,
                        reached_end=False,
                        live=True,
                    )
                )
            case Deleted(channel_id, message_ids):
                gone = Coverage.of_ids(message_ids)
                await self._save(Reading(channel_id=channel_id, posts=(), proven=gone, reached_end=False, live=True))
            case Interrupted(channel_id):
                await self._look_again(channel_id, account_id if channel_id is None else None)

    async def _save(self, reading: Reading) -> None:
        try:
            saved = await self._saver.save(reading)
        except Skip:
            return  # a channel that the account has joined and no tenant watches, or that all have paused
        if saved.new:
            POSTS_PARSED_COUNT.labels(Mode.INCREMENTAL).inc(len(saved.new))
        if saved.albums_open:
            # Its further items come by themselves; one look when it must be whole is enough for all of them.
            now = self._clock()
            await self._channels.visit_by(now, now + ALBUM_AGAIN, reading.channel_id)

    async def _look_again(self, channel_id: int | None, account_id: str | None) -> None:
        """At once; but where gap follows gap, not more often than the budget has looks for the channel.

        That an account begins to listen is no gap yet: the first connection that is lost after it is looked at at once.
        """
        key, ticks, now = (account_id, channel_id), self._ticks(), self._clock()
        begins = account_id is not None and key not in self._gaps
        last = self._gaps.get(key, -inf)
        if last > ticks:
            return  # a look is planned already, and will show this gap too
        planned = max(ticks, last + self._gaps_apart)
        self._gaps[key] = -inf if begins else planned
        at = now + timedelta(seconds=planned - ticks)
        await self._channels.look_again(now, channel_id, account=account_id, at=at)
        self._due.set()


def _channel_of(update: LiveUpdate) -> int | None:
    return update.post.channel_id if isinstance(update, NewPost) else update.channel_id
