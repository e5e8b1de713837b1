"""Runs jobs when they are due: one process at a time, what was missed once, each run written down (SPEC 5, 7.5)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from apscheduler.schedulers.asyncio import AsyncIOScheduler  # type: ignore[import-untyped]  # it ships no types
from apscheduler.triggers.interval import IntervalTrigger  # type: ignore[import-untyped]  # as above

from telegram_assistant.bus.supervisor import Task
from telegram_assistant.domain.retries import Backoff
from telegram_assistant.errors import Fatal, in_words
from telegram_assistant.ingest.lock import Lock
from telegram_assistant.jobs import START, Plan, Work
from telegram_assistant.log import get_logger
from telegram_assistant.metrics import JOB_LAST_SUCCESS, JOB_RUNS, JOB_SECONDS
from telegram_assistant.stores.postgres.jobs import JobRuns, Outcome, Run

LOCK_TTL = 30.0  # seconds; longer than several rounds
PAUSE = 3.0  # seconds between two looks at what people ask for
ATTEMPTS = 5  # at one time that a job was due
AGAIN = Backoff(base=60.0, factor=4.0, cap=4 * 3600.0)
KEPT = timedelta(days=14)
PRUNED_EVERY = timedelta(hours=1)

log = get_logger(__name__)


class Jobs:
    """The jobs of a process. The process that holds the lock does the work; the others wait to take over."""

    def __init__(
        self,
        plans: Sequence[Plan],
        work: Mapping[str, Work],
        runs: JobRuns,
        lock: Lock,
        *,
        clock: Callable[[], datetime],
    ) -> None:
        unknown = set(work) - {plan.name for plan in plans}
        if unknown:
            raise Fatal(f"there is no time for these jobs in the table: {', '.join(sorted(unknown))}")
        self.plans = {plan.name: plan for plan in plans if plan.name in work}
        self._work = work
        self._runs = runs
        self._lock = lock
        self._clock = clock
        self._began = clock()
        self._scheduler: Any = None
        self._rung: set[str] = set()
        self._wake = asyncio.Event()
        self._running: dict[str, asyncio.Future[bool]] = {}
        self._pruned: datetime | None = None

    async def run(self, task: Task) -> None:
        """A supervised job. A scheduler that does not start is Fatal."""
        self._scheduler = self._start_scheduler()
        task.ready()
        held = False
        try:
            while True:
                before, held = held, await self._lock.hold()
                if held:
                    await self.round(taken=not before)
                else:
                    self._rung.clear()
                    await self._stop_running()
                task.progress()
                with suppress(TimeoutError):
                    async with asyncio.timeout(PAUSE):
                        await self._wake.wait()
                self._wake.clear()
        finally:
            self._scheduler.shutdown(wait=False)
            await self._stop_running()
            await self._lock.release()

    async def round(self, *, taken: bool = False) -> None:
        """Begin what is due. `taken`: the lock is ours only now, so all that was missed is due too."""
        now = self._clock()
        self._reap()
        if taken:
            await self._runs.take_over(now=now, but=list(self._running))
            self._rung |= set(self.plans)
        for name in sorted(self._rung - set(self._running)):
            self._rung.discard(name)
            await self._begin(self.plans[name], self.plans[name].slot(now))
        for name, asked_at in await self._runs.asked():
            if name in self.plans and name not in self._running:
                await self._begin(self.plans[name], asked_at)
        if self._pruned is None or now - self._pruned >= PRUNED_EVERY:
            self._pruned = now
            await self._runs.prune(now - KEPT)

    async def settle(self) -> None:
        """Wait until nothing runs any more; for those who drive the rounds themselves."""
        while self._running:
            await asyncio.wait(list(self._running.values()))
            self._reap()

    def ring(self, name: str) -> None:
        """It is time for this job."""
        self._rung.add(name)
        self._wake.set()

    async def report(self) -> dict[str, Any]:
        """The section of health: a job that fails or does not come is what counts, not that a process waits."""
        latest, done = await self._runs.latest(), await self._runs.last_done()
        now = self._clock()
        jobs = {
            name: {
                "status": standing(plan, latest.get(name), now=now, since=self._began),
                "every_seconds": plan.every.total_seconds(),
                "next": (plan.slot(now) + plan.every).isoformat(),
                "last_success": done[name].isoformat() if name in done else None,
                **_told(latest.get(name)),
            }
            for name, plan in self.plans.items()
        }
        bad = [
            f"{name} is {job['status']}: {job['error'] or 'no run'}"
            for name, job in jobs.items()
            if job["status"] != "ok"
        ]
        return {"status": "failing" if bad else "ok", "error": "; ".join(bad) or None, "jobs": jobs}

    def _start_scheduler(self) -> Any:
        """SPEC 7.5: inside the running loop, and a service whose scheduler does not run does not run either."""
        scheduler = AsyncIOScheduler(event_loop=asyncio.get_running_loop(), timezone=UTC)
        try:
            for plan in self.plans.values():
                trigger = IntervalTrigger(seconds=_whole(plan.every), start_date=START, timezone=UTC)
                scheduler.add_job(
                    self._ring, trigger, args=[plan.name], id=plan.name, coalesce=True, misfire_grace_time=None
                )
            scheduler.start()
        except Exception as exc:
            raise Fatal(f"The scheduler of periodic jobs cannot start: {exc}") from exc
        asleep = [job.id for job in scheduler.get_jobs() if getattr(job, "next_run_time", None) is None]
        if asleep or not scheduler.running:
            raise Fatal(f"The scheduler of periodic jobs does not run: {', '.join(asleep) or 'it did not start'}")
        return scheduler

    async def _ring(self, name: str) -> None:
        # A coroutine, because the scheduler runs plain functions in threads.
        self.ring(name)

    async def _begin(self, plan: Plan, slot: datetime) -> None:
        attempt = await self._runs.claim(plan.name, slot, now=self._clock(), runner=self._lock.owner, most=ATTEMPTS)
        if attempt is not None:
            doing = self._running[plan.name] = asyncio.ensure_future(self._do(plan, slot, attempt))
            doing.add_done_callback(lambda _: self._wake.set())

    async def _do(self, plan: Plan, slot: datetime, attempt: int) -> bool:
        """Whether it went well. When we are stopped the row stays, and the next process takes it over."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(plan.limit.total_seconds()):
                note = await self._work[plan.name](slot)
        except Exception as exc:
            log.exception("job_failed", job=plan.name, due=slot.isoformat(), attempt=attempt)
            await self._end(plan, slot, error=_shown(exc, plan))
            self._ring_later(plan.name, attempt)
            return False
        finally:
            JOB_SECONDS.labels(plan.name).observe(loop.time() - began)
        await self._end(plan, slot, note=note or "")
        JOB_LAST_SUCCESS.labels(plan.name).set(self._clock().timestamp())
        return True

    async def _end(self, plan: Plan, slot: datetime, *, note: str = "", error: str | None = None) -> None:
        JOB_RUNS.labels(plan.name, Outcome.DONE if error is None else Outcome.FAILED).inc()
        runner = self._lock.owner
        await self._runs.end(plan.name, slot, now=self._clock(), runner=runner, note=note, error=error)

    def _ring_later(self, name: str, attempt: int) -> None:
        if attempt < ATTEMPTS:
            asyncio.get_running_loop().call_later(AGAIN.delay(attempt), partial(self.ring, name))

    def _reap(self) -> None:
        """A job that ended well may be due again meanwhile. Errors of writing down end this round."""
        for name, doing in list(self._running.items()):
            if doing.done():
                del self._running[name]
                if doing.result():
                    self._rung.add(name)

    async def _stop_running(self) -> None:
        running = list(self._running.values())
        self._running.clear()
        for doing in running:
            doing.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def standing(plan: Plan, last: Run | None, *, now: datetime, since: datetime) -> str:
    """ok, failing, or late; `since`: when this process began to watch."""
    if last is not None and last.outcome is Outcome.FAILED:
        return "failing"
    expected = plan.slot(now - plan.patience)
    if (last is None or last.scheduled_for < expected) and now - since > plan.patience:
        return "late"
    return "ok"


def _told(run: Run | None) -> dict[str, Any]:
    if run is None:
        return {"scheduled_for": None, "outcome": None, "runner": None, "note": "", "error": ""}
    return {
        "scheduled_for": run.scheduled_for.isoformat(),
        "outcome": run.outcome,
        "runner": run.runner,
        "note": run.note,
        "error": run.error,
    }


def _whole(every: timedelta) -> int:
    """APScheduler takes nothing for a second; we take it for a mistake."""
    seconds = int(every.total_seconds())
    if seconds < 1:
        raise ValueError(f"a job every {every} is none")
    return seconds


def _shown(exc: Exception, plan: Plan) -> str:
    if isinstance(exc, TimeoutError) and not str(exc):
        return f"it took longer than {plan.limit}"
    return in_words(exc)
