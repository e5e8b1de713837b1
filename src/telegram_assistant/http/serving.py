"""Ports and servers: the health page of a role (port 8011), and uvicorn under the supervisor."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import uvicorn
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from telegram_assistant.bus.supervisor import Task
from telegram_assistant.errors import Fatal
from telegram_assistant.health import Health, Level
from telegram_assistant.http.guards import SafeHeaders
from telegram_assistant.http.web.status import POLICY, status_page
from telegram_assistant.metrics import REGISTRY

BRIEF = ("status", "troubles", "demo", "scheduler", "parser")  # of `/health`
LONGEST_HEAD = 256 * 1024  # of a request: ten thousand characters of a query take twelve bytes each at worst


def health_app(health: Health) -> Starlette:
    async def brief(_: Request) -> Response:
        details = await health.details()
        answer = {key: details[key] for key in BRIEF if key in details}
        return JSONResponse(answer, status_code=503 if details["status"] == Level.FAILING else 200)

    async def full(_: Request) -> Response:
        return JSONResponse(await health.details())

    async def metrics(_: Request) -> Response:
        await health.probe_engines()  # metrics may be asked for first
        health.show_freshness()
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
        task.ready()  # the port has been ours since `listen`: a connection is answered in a moment
        try:
            await asyncio.shield(serving)
        finally:
            server.should_exit = True
            await asyncio.gather(serving, return_exceptions=True)
