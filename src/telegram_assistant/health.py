"""Health by outcome (SPEC 6.1, 6.2, 7.3): every task, every engine, and what the roles achieved, on port 8011."""

from __future__ import annotations

import asyncio
import contextlib
import html
import socket
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from typing import Any, TypeAlias

import uvicorn
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from telegram_assistant import __version__
from telegram_assistant.bus.supervisor import Supervisor, Task, TaskState
from telegram_assistant.errors import Fatal
from telegram_assistant.metrics import ENGINE_UP, REGISTRY

PROBE_SECONDS = 2.0

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
        engines = dict(await asyncio.gather(*(self._probe(name, probe) for name, probe in self.engines.items())))
        sections = {name: await section() for name, section in self.sections.items()}
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
        return Response(generate_latest(REGISTRY), media_type=CONTENT_TYPE_LATEST)

    async def page(_: Request) -> Response:
        return HTMLResponse(status_page(await health.details()), headers={"Content-Security-Policy": PAGE_POLICY})

    return Starlette(
        routes=[
            Route("/", page),
            Route("/health", brief),
            Route("/health/details", full),
            Route("/metrics", metrics),
        ]
    )


PAGE_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
PAGE_STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
body { max-width: 46rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; width: 100% }
td, th { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #8884 }
.demo { background: #fc06; padding: .5rem .8rem; border-radius: .4rem }
.ok { color: #2a8a3e } .bad { color: #c62828; font-weight: 600 }
"""


def status_page(details: dict[str, Any]) -> str:
    """One plain page for people: is it well, and if not, what is wrong."""
    rows = "".join(
        f"<tr><td>{html.escape(name)}</td><td class={'ok' if report['status'] == 'ok' else 'bad'}>"
        f"{html.escape(str(report['status']))}</td><td>{html.escape(str(report.get('error') or ''))}</td></tr>"
        for kind in ("engines", "tasks")
        for name, report in details[kind].items()
    )
    demo = (
        "<p class=demo><b>Demo.</b> No Telegram account is configured, so these channels come from a simulator."
        " Set TELEGRAM_API_ID and TELEGRAM_API_HASH to watch real ones.</p>"
        if details["demo"]
        else ""
    )
    verdict = "All is well." if details["status"] == "ok" else "Something is wrong."
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        "<meta http-equiv=refresh content=5><title>Telegram Assistant"
        f"{' (demo)' if details['demo'] else ''}</title><style>{PAGE_STYLE}</style><h1>Telegram Assistant</h1>{demo}"
        f"<p class={'ok' if details['status'] == 'ok' else 'bad'}>{verdict}</p>"
        f"<table><tr><th>Part</th><th>State</th><th>Trouble</th></tr>{rows}</table>"
        "<p><a href=/health/details>details</a> · <a href=/metrics>metrics</a></p></html>"
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
    # A copy of the socket, because uvicorn closes what it is given, and a restart needs it again.
    server = _Server(
        uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=1)
    )
    serving = asyncio.ensure_future(server.serve(sockets=[listener.dup()]))
    task.ready()  # the port has been ours since `listen`: whoever connects now is answered in a moment
    try:
        await asyncio.shield(serving)
    finally:
        server.should_exit = True
        await asyncio.gather(serving, return_exceptions=True)
