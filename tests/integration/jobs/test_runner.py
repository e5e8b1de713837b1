"""Jobs run when they are due: by one process at a time, once each time, and what was missed once (SPEC 5, 7.5)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from redis.asyncio import Redis
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.bus.supervisor import Supervisor
from telegram_assistant.errors import Fatal
from telegram_assistant.ingest.lock import Lock
from telegram_assistant.jobs import Plan, Work, plans
from telegram_assistant.jobs.runner import ATTEMPTS, Jobs
from telegram_assistant.names import JOBS_LOCK
from telegram_assistant.stores.postgres.jobs import ENDED, JobRuns, Outcome

pytestmark = pytest.mark.integration

DAILY = Plan("trends", timedelta(days=1))
NOW = datetime(2026, 11, 15, 9, 30, tzinfo=UTC)


class Bench:
    """Jobs over real engines, with a clock that the test sets."""

    def __init__(self, database: AsyncEngine, redis: Redis) -> None:
        self.database, self.redis, self.now = database, redis, NOW
        self.runs = JobRuns(database)
        self.done: list[datetime] = []

    async def work(self, moment: datetime) -> str:
        self.done.append(moment)
        return "well"

    def jobs(self, owner: str = "one", *, plan: Plan = DAILY, work: Work | None = None, ttl: float = 30) -> Jobs:
        loop = asyncio.get_running_loop()
        lock = Lock(self.redis, JOBS_LOCK, owner, ttl=ttl, monotonic=loop.time)
        return Jobs([plan], {plan.name: work or self.work}, self.runs, lock, clock=lambda: self.now)

    async def round(self, jobs: Jobs, *, taken: bool = True) -> None:
        await jobs.round(taken=taken)
        await jobs.settle()


@pytest.fixture
def bench(database: AsyncEngine, redis: Redis) -> Bench:
    return Bench(database, redis)


def test_the_table_has_what_the_contract_says() -> None:
    """SPEC 5."""
    table = {plan.name: plan.every for plan in plans(interests_minutes=15)}
    assert table["digests"] <= timedelta(minutes=15)
    assert table["trends"] == timedelta(days=1)
    assert table["interests"] == timedelta(minutes=15)
    assert table["storage_usage"] == timedelta(hours=6)
    assert DAILY.slot(NOW) == datetime(2026, 11, 15, tzinfo=UTC)
    assert Plan("x", timedelta(hours=6)).slot(NOW) == datetime(2026, 11, 15, 6, tzinfo=UTC)


async def test_what_was_missed_is_done_once(bench: Bench) -> None:
    await bench.round(bench.jobs("one"))
    assert bench.done == [DAILY.slot(NOW)]
    await bench.round(bench.jobs("two"))
    assert len(bench.done) == 1, "another process, or the same after a restart"
    bench.now += timedelta(days=5)
    await bench.round(bench.jobs("three"))
    assert bench.done[1:] == [DAILY.slot(bench.now)], "five days missed, one run"
    run = (await bench.runs.latest())["trends"]
    assert (run.outcome, run.note, run.attempts, run.runner) == (Outcome.DONE, "well", 1, "three")


async def test_two_at_the_same_moment_are_one(bench: Bench) -> None:
    many = [bench.jobs(f"process {number}") for number in range(6)]
    await asyncio.gather(*(bench.round(jobs, taken=False) for jobs in many))
    for jobs in many:
        jobs.ring("trends")
    await asyncio.gather(*(bench.round(jobs, taken=False) for jobs in many))
    assert len(bench.done) == 1


async def test_a_failure_is_written_down_and_tried_again(bench: Bench) -> None:
    async def fail(_: datetime) -> str:
        raise RuntimeError("the disk is full")

    jobs = bench.jobs(work=fail)
    for _ in range(ATTEMPTS + 3):
        jobs.ring("trends")
        await bench.round(jobs, taken=False)
    run = (await bench.runs.latest())["trends"]
    assert (run.outcome, run.attempts, run.error) == (Outcome.FAILED, ATTEMPTS, "RuntimeError: the disk is full")
    report = await jobs.report()
    assert report["status"] == "failing"
    assert "trends is failing: RuntimeError: the disk is full" in report["error"]
    bench.now += timedelta(days=1)
    await bench.round(bench.jobs())
    assert (await bench.jobs().report())["status"] == "ok", "the next time counts anew"


async def test_a_run_that_takes_too_long_has_failed(bench: Bench) -> None:
    async def hang(_: datetime) -> str:
        await asyncio.Event().wait()
        return ""

    await bench.round(bench.jobs(plan=Plan("trends", timedelta(days=1), limit=timedelta(milliseconds=20)), work=hang))
    assert "longer than" in (await bench.runs.latest())["trends"].error


async def test_a_dead_runner_is_taken_over(bench: Bench) -> None:
    slot = DAILY.slot(NOW)
    assert await bench.runs.claim("trends", slot, now=NOW, runner="died", most=ATTEMPTS) == 1
    jobs = bench.jobs()
    jobs.ring("trends")
    await bench.round(jobs, taken=False)
    assert bench.done == [], "somebody runs it, as far as anybody knows"
    await bench.round(jobs, taken=True)
    assert bench.done == [slot], "but who holds the lock knows better"
    run = (await bench.runs.latest())["trends"]
    assert (run.attempts, run.runner, run.error) == (2, "one", "")
    await bench.runs.claim("trends", slot + DAILY.every, now=NOW, runner="died", most=ATTEMPTS)
    await bench.runs.take_over(now=NOW, but=[])
    assert (await bench.runs.latest())["trends"].error == ENDED


async def test_a_job_that_does_not_come_is_late(bench: Bench) -> None:
    jobs = bench.jobs()
    assert (await jobs.report())["status"] == "ok", "it has only begun"
    bench.now += timedelta(hours=1)
    assert (await jobs.report())["jobs"]["trends"]["status"] == "late"
    await bench.round(jobs)
    assert (await jobs.report())["status"] == "ok"
    bench.now += timedelta(days=1)
    assert (await jobs.report())["error"] == "trends is late: no run"


async def test_what_a_person_asks_for_is_done(bench: Bench) -> None:
    jobs = bench.jobs()
    await bench.round(jobs)
    asked_at = bench.now + timedelta(seconds=1)
    await bench.runs.ask("trends", asked_at)
    await bench.runs.ask("cooking", asked_at)  # nobody can
    await bench.round(jobs, taken=False)
    assert bench.done == [DAILY.slot(NOW), asked_at]
    run = await bench.runs.get("trends", asked_at)
    assert run is not None
    assert run.outcome is Outcome.DONE


async def test_it_runs_as_a_task_and_hands_over(bench: Bench, redis: Redis) -> None:
    """The scheduler of the library rings, in the loop that runs; the lock goes from one to the other."""
    rang = asyncio.Event()

    async def work(moment: datetime) -> str:
        bench.done.append(moment)
        rang.set()
        return ""

    every_second = Plan("digests", timedelta(seconds=1))
    supervisor = Supervisor()
    first = bench.jobs("first", plan=every_second, work=work)
    await supervisor.start("jobs", first.run)
    await rang.wait()
    assert await redis.get(JOBS_LOCK) == "first"
    for _ in range(2):  # the clock of the test, the bell of the library
        rang.clear()
        bench.now += timedelta(seconds=1)
        await rang.wait()
    second = bench.jobs("second", plan=every_second, work=work)
    await supervisor.start("other jobs", second.run)
    await supervisor.stop(["jobs"])
    rang.clear()
    bench.now += timedelta(seconds=1)
    await rang.wait()
    assert await redis.get(JOBS_LOCK) == "second"
    await supervisor.stop(["other jobs"])
    assert await redis.get(JOBS_LOCK) is None
    assert len(bench.done) == len(set(bench.done)) == 4


@pytest.mark.parametrize("every", [timedelta(0), timedelta(seconds=-5)])
async def test_a_scheduler_that_cannot_start_stops_the_service(bench: Bench, every: timedelta) -> None:
    """SPEC 7.5."""
    jobs = bench.jobs(plan=Plan("digests", every))
    with pytest.raises(Fatal, match="The scheduler of periodic jobs cannot start"):
        await Supervisor().start("jobs", jobs.run)


async def test_work_without_a_time_stops_the_service(bench: Bench) -> None:
    with pytest.raises(Fatal, match="no time for these jobs in the table: cooking"):
        Jobs([DAILY], {"cooking": bench.work}, bench.runs, lock_of(bench), clock=lambda: NOW)


def lock_of(bench: Bench) -> Any:
    return Lock(bench.redis, JOBS_LOCK, "x", ttl=30, monotonic=asyncio.get_running_loop().time)
