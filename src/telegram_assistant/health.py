"""Health by outcome (SPEC 6.1, 6.2, 7.3): every task, every engine, and what the roles achieved, on port 8011."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from typing import Any, TypeAlias

import uvicorn
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from telegram_assistant import __version__
from telegram_assistant.api.guards import SafeHeaders
from telegram_assistant.bus.supervisor import Supervisor, Task, TaskState
from telegram_assistant.errors import Fatal
from telegram_assistant.metrics import ENGINE_UP, REGISTRY
from telegram_assistant.web.status import POLICY, status_page

PROBE_SECONDS = 2.0
LONGEST_HEAD = 256 * 1024  # of a request: ten thousand characters of a query take twelve bytes each at worst

Probe: TypeAlias = Callable[[], Awaitable[object]]
Section: TypeAlias = Callable[[], Awaitable[dict[str, Any]]]


class Health:
    """Collects what is true now. A section is a role's own report; its `status` counts when it is not `ok`."""

    def __init__(self, supervisor: Supervisor, *, demo: bool) -> None:
        self._supervisor = supervisor
        self.demo = demo
        self.engines: dict[str, Probe] = {}
        self.sections: dict[str, Section] = {}

    async def details(self) -> dict[str, Any]:
        now = datetime.now(UTC)
        engines = await self.probe_engines()
        sections = dict(await asyncio.gather(*(self._section(name, report) for name, report in self.sections.items())))
        tasks = {task.name: _task_report(task, now) for task in self._supervisor.tasks.values()}
        troubles = [
            f"{kind} {name}: {report.get('error') or report['status']}"
            for kind, reports in (("engine", engines), ("task", tasks), ("role", sections))
            for name, report in reports.items()
            if report["status"] != TaskState.OK
        ]
        return {
            "status": "ok" if not troubles else "failing",
            "troubles": troubles,
            "demo": self.demo,
            "version": __version__,
            "time": now.isoformat(),
            "engines": engines,
            "tasks": tasks,
            **sections,
        }

    async def probe_engines(self) -> dict[str, dict[str, Any]]:
        """Whether each answers; `engine_up` says the same."""
        return dict(await asyncio.gather(*(self._probe(name, probe) for name, probe in self.engines.items())))

    async def _section(self, name: str, report: Section) -> tuple[str, dict[str, Any]]:
        """A role cannot report without its engines; then the page says so, and stays a page."""
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                return name, await report()
        except TimeoutError:
            return name, {"status": "unknown", "error": f"no report within {PROBE_SECONDS:.0f} s"}
        except Exception as exc:  # noqa: BLE001 - whatever it is, it is the answer
            return name, {"status": "unknown", "error": f"{type(exc).__name__}: {exc}"}

    async def _probe(self, name: str, probe: Probe) -> tuple[str, dict[str, Any]]:
        report: dict[str, Any] = {"status": "ok", "error": None}
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                await probe()
        except TimeoutError:
            report = {"status": "down", "error": f"no answer within {PROBE_SECONDS:.0f} s"}
        except Exception as exc:  # noqa: BLE001 - any failure of an engine is the answer to the question
            report = {"status": "down", "error": f"{type(exc).__name__}: {exc}"}
        ENGINE_UP.labels(name).set(report["status"] == "ok")
        return name, report


def _task_report(task: Task, now: datetime) -> dict[str, Any]:
    return {
        "status": task.shown_state(now),
        "since": task.since.isoformat(),
        "restarts": task.restarts,
        "error": task.last_error if task.shown_state(now) is not TaskState.OK else None,
        "last_error": task.last_error,
        "last_progress": task.last_progress.isoformat() if task.last_progress else None,
    }


def health_app(health: Health) -> Starlette:
    async def brief(_: Request) -> Response:
        details = await health.details()
        answer = {key: details[key] for key in ("status", "troubles", "demo")}
        return JSONResponse(answer, status_code=200 if details["status"] == "ok" else 503)

    async def full(_: Request) -> Response:
        return JSONResponse(await health.details())

    async def metrics(_: Request) -> Response:
        await health.probe_engines()  # nobody else may be asking
        return Response(generate_latest(REGISTRY), media_type=CONTENT_TYPE_LATEST)

    async def page(_: Request) -> Response:
        return HTMLResponse(status_page(await health.details()), headers={"Content-Security-Policy": POLICY})

    return Starlette(
        routes=[
            Route("/", page),
            Route("/health", brief),
            Route("/health/details", full),
            Route("/metrics", metrics),
        ],
        middleware=[Middleware(SafeHeaders)],
    )


def listen(host: str, port: int, *, variable: str) -> socket.socket:
    """Take the port now, before anything else starts, and say in one line if it is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(128)
    except OSError as exc:
        listener.close()
        raise Fatal(
            f"Cannot listen on {host}:{port} ({exc.strerror}): stop what uses that port, or set {variable} to another"
        ) from exc
    return listener


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: stopping is the supervisor's business."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(app: Starlette, listener: socket.socket, task: Task) -> None:
    """A supervised job: answer requests until cancelled."""
    server = _Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=1,
            h11_max_incomplete_event_size=LONGEST_HEAD,
        )
    )
    with listener.dup() as copy:  # because uvicorn closes what it is given, and a restart needs it again
        serving = asyncio.ensure_future(server.serve(sockets=[copy]))
        task.ready()  # the port has been ours since `listen`: whoever connects now is answered in a moment
        try:
            await asyncio.shield(serving)
        finally:
            server.should_exit = True
            await asyncio.gather(serving, return_exceptions=True)
