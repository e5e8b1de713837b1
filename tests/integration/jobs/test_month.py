"""A month of digests with a fast clock: every kind of schedule, many zones, clocks that change, stops, two replicas."""

from __future__ import annotations

import asyncio
from calendar import monthrange
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from functools import cache
from itertools import pairwise
from random import Random
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from redis.asyncio import Redis
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.digests import MOST_DIGESTS, Content, Frequency, Schedule, Wish, moment_of, next_after
from telegram_assistant.ingest.lock import Lock
from telegram_assistant.jobs import DIGESTS, Plan
from telegram_assistant.jobs.digests import DigestJob
from telegram_assistant.jobs.runner import KEPT, LOCK_TTL, Jobs
from telegram_assistant.names import JOBS_LOCK
from telegram_assistant.stores.postgres.digests import DigestIssues, Digests
from telegram_assistant.stores.postgres.jobs import JobRuns

pytestmark = pytest.mark.integration

Town = Any  # of conftest.py, which cannot be imported
MINUTE = timedelta(minutes=1)
BEGIN, END = datetime(2026, 10, 10, tzinfo=UTC), datetime(2026, 11, 10, tzinfo=UTC)
# Berlin and New York go back on 25 October and 1 November, Lord Howe went forward on 4 October, Moscow does nothing.
ZONES = ("UTC", "Europe/Moscow", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe")
SPRING = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 5, tzinfo=UTC)  # they go forward


class FastClock:
    """Shows what the test says, and can be asked like any other."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def monotonic(self) -> float:
        return self.now.timestamp()


class EmptyDesk:
    """What is in an issue does not matter here; when it is built does."""

    async def build(self, *_: Any, **__: Any) -> Content:
        return Content()


def schedules() -> Iterator[Schedule]:
    rng = Random(7)
    for zone in ZONES:
        for frequency in Frequency:
            for minute in (150, rng.randrange(1440)):  # 02:30: what days lack or have twice
                yield Schedule(
                    frequency=frequency,
                    weekday=6 if minute == 150 else rng.randrange(7),
                    day=rng.choice((1, 15, 31)),
                    minute=minute,
                    zone=zone,
                )


@cache
def shown_in(name: str, begin: datetime, end: datetime) -> dict[date, list[tuple[int, datetime]]]:
    """By the zone's own clock: for each of its days, what it shows minute by minute, and when."""
    zone, found = ZoneInfo(name), defaultdict(list)
    moment = begin - timedelta(days=2)
    while moment <= end + timedelta(days=1):
        local = moment.astimezone(zone)
        found[local.date()].append((local.hour * 60 + local.minute, moment))
        moment += MINUTE
    return found


def expected(schedule: Schedule, begin: datetime, end: datetime) -> list[datetime]:
    """Worked out in another way than the code does it: by looking at every minute."""
    found = []
    for day, shown in shown_in(schedule.zone, begin, end).items():
        fits = {
            Frequency.DAILY: True,
            Frequency.WEEKLY: day.weekday() == schedule.weekday,
            Frequency.MONTHLY: day.day == min(schedule.day, monthrange(day.year, day.month)[1]),
        }[schedule.frequency]
        due = next((moment for minute, moment in shown if minute >= schedule.minute), None)
        if fits and due is not None and begin < due <= end:
            found.append(due)
    return found


class World:
    """Two replicas over one database and one Redis, driven minute by minute."""

    def __init__(self, database: AsyncEngine, redis: Redis, clock: FastClock) -> None:
        self.clock = clock
        self._database, self._redis = database, redis
        self.replicas = [self.replica("one"), self.replica("two")]

    def replica(self, name: str) -> Jobs:
        job = DigestJob(
            Digests(self._database),
            DigestIssues(self._database),
            EmptyDesk(),  # type: ignore[arg-type]  # by shape
            [],
            clock=self.clock,
            page=lambda _: None,
        )
        lock = Lock(self._redis, JOBS_LOCK, name, ttl=LOCK_TTL, monotonic=self.clock.monotonic)
        plan = Plan(DIGESTS, MINUTE)
        return Jobs([plan], {DIGESTS: job}, JobRuns(self._database), lock, clock=self.clock)

    async def minute(self, *, both: bool) -> None:
        """`both`: without the lock, as if it had been lost in the middle. The table must hold by itself."""
        chosen = self.replicas if both else self.replicas[:1]
        for jobs in chosen:
            jobs.ring(DIGESTS)
        await asyncio.gather(*(jobs.round() for jobs in chosen))
        await asyncio.gather(*(jobs.settle() for jobs in chosen))


async def fired(town: Town) -> dict[UUID, list[tuple[datetime, datetime]]]:
    rows = await town.archive.rows(
        "SELECT digest_id, scheduled_for, built_at FROM digest_issues WHERE state = 'built' ORDER BY scheduled_for"
    )
    found: dict[UUID, list[tuple[datetime, datetime]]] = {}
    for row in rows:
        found.setdefault(row.digest_id, []).append((row.scheduled_for, row.built_at))
    return found


async def ask_for(town: Town, wanted: list[Schedule], begin: datetime) -> dict[UUID, Schedule]:
    store = Digests(town.archive.database)
    people = [await town.person(town.admin.tenant_id, town.member.role) for _ in range(0, len(wanted), MOST_DIGESTS)]
    made = {}
    for number, schedule in enumerate(wanted):
        person = people[number // MOST_DIGESTS]
        wish = Wish(name=f"Digest {number}", schedule=schedule)
        made[await store.add(person.tenant_id, person.user_id, wish, next_at=next_after(schedule, begin))] = schedule
    return made


def interesting(wanted: list[Schedule], begin: datetime, end: datetime) -> list[datetime]:
    """Minutes at which something should happen, those around them, and others at random: a month has 44,640."""
    times = {moment for one in wanted for moment in expected(one, begin, end)}
    around = times | {moment - MINUTE for moment in sorted(times)[::3]}
    rng = Random(3)
    span = int((end - begin) / MINUTE)
    others = {begin + rng.randrange(span) * MINUTE for _ in range(100)}
    return sorted(moment for moment in around | others if begin <= moment <= end)


@pytest.mark.parametrize("begin, end", [(BEGIN, END), SPRING], ids=["autumn", "spring"])
async def test_each_fires_exactly_at_its_times_and_once(
    town: Town, database: AsyncEngine, redis: Redis, begin: datetime, end: datetime
) -> None:
    wanted = list(schedules())
    asked = await ask_for(town, wanted, begin)
    clock = FastClock(begin)
    world = World(database, redis, clock)
    minutes = interesting(wanted, begin, end)
    for number, moment in enumerate(minutes):
        clock.now = moment
        await world.minute(both=number % 4 == 0)
    found = await fired(town)
    right = {digest_id: expected(schedule, begin, end) for digest_id, schedule in asked.items()}
    total = Counter(asked[one].frequency for one, times in found.items() for _ in times)
    print(f"{len(asked)} digests, {len(minutes)} minutes looked at, fired: {dict(total)}")  # noqa: T201 - the figures
    for digest_id, times in right.items():
        assert [slot for slot, _ in found.get(digest_id, [])] == times, asked[digest_id]
        assert all(slot <= built < slot + MINUTE for slot, built in found.get(digest_id, [])), "at its very minute"
    assert sum(map(len, right.values())) == sum(total.values()) > 400
    kept = end - KEPT + timedelta(days=1)  # older runs are forgotten
    statement = "SELECT max(attempts) AS most, count(*) AS n FROM job_runs WHERE scheduled_for >= :kept"
    ((most, runs),) = await town.archive.rows(statement, kept=kept)
    assert (most, runs) == (1, sum(moment >= kept for moment in minutes)), "each minute was somebody's, never twice"


async def test_what_was_missed_comes_once(town: Town, database: AsyncEngine, redis: Redis) -> None:
    wanted = list(schedules())
    asked = await ask_for(town, wanted, BEGIN)
    clock = FastClock(BEGIN)
    world = World(database, redis, clock)
    down = BEGIN + timedelta(days=3), BEGIN + timedelta(days=17, hours=5, minutes=13)
    for moment in interesting(wanted, BEGIN, END):
        if down[0] <= moment < down[1]:
            continue
        clock.now = moment
        await world.minute(both=False)
    found = await fired(town)
    missed = caught_up = 0
    for digest_id, schedule in asked.items():
        times = expected(schedule, BEGIN, END)
        lost = [moment for moment in times if down[0] <= moment < down[1]]
        caught = lost[-1:]
        slots = [slot for slot, _ in found.get(digest_id, [])]
        assert slots == [moment for moment in times if moment not in lost[:-1]], schedule
        missed, caught_up = missed + len(lost), caught_up + len(caught)
    rows = await town.archive.rows("SELECT digest_id, since, until FROM digest_issues ORDER BY digest_id, until")
    for one, other in pairwise(rows):
        if one.digest_id == other.digest_id:
            assert one.until == other.since, "no hour between two issues is left out"
    print(f"{len(asked)} digests, down for 14 days: {missed} times missed, {caught_up} issues caught up")  # noqa: T201 - figures


def test_the_reckoning_of_this_test_knows_clock_changes() -> None:
    schedule = Schedule(minute=150, zone="Europe/Berlin")
    spring = expected(schedule, datetime(2026, 3, 28, tzinfo=UTC), datetime(2026, 3, 30, tzinfo=UTC))
    assert spring[-1] == datetime(2026, 3, 29, 1, tzinfo=UTC)
    assert spring[-1] == moment_of(date(2026, 3, 29), 150, ZoneInfo("Europe/Berlin"))
