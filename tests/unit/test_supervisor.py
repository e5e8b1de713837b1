"""No task ends unnoticed: restarted with backoff, counted, visible (SPEC 7.6; LESSONS 15)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from time import monotonic

import pytest
from structlog.testing import capture_logs

from telegram_assistant.bus.supervisor import FAILING_AFTER, Job, Supervisor, Task, TaskState
from telegram_assistant.errors import Fatal, Retry
from telegram_assistant.metrics import REGISTRY

pytestmark = pytest.mark.unit


@pytest.fixture
async def supervisor() -> AsyncIterator[Supervisor]:
    it = Supervisor(first_delay=0.001, longest_delay=0.005)
    yield it
    await asyncio.wait_for(it.stop(), 300)


class Flaky:
    """A job that fails `failures` times with `error`, then runs until it is stopped."""

    def __init__(self, failures: int, error: BaseException | None = None) -> None:
        self.failures = failures
        self.error = error  # None: it just returns
        self.runs = 0
        self.steady = asyncio.Event()

    async def __call__(self, task: Task) -> None:
        task.ready()
        self.runs += 1
        if self.runs <= self.failures:
            if self.error is not None:
                raise self.error
            return
        self.steady.set()
        await asyncio.Event().wait()


def metric(name: str, task: str) -> float | None:
    return REGISTRY.get_sample_value(name, {"task": task})


async def run_for_ever(task: Task) -> None:
    task.ready()
    await asyncio.Event().wait()


async def test_a_task_that_fails_is_restarted_and_counted(supervisor: Supervisor) -> None:
    job = Flaky(2, LookupError("no such channel"))
    task = await supervisor.start("fails-twice", job)
    await asyncio.wait_for(job.steady.wait(), 300)
    assert (job.runs, task.restarts, task.state) == (3, 2, TaskState.OK)
    assert task.last_error == "LookupError: no such channel"
    assert metric("supervised_task_restarts_total", "fails-twice") == 2
    assert metric("supervised_task_up", "fails-twice") == 1


async def test_a_task_that_returns_is_restarted(supervisor: Supervisor) -> None:
    job = Flaky(1)
    task = await supervisor.start("returns", job)
    await asyncio.wait_for(job.steady.wait(), 300)
    assert task.restarts == 1
    assert task.last_error is not None
    assert "without being stopped" in task.last_error


async def test_a_task_whose_own_work_was_cancelled_is_restarted(supervisor: Supervisor) -> None:
    """A cancellation that we did not ask for is a failure like any other, not a silent end."""
    job = Flaky(2, asyncio.CancelledError())
    task = await supervisor.start("cancelled-inside", job)
    await asyncio.wait_for(job.steady.wait(), 300)
    assert (task.restarts, task.state) == (2, TaskState.OK)


async def test_every_failure_is_logged_with_its_traceback(supervisor: Supervisor) -> None:
    with capture_logs() as logs:
        job = Flaky(2, LookupError("no such channel"))
        await supervisor.start("logged", job)
        await asyncio.wait_for(job.steady.wait(), 300)
    failed = [entry for entry in logs if entry["event"] == "task_failed" and entry["task"] == "logged"]
    assert [entry["failures"] for entry in failed] == [1, 2]
    assert all(isinstance(entry["exc_info"], LookupError) for entry in failed)


async def test_failing_is_said_after_three_failures_in_a_row(supervisor: Supervisor) -> None:
    seen: list[TaskState] = []
    looked = asyncio.Event()

    async def job(task: Task) -> None:
        seen.append(task.state)
        if len(seen) == 5:
            looked.set()
            await asyncio.Event().wait()
        raise Retry("still no answer")

    task = supervisor.start("keeps-failing", job, within=0.01)
    with pytest.raises(Fatal, match="did not start"):
        await task
    await asyncio.wait_for(looked.wait(), 300)
    assert FAILING_AFTER == 3
    assert seen == [
        TaskState.STARTING,
        TaskState.RESTARTING,
        TaskState.RESTARTING,
        TaskState.FAILING,
        TaskState.FAILING,
    ]
    assert metric("supervised_task_up", "keeps-failing") == 0


def test_the_delay_grows_up_to_a_limit_and_is_spread() -> None:
    supervisor = Supervisor()
    for failures, middle in ((1, 0.2), (2, 0.4), (3, 0.8), (8, 25.6), (9, 30.0), (5000, 30.0)):
        delays = {supervisor.delay(failures) for _ in range(50)}
        assert all(middle * 0.8 <= delay <= middle * 1.2 for delay in delays)
        assert len(delays) > 1


async def test_a_task_that_ran_steadily_starts_counting_anew(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("telegram_assistant.bus.supervisor.STEADY_SECONDS", -1.0)
    job = Flaky(5, LookupError("now and then"))
    task = await supervisor.start("now-and-then", job)
    await asyncio.wait_for(job.steady.wait(), 300)
    assert (task.failures, task.restarts) == (1, 5)


async def test_fatal_at_the_start_is_raised_to_who_starts_it(supervisor: Supervisor) -> None:
    async def job(_: Task) -> None:
        raise Fatal("set DATABASE_URL")

    with pytest.raises(Fatal, match="set DATABASE_URL"):
        await supervisor.start("fatal", job)
    assert supervisor.tasks["fatal"].state is TaskState.FAILING
    assert supervisor.tasks["fatal"].restarts == 0


async def test_fatal_while_running_is_raised_to_who_waits(supervisor: Supervisor) -> None:
    now = asyncio.Event()

    async def job(task: Task) -> None:
        task.ready()
        await now.wait()
        raise Fatal("the account was revoked: run tga login")

    await supervisor.start("healthy", run_for_ever)
    await supervisor.start("fatal-later", job)
    waiting = asyncio.ensure_future(supervisor.wait())
    now.set()
    with pytest.raises(Fatal, match="the account was revoked"):
        await asyncio.wait_for(waiting, 300)
    assert supervisor.tasks["healthy"].state is TaskState.OK, "who waits decides what to stop"


async def test_fatal_is_no_traceback_on_the_console(supervisor: Supervisor) -> None:
    """Its message is the one line that a person needs; the command prints it. The traceback is there at DEBUG."""

    async def job(_: Task) -> None:
        raise Fatal("set DATABASE_URL")

    with capture_logs() as logs, pytest.raises(Fatal):
        await supervisor.start("quiet-fatal", job)
    assert [(entry["event"], entry["log_level"]) for entry in logs] == [("task_fatal", "debug")]
    assert isinstance(logs[0]["exc_info"], Fatal)


async def test_a_task_that_never_gets_ready_is_an_error_with_its_reason(supervisor: Supervisor) -> None:
    async def job(_: Task) -> None:
        raise Retry("no answer from the data centre")

    with pytest.raises(Fatal, match=r"slow did not start within .* no answer from the data centre"):
        await supervisor.start("slow", job, within=0.05)


async def test_two_tasks_of_one_name_are_refused(supervisor: Supervisor) -> None:
    await supervisor.start("only-one", run_for_ever)
    with pytest.raises(ValueError, match="only-one"):
        await supervisor.start("only-one", run_for_ever)


def leaving(name: str, order: list[str]) -> Job:
    async def job(task: Task) -> None:
        task.ready()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)  # a clean-up that needs the loop
            order.append(name)

    return job


async def test_stop_is_newest_first_and_waits_for_the_clean_up(supervisor: Supervisor) -> None:
    order: list[str] = []
    for name in ("engine", "schema", "role"):
        await supervisor.start(name, leaving(name, order))
    await supervisor.stop()
    assert order == ["role", "schema", "engine"]
    assert {task.state for task in supervisor.tasks.values()} == {TaskState.STOPPED}
    assert {task.restarts for task in supervisor.tasks.values()} == {0}
    await supervisor.stop()
    assert len(order) == 3, "a second stop has nothing to do"


async def test_some_can_be_stopped_and_the_others_go_on(supervisor: Supervisor) -> None:
    order: list[str] = []
    for name in ("a", "b", "c"):
        await supervisor.start(name, leaving(name, order))
    await supervisor.stop(["a", "b"])
    assert order == ["b", "a"]
    assert supervisor.tasks["c"].state is TaskState.OK


async def test_stop_while_waiting_for_a_restart() -> None:
    supervisor = Supervisor(first_delay=3600, longest_delay=3600)
    runs = 0

    async def job(_: Task) -> None:
        nonlocal runs
        runs += 1
        raise Retry("no answer")

    with pytest.raises(Fatal, match="no answer"):
        await supervisor.start("waits-an-hour", job, within=0.05)
    await asyncio.wait_for(supervisor.stop(), 300)
    assert (runs, supervisor.tasks["waits-an-hour"].state) == (1, TaskState.STOPPED)


@pytest.mark.parametrize("error", [RuntimeError("clean-up failed"), None], ids=["raises", "returns"])
async def test_a_task_that_answers_a_stop_in_its_own_way_still_stops(error: Exception | None) -> None:
    """Else Ctrl-C would hang: the error of a clean-up looks like a failure that wants a restart."""
    supervisor = Supervisor(first_delay=0.001)
    runs = 0

    async def job(task: Task) -> None:
        nonlocal runs
        runs += 1
        task.ready()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if error is not None:
                raise error from None

    task = await supervisor.start("stubborn", job)
    await asyncio.wait_for(supervisor.stop(), 300)
    assert (runs, task.state) == (1, TaskState.STOPPED)


async def test_a_failed_clean_up_is_logged() -> None:
    supervisor = Supervisor(first_delay=0.001)

    async def job(task: Task) -> None:
        task.ready()
        try:
            await asyncio.Event().wait()
        finally:
            raise RuntimeError("clean-up failed")

    await supervisor.start("bad-end", job)
    with capture_logs() as logs:
        await asyncio.wait_for(supervisor.stop(), 300)
    assert [(entry["event"], str(entry["exc_info"])) for entry in logs] == [("task_stop_failed", "clean-up failed")]


async def test_alive_without_progress_is_stuck(supervisor: Supervisor) -> None:
    task = await supervisor.start("idle", run_for_ever, patience=60)
    now = task.progressed
    assert now is not None
    assert task.shown_state() is TaskState.OK
    assert task.shown_state(now + 61) is TaskState.STUCK
    task.progressed = now + 50
    assert task.shown_state(now + 61) is TaskState.OK
    assert task.shown_state(now + 111) is TaskState.STUCK


async def test_n2_a_clock_that_was_set_wrong_makes_no_task_stuck(supervisor: Supervisor) -> None:
    task = await supervisor.start("idle", run_for_ever, patience=60)
    for moment in (datetime(2025, 1, 1, tzinfo=UTC), datetime(2125, 1, 1, tzinfo=UTC)):
        task.last_progress = moment  # as the wall clock said then
        assert task.shown_state() is TaskState.OK


async def test_without_patience_nothing_is_stuck(supervisor: Supervisor) -> None:
    task = await supervisor.start("may-idle", run_for_ever)
    assert task.shown_state(monotonic() + 30 * 86400) is TaskState.OK


async def test_progress_moves_the_clock(supervisor: Supervisor) -> None:
    task = await supervisor.start("works", run_for_ever, patience=60)
    task.progressed = monotonic() - 61
    assert task.shown_state() is TaskState.STUCK
    task.progress()
    assert task.shown_state() is TaskState.OK


async def test_a_stop_that_was_swallowed_is_heard_at_the_next_progress() -> None:
    """As asyncio.wait_for swallows it before Python 3.12."""
    swallowed = asyncio.Event()

    async def deaf(task: Task) -> None:
        task.ready()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            swallowed.set()
        while True:
            task.progress()
            await asyncio.sleep(0)

    supervisor = Supervisor()
    await supervisor.start("deaf", deaf)
    async with asyncio.timeout(300):
        await supervisor.stop()
    assert swallowed.is_set()
