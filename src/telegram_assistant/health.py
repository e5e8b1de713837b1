"""Health by outcome (SPEC 6.1, 6.2, 7.3): every task, every engine, and what the roles achieved, on port 8011.

`failing`: something does not work at all, and the answer is 503. `degraded`: a part does not work while the rest goes
on; it is told, and is no reason to take the process out of service.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from math import inf
from time import monotonic
from typing import Any, TypeAlias

from telegram_assistant import __version__
from telegram_assistant.bus.supervisor import Supervisor, Task, TaskState
from telegram_assistant.errors import in_words
from telegram_assistant.freshness import Freshness
from telegram_assistant.log import get_logger
from telegram_assistant.metrics import ENGINE_UP, PART_STALE, TROUBLES
from telegram_assistant.stores.postgres.upkeep import Upkeep

PROBE_SECONDS = 2.0
REPORT_SECONDS = 30.0  # so old may a role's last report be when the next one is late
LOOK_SECONDS = 10.0
LIGHT = frozenset({"degraded", "late"})  # what a section says when only a part does not work
# What it costs, and what to do. Roles and parts say that themselves.
HINTS = {
    "postgres": "nothing is captured, stored or found; start that server or look into its log",
    "redis": "nothing goes through the stages; start that server or look into its log",
    "media": "posts are captured, their files wait; look at MEDIA_URL and at the server behind it",
    "disk": "what is kept in the data folder cannot be written: indexes and files wait; make room on that disk",
    "engine": "what needs it waits; start that server or look into its log",
    "task": "its work waits; it is started again by itself, and the log has the traceback (task_failed)",
}
NO_REPORT = "it may stand still; PostgreSQL or Redis is slow or held by another: see their lines and logs"

log = get_logger(__name__)

Probe: TypeAlias = Callable[[], Awaitable[object]]
Section: TypeAlias = Callable[[], Awaitable[dict[str, Any]]]


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    DEGRADED = "degraded"
    FAILING = "failing"


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that is wrong now."""

    kind: str
    name: str
    said: str
    level: Level = Level.FAILING


class Health:
    """Collects what is true now. A section is a role's own report; its `status` counts when it is not `ok`."""

    def __init__(self, supervisor: Supervisor, *, demo: bool, freshness: Freshness | None = None) -> None:
        self._supervisor = supervisor
        self.demo = demo
        self.freshness = freshness or Freshness()
        self.engines: dict[str, Probe] = {}
        self.needed = {"postgres", "redis"}  # engines without which nothing works; others cost a part
        self.sections: dict[str, Section] = {}
        self.level = Level.OK  # at the last look
        self._reports: dict[str, tuple[float, dict[str, Any]]] = {}  # the last good one of each section, and when
        self._since: dict[tuple[str, str], datetime] = {}  # when each trouble was first seen
        self._told: set[tuple[str, str]] = set()  # those of the last look

    async def watch(self, task: Task) -> None:
        """A supervised job: look also without requests, so that metrics, log and `since` are true."""
        task.ready()
        while True:
            await self.details()
            task.progress()
            await asyncio.sleep(LOOK_SECONDS)

    async def details(self) -> dict[str, Any]:
        now = datetime.now(UTC)
        engines = await self.probe_engines()
        sections = dict(await asyncio.gather(*(self._section(name, report) for name, report in self.sections.items())))
        tasks = {task.name: _task_report(task) for task in self._supervisor.tasks.values()}
        troubles = [*self._reported(engines, tasks, sections), *self._stale(now)]
        self._notice(troubles, now)
        return {
            "status": self.level.value,
            "troubles": [self._sentence(trouble) for trouble in troubles],
            "demo": self.demo,
            "version": __version__,
            "time": now.isoformat(),
            "engines": engines,
            "tasks": tasks,
            "freshness": self.freshness.report(),
            **sections,
        }

    async def can_serve(self) -> bool:
        """Whether this process can answer requests: what it needs itself is there; other roles do not matter."""
        engines = await asyncio.gather(
            *(self._probe(name, self.engines[name]) for name in self.needed & set(self.engines))
        )
        return all(report["status"] == "ok" for _, report in engines)

    async def probe_engines(self) -> dict[str, dict[str, Any]]:
        """Whether each answers; `engine_up` says the same."""
        return dict(await asyncio.gather(*(self._probe(name, probe) for name, probe in self.engines.items())))

    def show_freshness(self) -> None:
        """The metrics of what is stale."""
        PART_STALE.clear()
        for kind, parts in self.freshness.report().items():
            for name, part in parts.items():
                PART_STALE.labels(kind, name).set(part["status"] != "ok")

    def _reported(self, engines: dict[str, Any], tasks: dict[str, Any], sections: dict[str, Any]) -> Iterator[Trouble]:
        for kind, reports in (("engine", engines), ("task", tasks), ("role", sections)):
            for name, report in reports.items():
                if report["status"] != TaskState.OK and report.get("told_as") != "freshness":
                    light = report["status"] in LIGHT or (kind == "engine" and name not in self.needed)
                    level = Level.DEGRADED if light else Level.FAILING
                    yield Trouble(kind, name, f"{kind} {name}: {report.get('error') or report['status']}", level)

    def _stale(self, now: datetime) -> Iterator[Trouble]:
        self.show_freshness()
        for one in self.freshness.stale():
            began = now - timedelta(seconds=one.seconds)
            self._since.setdefault((one.kind, one.name), began)
            level = Level.FAILING if one.failing else Level.DEGRADED
            yield Trouble(one.kind, one.name, one.sentence(_time(began)), level)

    def _notice(self, troubles: list[Trouble], now: datetime) -> None:
        """Remember when each began, and write down what is new and what is over."""
        found = {(trouble.kind, trouble.name): trouble for trouble in troubles}
        for key, trouble in found.items():
            if key not in self._told:
                log.warning("trouble_began", level=trouble.level.value, trouble=trouble.said)
                self._since.setdefault(key, now)
        for key in self._told - set(found):
            log.info("trouble_over", part=" ".join(key), seconds=round((now - self._since.pop(key)).total_seconds()))
        self._told = set(found)
        levels = [trouble.level for trouble in troubles]
        for level in (Level.DEGRADED, Level.FAILING):
            TROUBLES.labels(level.value).set(levels.count(level))
        self.level = Level.FAILING if Level.FAILING in levels else Level.DEGRADED if levels else Level.OK

    def _sentence(self, trouble: Trouble) -> str:
        said, hint = trouble.said, HINTS.get(trouble.name) if trouble.kind == "engine" else None
        if "since" not in said:
            said = f"{said} (since {_time(self._since[trouble.kind, trouble.name])})"
        hint = hint or HINTS.get(trouble.kind)
        return f"{said}; {hint}" if hint else said

    async def _section(self, name: str, report: Section) -> tuple[str, dict[str, Any]]:
        """A role that is slow to report is as it was a moment ago; one that cannot report for long is not well."""
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                found = await report()
        except TimeoutError:
            error = f"no report within {PROBE_SECONDS:.0f} s; {NO_REPORT}"
        except Exception as exc:  # noqa: BLE001 - the error is the answer
            error = in_words(exc)
        else:
            self._reports[name] = monotonic(), found
            return name, found
        at, last = self._reports.get(name, (-inf, {}))
        if monotonic() - at < REPORT_SECONDS:
            return name, last | {"report_seconds_ago": round(monotonic() - at, 1), "report_error": error}
        return name, {"status": "unknown", "error": error}

    async def _probe(self, name: str, probe: Probe) -> tuple[str, dict[str, Any]]:
        report: dict[str, Any] = {"status": "ok", "error": None}
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                await probe()
        except TimeoutError:
            report = {"status": "down", "error": f"no answer within {PROBE_SECONDS:.0f} s"}
        except Exception as exc:  # noqa: BLE001 - any failure of an engine is the answer to the question
            report = {"status": "down", "error": in_words(exc)}
        ENGINE_UP.labels(name).set(report["status"] == "ok")
        return name, report


def _time(moment: datetime) -> str:
    return f"{moment:%H:%M:%S} UTC"


def _task_report(task: Task) -> dict[str, Any]:
    return {
        "status": task.shown_state(),
        "since": task.since.isoformat(),
        "restarts": task.restarts,
        "error": task.last_error if task.shown_state() is not TaskState.OK else None,
        "last_error": task.last_error,
        "last_progress": task.last_progress.isoformat() if task.last_progress else None,
    }


EVERY_SECONDS = 15.0
SILENT = timedelta(seconds=75)
FORGOTTEN = timedelta(days=7)  # a role that was given up is missed no longer than this
COSTS = {
    "ingest": "nothing new is captured",
    "worker": "new posts are not tagged and indexed",
    "api": "the pages and the API do not answer, digests and alerts wait",
}


class Presence:
    """A supervised job of every process."""

    def __init__(self, upkeep: Upkeep, roles: Collection[str], *, ticks: Callable[[], float] = monotonic) -> None:
        self._upkeep = upkeep
        self._roles = roles
        self._ticks = ticks
        self._began = ticks()

    async def run(self, task: Task) -> None:
        await self._upkeep.sign(self._roles)
        task.ready()
        while True:
            await asyncio.sleep(EVERY_SECONDS)
            await self._upkeep.sign(self._roles)
            task.progress()

    async def report(self) -> dict[str, Any]:
        """For health: roles that ran and give no sign any more. Just after a start the others may be starting too."""
        signs = await self._upkeep.signs()
        silent = {role: age for role, age in signs.items() if role in COSTS and SILENT < age < FORGOTTEN}
        if self._ticks() - self._began < SILENT.total_seconds():
            silent = {}
        said = [
            f"no `tga {role}` has given a sign for {age.total_seconds() / 60:.0f} min; {COSTS[role]}; start it"
            for role, age in silent.items()
        ]
        return {
            "status": "degraded" if said else "ok",
            "error": ". ".join(said) or None,
            "seconds_since_sign": {role: round(age.total_seconds()) for role, age in signs.items()},
        }
