"""An account's budget on a clock that the test owns: turns, priorities and floods."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.accounts import Priority
from telegram_assistant.domain.retries import Failure
from telegram_assistant.domain.source import SourceError
from telegram_assistant.ingest.account_in_use import PATIENCE, SHORT_FLOOD, Budget, working_at
from telegram_assistant.stores.postgres.accounts import Account, TelegramAccounts
from telegram_assistant.stores.postgres.database import open_database
from telegram_assistant.stores.sealed import Sealer

pytestmark = pytest.mark.unit

START = datetime(2026, 1, 5, tzinfo=UTC)
HISTORY = "messages.getHistory"
BURST = 20  # of getHistory; then one a second


class Time:
    """Passes only while everybody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = count()

    def ticks(self) -> float:
        return self.now

    def clock(self) -> datetime:
        return START + timedelta(seconds=self.now)

    async def sleep(self, seconds: float) -> None:
        waker: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.now + seconds, next(self._order), waker))
        await waker

    async def all_done(self, *work: Any) -> list[Any]:
        """Let time pass until all of it is done; what each came to."""
        tasks = [asyncio.ensure_future(one) for one in work]
        while not all(task.done() for task in tasks):
            for _ in range(5):
                await asyncio.sleep(0)
            if self._sleepers:
                self.now, _, waker = heapq.heappop(self._sleepers)
                if not waker.done():
                    waker.set_result(None)
        return await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
async def nowhere() -> AsyncIterator[AsyncEngine]:
    """A database that cannot be reached."""
    engine = open_database("postgresql://nobody@127.0.0.1:1/none?connect_timeout=1")
    yield engine
    await engine.dispose()


@pytest.fixture
def budget(time: Time, nowhere: AsyncEngine) -> Budget:
    return make_budget(time, nowhere)


def make_budget(time: Time, database: AsyncEngine, *, paced: bool = True, **fields: Any) -> Budget:
    values: dict[str, Any] = {
        "id": str(uuid4()),
        "tenant_id": uuid4(),
        "telegram_user_id": 1,
        "name": "Ann",
        "session": b"",
        "session_digest": None,
        "proxy": None,
        "status": "active",
        "last_error": None,
        "floods": {},
        "created_at": START - timedelta(days=365),
        **fields,
    }
    store = TelegramAccounts(database, Sealer("key"))
    return Budget(Account(**values), store, clock=time.clock, paced=paced, ticks=time.ticks, sleep=time.sleep)


async def ask(budget: Budget, time: Time, method: str = HISTORY, priority: Priority = Priority.VISIT) -> float:
    with working_at(priority):
        await budget(method)
    return time.now


async def test_requests_wait_their_turn(budget: Budget, time: Time) -> None:
    made = await time.all_done(*(ask(budget, time) for _ in range(BURST + 5)))
    assert made == [1000.0] * BURST + [1001.0, 1002.0, 1003.0, 1004.0, 1005.0]
    assert budget.snapshot()["requests"] == {HISTORY: BURST + 5}


async def test_methods_do_not_wait_for_each_other(budget: Budget, time: Time) -> None:
    await time.all_done(*(ask(budget, time) for _ in range(BURST)))
    assert await time.all_done(ask(budget, time, "upload.getFile")) == [1000.0]
    assert budget.expected_wait(HISTORY) == 1.0
    assert budget.expected_wait("upload.getFile") == 0.0


async def test_the_urgent_go_first_among_those_who_wait(budget: Budget, time: Time) -> None:
    await time.all_done(*(ask(budget, time) for _ in range(BURST)))
    kinds = [Priority.BACKFILL, Priority.REFRESH, Priority.VISIT, Priority.LIVE]
    made = await time.all_done(*(ask(budget, time, priority=kind) for kind in kinds))
    assert made == [1004.0, 1003.0, 1002.0, 1001.0]


async def test_a_waiter_that_gives_up_is_not_waited_for(budget: Budget, time: Time) -> None:
    await time.all_done(*(ask(budget, time) for _ in range(BURST)))
    first, second = (asyncio.ensure_future(ask(budget, time)) for _ in range(2))
    await asyncio.sleep(0)
    assert budget.snapshot()["waiting"] == {HISTORY: 2}
    first.cancel()
    assert (await time.all_done(second))[0] <= 1002.0
    assert first.cancelled()
    assert budget.snapshot()["waiting"] == {}


async def test_a_turn_that_is_far_off_is_refused_with_its_time(budget: Budget, time: Time) -> None:
    made = await time.all_done(*(ask(budget, time) for _ in range(BURST + int(PATIENCE) + 2)))
    refused = [one for one in made if isinstance(one, SourceError)]
    assert [(one.failure, one.flood_seconds) for one in refused] == [
        (Failure.FLOOD, PATIENCE + 1),
        (Failure.FLOOD, PATIENCE + 1),
    ]
    assert max(one for one in made if isinstance(one, float)) == 1000.0 + PATIENCE


async def test_without_pacing_only_floods_are_waited_for(time: Time, nowhere: AsyncEngine) -> None:
    budget = make_budget(time, nowhere, paced=False)
    assert await time.all_done(*(ask(budget, time) for _ in range(500))) == [1000.0] * 500
    budget.merge({HISTORY: time.clock() + timedelta(seconds=60)})
    with pytest.raises(SourceError):
        await budget(HISTORY)


async def test_a_young_account_is_slower(time: Time, nowhere: AsyncEngine) -> None:
    budget = make_budget(time, nowhere, created_at=time.clock())
    made = await time.all_done(*(ask(budget, time) for _ in range(BURST + 2)))
    assert made[-1] == pytest.approx(1004.0, abs=0.1)  # twice as long as two seconds


async def test_a_flood_is_not_asked_into(budget: Budget, time: Time) -> None:
    budget.merge({HISTORY: time.clock() + timedelta(seconds=100)})
    with pytest.raises(SourceError, match=r"wait until 2026-01-05T00:18:20") as flood:
        await budget(HISTORY)
    assert (flood.value.failure, flood.value.flood_seconds) == (Failure.FLOOD, 100.0)
    assert budget.snapshot() == {
        "floods": {HISTORY: (START + timedelta(seconds=1100)).isoformat()},
        "waiting": {},
        "requests": {},
    }
    await budget("upload.getFile")  # other methods may be asked
    time.now += 100
    await budget(HISTORY)
    assert budget.snapshot()["floods"] == {}


async def test_a_short_flood_is_waited_for(budget: Budget, time: Time) -> None:
    await budget.flooded(HISTORY, SHORT_FLOOD)
    assert await time.all_done(ask(budget, time)) == [1000.0 + SHORT_FLOOD]


async def test_a_flood_that_comes_while_waiting_is_respected(budget: Budget, time: Time) -> None:
    await time.all_done(*(ask(budget, time) for _ in range(BURST)))
    waiting = asyncio.ensure_future(ask(budget, time))
    await asyncio.sleep(0)
    budget.merge({HISTORY: time.clock() + timedelta(seconds=50)})
    assert isinstance((await time.all_done(waiting))[0], SourceError)


async def test_a_flood_never_gets_shorter(budget: Budget, time: Time) -> None:
    budget.merge({HISTORY: time.clock() + timedelta(seconds=50)})
    budget.merge({HISTORY: time.clock() + timedelta(seconds=10), "old": time.clock()})
    assert budget.flood_seconds(HISTORY) == 50.0
    assert list(budget.snapshot()["floods"]) == [HISTORY]


async def test_a_flood_counts_even_when_it_cannot_be_stored(budget: Budget) -> None:
    await budget.flooded(HISTORY, 60)  # the database is away: logged, not raised
    assert budget.flood_seconds(HISTORY) == 60.0


async def test_floods_of_before_the_restart_are_in_force(time: Time, nowhere: AsyncEngine) -> None:
    budget = make_budget(time, nowhere, floods={HISTORY: time.clock() + timedelta(seconds=9)})
    with pytest.raises(SourceError):
        await budget(HISTORY)


async def test_a_priority_ends_with_its_block(budget: Budget, time: Time) -> None:
    await time.all_done(*(ask(budget, time, priority=Priority.BACKFILL) for _ in range(BURST)))
    late = asyncio.ensure_future(ask(budget, time, priority=Priority.REFRESH))
    await asyncio.sleep(0)
    assert await time.all_done(ask(budget, time), late) == [1001.0, 1002.0]
