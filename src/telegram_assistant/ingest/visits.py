"""Visits: take a channel by lease, choose the mode, read it with retries, and store how it went (SPEC 1.2-1.8)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from time import monotonic
from typing import Any

from structlog.contextvars import bound_contextvars

from telegram_assistant.bus.supervisor import Task
from telegram_assistant.domain.health_status import promised_at
from telegram_assistant.domain.retries import Failure, next_delay
from telegram_assistant.domain.source import ReadElsewhere, SourceError, unforeseen
from telegram_assistant.domain.visits import ForcedReason, Mode, ModeOverride, choose_mode
from telegram_assistant.errors import AssistantError, Retry, Skip, in_words
from telegram_assistant.ingest.origins import Readers
from telegram_assistant.ingest.parser import ChannelParser, Parsed
from telegram_assistant.ingest.polling import Polling
from telegram_assistant.log import get_logger
from telegram_assistant.metrics import DURATION, MODE_FORCED, RETRIES, RUNS, WATERMARK_AGE
from telegram_assistant.stores.outage import is_outage
from telegram_assistant.stores.postgres.channels import Channel, Channels
from telegram_assistant.stores.postgres.rhythms import Planned

RENEWALS = 5  # of a lease while it lasts
WAIT_IN_PLACE = 30.0  # a longer flood gives the channel back instead of holding a place
LONGEST_POSTPONEMENT = 60.0  # seconds
IDLE_SECONDS = 1.0
DEAD_AFTER = 8  # failed visits in a row
HOPELESS = frozenset({Failure.CHANNEL_PRIVATE, Failure.GONE})
HOPELESS_AFTER = 3  # the same, when Telegram says there is nothing to read
NOT_THE_CHANNELS_FAULT = frozenset({Failure.TRANSIENT, Failure.ACCOUNT})  # it never dies of these
RETRY_DEAD = timedelta(hours=6)
LONGEST_RETRY = 16  # times the first
LATELY, LATELY_SECONDS = 500, 120.0
ALBUM_AGAIN = timedelta(seconds=15)

log = get_logger(__name__)


class LeaseLost(AssistantError):
    """Another process took the channel over: stop reading it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitRules:
    """The settings of SPEC 1 that a visit obeys."""

    override: ModeOverride = ModeOverride.AUTO
    incremental_enabled: bool = True
    max_age_hours: float = 48
    retry_max: int = 3
    concurrency: int = 4
    lease: timedelta = timedelta(minutes=5)
    retry_failed: timedelta = timedelta(seconds=60)
    interval: timedelta = timedelta(seconds=300)  # between ticks


class Visitor:
    """One per ingest process: up to `concurrency` channels at once, none of which can hurt another (SPEC 1.5, 1.7)."""

    def __init__(
        self,
        channels: Channels,
        parser: ChannelParser,
        readers: Readers,
        *,
        owner: str,
        rules: VisitRules,
        clock: Callable[[], datetime],
        polling: Polling | None = None,
        rng: Random | None = None,
    ) -> None:
        self._channels = channels
        self._parser = parser
        self._readers = readers
        self._owner = owner
        self._rules = rules
        self._clock = clock
        self._polling = polling  # None: the next tick visits again
        self._rng = rng or Random()  # noqa: S311 - jitter, no secret
        self._progress: Callable[[], None] = lambda: None
        self.wake = asyncio.Event()
        self.lately: deque[tuple[float, bool]] = deque(maxlen=LATELY)  # when visits ended, and whether well

    async def run(self, task: Task) -> None:
        """A supervised job: visit what is due. Stopping hands back what is in flight (SPEC 1.8)."""
        await self._channels.hand_back_all(self._owner)
        task.ready()
        self._progress = task.progress
        visits: set[asyncio.Future[Any]] = set()
        try:
            while True:
                free = self._rules.concurrency - len(visits)
                visits |= {asyncio.ensure_future(self.visit(channel)) for channel in await self._take(free)}
                if free:  # with every place taken only what visits read is progress
                    task.progress()
                visits = await self._some_done(visits)
        finally:
            for visit in visits:
                visit.cancel()
            await asyncio.gather(*visits, return_exceptions=True)

    async def _take(self, free: int) -> list[Channel]:
        if not free:
            return []
        reach = await self._readers.reach()
        return await self._channels.lease(
            self._owner, limit=free, now=self._clock(), ttl=self._rules.lease, reach=reach
        )

    async def _some_done(self, visits: set[asyncio.Future[Any]]) -> set[asyncio.Future[Any]]:
        """Wait until a place is free, something is due, or a moment has passed; what still runs."""
        woken: asyncio.Future[Any] = asyncio.ensure_future(self.wake.wait())
        try:
            await asyncio.wait({*visits, woken}, timeout=IDLE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        finally:
            woken.cancel()
        self.wake.clear()
        for visit in visits:
            if visit.done():
                visit.result()  # a visit keeps its failures to itself; what is raised here is our own trouble
        return {visit for visit in visits if not visit.done()}

    async def visit(self, channel: Channel) -> Parsed | None:
        """Read one leased channel and store the outcome; None when it failed."""
        decision = choose_mode(
            channel.last_parsed_at,
            self._clock(),
            override=self._rules.override,
            incremental_enabled=self._rules.incremental_enabled,
            max_age_hours=self._rules.max_age_hours,
            last_success_at=channel.last_success_at,
        )
        with bound_contextvars(channel=channel.shown, mode=decision.mode.value):
            if decision.forced_reason not in {None, ForcedReason.NEVER_PARSED}:
                MODE_FORCED.labels(decision.forced_reason).inc()
                log.info("mode_forced", reason=decision.forced_reason.value)
            began, ticks = self._clock(), monotonic()
            try:
                parsed = await self._with_retries(channel, decision.mode)
            except asyncio.CancelledError:
                await self._channels.hand_back(channel.id, self._owner, next_visit_at=self._clock())
                raise
            except LeaseLost:
                log.warning("lease_lost")
                RUNS.labels(decision.mode, "lease_lost").inc()
                return None
            except ReadElsewhere as exc:
                log.info("left_to_another_process", reason=str(exc))
                await self._channels.hand_back(channel.id, self._owner, next_visit_at=channel.next_visit_at)
                return None
            except SourceError as exc:
                await self._failed(channel, decision.mode, exc)
                return None
            except Skip as exc:
                log.info("channel_gone", reason=str(exc))
                await self._channels.hand_back(channel.id, self._owner, next_visit_at=None)
                return None
            except Exception as exc:
                if is_outage(exc):
                    raise  # nothing can be visited: the task fails visibly, and is restarted
                log.exception("visit_failed")
                self.lately.append((monotonic(), False))
                await self._store_failure(channel, decision.mode, in_words(exc), None)
                return None
            finally:
                DURATION.observe(monotonic() - ticks)
            await self._succeeded(channel, decision.mode, parsed, began)
            return parsed

    async def _with_retries(self, channel: Channel, mode: Mode) -> Parsed:
        attempt = 0
        keep_lease = self._lease_keeper(channel)
        while True:
            attempt += 1
            await keep_lease()
            try:
                return await self._attempt(channel, mode, keep_lease)
            except ReadElsewhere:
                raise
            except SourceError as exc:
                delay = next_delay(
                    attempt, exc.failure, exc.flood_seconds, self._rng, max_retries=self._rules.retry_max
                )
                if delay is None or delay > WAIT_IN_PLACE:
                    raise
                RETRIES.labels(exc.failure).inc()
                log.warning("visit_retried", attempt=attempt, delay=round(delay, 1), reason=str(exc))
            except Retry as exc:
                delay = next_delay(attempt, Failure.TRANSIENT, None, self._rng, max_retries=self._rules.retry_max)
                if delay is None:
                    raise
                RETRIES.labels(Failure.TRANSIENT).inc()
                log.warning("visit_retried", attempt=attempt, delay=round(delay, 1), reason=str(exc))
            await asyncio.sleep(delay)

    def _lease_keeper(self, channel: Channel) -> Callable[[], Awaitable[None]]:
        """To be called before each request: renews the lease now and then, or says that it was lost."""
        ttl = self._rules.lease
        renewed = monotonic()

        async def keep() -> None:
            nonlocal renewed
            self._progress()
            if monotonic() - renewed > ttl.total_seconds() / RENEWALS:
                if not await self._channels.renew(channel.id, self._owner, now=self._clock(), ttl=ttl):
                    raise LeaseLost(channel.shown)
                renewed = monotonic()

        return keep

    async def _attempt(self, channel: Channel, mode: Mode, keep_lease: Callable[[], Awaitable[None]]) -> Parsed:
        # What an earlier attempt saved has moved the cursor.
        fresh = await self._channels.get(channel.id)
        if fresh is None or fresh.status in {"removed", "paused"}:
            raise Skip(f"channel {channel.id} was removed or paused")
        source = await self._readers.reader(fresh)
        return await self._parser.parse(fresh, source, mode, before_page=keep_lease)

    async def _succeeded(self, channel: Channel, mode: Mode, parsed: Parsed, began: datetime) -> None:
        now = self._clock()
        planned = await self._plan(channel, now, parsed.pages)
        again = None if planned is None else planned.at
        if parsed.albums_open:
            # An album at the newest end may be growing: look again soon, not at the next tick.
            again = min(again or now + ALBUM_AGAIN, now + ALBUM_AGAIN)
        await self._channels.succeed(
            channel.id,
            self._owner,
            now=now,
            began=began,
            parsed=parsed.new > 0,
            refreshed=parsed.refreshed,
            next_visit_at=again,
            planned=planned,
            promised_at=promised_at(now, None if planned is None else planned.at, self._rules.interval),
        )
        self.lately.append((monotonic(), True))
        WATERMARK_AGE.labels(channel.id).set(0)
        RUNS.labels(mode, "ok" if parsed.new else "empty").inc()
        log.info("visited", new=parsed.new, edited=parsed.edited, deleted=parsed.deleted, pages=parsed.pages)

    async def _plan(self, channel: Channel, now: datetime, requests: int) -> Planned | None:
        """When to visit again. What a row holds that cannot be understood leaves its own channel to the next tick."""
        try:
            return None if self._polling is None else await self._polling.plan(channel.id, now, requests=requests)
        except Exception as exc:
            if is_outage(exc):
                raise
            log.exception("not_planned")
            return None

    def visits_lately(self) -> tuple[int, int]:
        """How many visits ended in the last minutes, and how many of those not well."""
        since = monotonic() - LATELY_SECONDS
        ended = [well for at, well in self.lately if at > since]
        return len(ended), ended.count(False)

    async def _failed(self, channel: Channel, mode: Mode, exc: SourceError) -> None:
        self.lately.append((monotonic(), False))
        if exc.failure is Failure.FLOOD:
            # The account waits, not the channel: no failure of the channel, only a later visit. Not much later: by
            # then another account, or another process, may be able to read it, and a look costs nothing.
            seconds = min(exc.flood_seconds or 0.0, LONGEST_POSTPONEMENT)
            until = self._clock() + timedelta(seconds=seconds + self._rng.uniform(0, 3))
            await self._channels.hand_back(channel.id, self._owner, next_visit_at=until)
            RUNS.labels(mode, "flood").inc()
            log.warning("visit_postponed", until=until.isoformat(), reason=str(exc))
            return
        log.warning("visit_failed", failure=exc.failure.value, reason=str(exc), exc_info=unforeseen(exc))
        await self._store_failure(channel, mode, str(exc), exc.failure)

    async def _store_failure(self, channel: Channel, mode: Mode, error: str, failure: Failure | None) -> None:
        """None: a mistake of ours that this channel brought to light."""
        failures = channel.failures + 1
        enough = failures >= (HOPELESS_AFTER if failure in HOPELESS else DEAD_AFTER)
        dead = channel.status == "dead" or (enough and failure not in NOT_THE_CHANNELS_FAULT)
        now = self._clock()
        delay = RETRY_DEAD if dead else self._rules.retry_failed * min(2 ** (failures - 1), LONGEST_RETRY)
        await self._channels.fail(channel.id, self._owner, now=now, error=error, dead=dead, next_visit_at=now + delay)
        if self._polling is not None:
            await self._polling.count_look()
        RUNS.labels(mode, "failed").inc()
        if dead and channel.status != "dead":
            log.error("channel_dead", reason=error, failures=failures)
