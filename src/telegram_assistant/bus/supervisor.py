"""Named tasks that never end unnoticed: restarted with backoff, counted, visible in health (SPEC 7.6, LESSONS 15)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from time import monotonic
from typing import Any, TypeAlias

from telegram_assistant.domain.retries import Backoff
from telegram_assistant.errors import Fatal, in_words
from telegram_assistant.log import get_logger
from telegram_assistant.metrics import TASK_RESTARTS, TASK_UP

FAILING_AFTER = 3  # failures in a row that make a task `failing` instead of `restarting`
FIRST_DELAY = 0.2
LONGEST_DELAY = 30.0
STEADY_SECONDS = 60.0  # a task that ran this long has recovered: its failures are forgotten

log = get_logger(__name__)


def heed_stop() -> None:
    """Raise a cancellation that was swallowed on the way; to be called in every loop that asks Redis.

    asyncio.wait_for swallows one before Python 3.12 when its work ends in the same moment, and the Redis client uses
    it for every command.
    """
    me = asyncio.current_task()
    if me is not None and me.cancelling():
        raise asyncio.CancelledError


class TaskState(StrEnum):
    """What a task is doing, as health shows it."""

    STARTING = "starting"
    OK = "ok"
    RESTARTING = "restarting"
    FAILING = "failing"
    STUCK = "stuck"
    STOPPED = "stopped"


@dataclass
class Task:
    """One supervised task; its job tells through `ready` and `progress` how it is doing."""

    name: str
    job: Job
    patience: float | None = None  # seconds without progress after which it counts as stuck
    state: TaskState = TaskState.STARTING
    restarts: int = 0
    failures: int = 0  # in a row
    last_error: str | None = None
    since: datetime = field(default_factory=lambda: datetime.now(UTC))
    last_progress: datetime | None = None
    progressed: float | None = None  # the same by a clock that never jumps
    started: asyncio.Event = field(default_factory=asyncio.Event)

    def ready(self) -> None:
        """The job is up: `start` returns."""
        self._become(TaskState.OK)
        self.started.set()
        self.progress()

    def progress(self) -> None:
        """The job did a piece of its work. Being alive is not enough to be healthy."""
        self.last_progress, self.progressed = datetime.now(UTC), monotonic()
        heed_stop()

    def shown_state(self, now: float | None = None) -> TaskState:
        """`now` is of the clock that never jumps: one that was set wrong makes no task stuck, and hides none."""
        idle = None if self.progressed is None else (monotonic() if now is None else now) - self.progressed
        if self.state is TaskState.OK and self.patience is not None and idle is not None and idle > self.patience:
            return TaskState.STUCK
        return self.state

    def _become(self, state: TaskState) -> None:
        if state is not self.state:
            self.state, self.since = state, datetime.now(UTC)
        TASK_UP.labels(self.name).set(state is TaskState.OK)


Job: TypeAlias = Callable[[Task], Awaitable[None]]


class Supervisor:
    """Runs tasks until it is stopped; only `Fatal` ends it from inside."""

    def __init__(self, *, first_delay: float = FIRST_DELAY, longest_delay: float = LONGEST_DELAY) -> None:
        self.tasks: dict[str, Task] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._backoff = Backoff(base=first_delay, cap=longest_delay)
        self._fatal: asyncio.Future[Fatal] | None = None

    async def start(self, name: str, job: Job, *, patience: float | None = None, within: float = 60.0) -> Task:
        """Start a task and wait until it says `ready`; a `Fatal` on the way is raised here."""
        if name in self.tasks:
            raise ValueError(f"a task named {name} is there already")
        task = self.tasks[name] = Task(name, job, patience)
        self._running[name] = asyncio.create_task(self._keep(task), name=name)
        await self._until_started(task, within)
        return task

    async def wait(self) -> None:
        """Return never, or raise the `Fatal` of a task."""
        raise await self._fatal_future()

    async def stop(self, names: list[str] | None = None) -> None:
        """Cancel tasks, newest first, and wait for each: what was started last depends on what came before."""
        for name in reversed(list(self._running) if names is None else names):
            running = self._running.pop(name, None)
            if running is None:
                continue
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            self.tasks[name]._become(TaskState.STOPPED)  # noqa: SLF001 - Task and Supervisor are one unit

    async def stop_together(self, names: list[str]) -> None:
        """Cancel tasks that do not need each other, all at once, and wait for all."""
        await asyncio.gather(*(self.stop([name]) for name in names))

    async def _until_started(self, task: Task, within: float) -> None:
        started: asyncio.Future[Any] = asyncio.ensure_future(task.started.wait())
        fatal: asyncio.Future[Any] = self._fatal_future()
        try:
            await asyncio.wait({started, fatal}, timeout=within, return_when=asyncio.FIRST_COMPLETED)
        finally:
            started.cancel()
        if fatal.done():
            raise fatal.result()
        if not task.started.is_set():
            raise Fatal(f"{task.name} did not start within {within:.0f} s: {task.last_error or 'no error was given'}")

    async def _keep(self, task: Task) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            error = await self._run(task)
            if isinstance(error, Fatal):
                # `wait` raises it and its message is shown; the traceback is for debugging.
                log.debug("task_fatal", task=task.name, exc_info=error)
                task.last_error = str(error)
                task._become(TaskState.FAILING)  # noqa: SLF001 - Task and Supervisor are one unit
                if not self._fatal_future().done():
                    self._fatal_future().set_result(error)
                return
            if loop.time() - began > STEADY_SECONDS:
                task.failures = 0
            self._failed(task, error)
            await asyncio.sleep(self.delay(task.failures))

    async def _run(self, task: Task) -> BaseException:
        """Run the job once and return why it ended; when we are being stopped, end with it."""
        me = asyncio.current_task()
        failure: BaseException | None = None
        try:
            await task.job(task)
        except (Exception, asyncio.CancelledError) as exc:  # noqa: BLE001 - any error: log, count, restart
            failure = exc
        cancelled = isinstance(failure, asyncio.CancelledError) and me is not None and me.cancelling() > 0
        if task.name in self._running and not cancelled:
            # A cancellation from inside the job is a failure like others. A TaskGroup that failed leaves its count
            # behind on Python 3.11, and the next await would take it for ours.
            while me is not None and me.cancelling():
                me.uncancel()
            return failure or RuntimeError("the task ended without being stopped")
        if isinstance(failure, Exception):
            log.error("task_stop_failed", task=task.name, exc_info=failure)
        raise asyncio.CancelledError

    def _failed(self, task: Task, error: BaseException) -> None:
        task.failures += 1
        task.restarts += 1
        task.last_error = in_words(error)
        TASK_RESTARTS.labels(task.name).inc()
        task._become(TaskState.FAILING if task.failures >= FAILING_AFTER else TaskState.RESTARTING)  # noqa: SLF001 - one unit
        log.error("task_failed", task=task.name, failures=task.failures, exc_info=error)

    def delay(self, failures: int) -> float:
        """Seconds until a task that failed so often in a row is started again."""
        return self._backoff.delay(failures) * random.uniform(0.8, 1.2)  # noqa: S311 - spreads restarts, no secret

    def _fatal_future(self) -> asyncio.Future[Fatal]:
        if self._fatal is None:
            self._fatal = asyncio.get_running_loop().create_future()
        return self._fatal
