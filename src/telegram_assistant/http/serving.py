"""Ports and servers: uvicorn under the supervisor, and the status page of a role (port 8011).

That page says whether all is well, what is captured, and what is wrong. No scripts, nothing from outside.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterable, Iterator
from html import escape
from typing import Any

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


POLICY = "default-src 'none'; style-src 'unsafe-inline'"
STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; --line: #8883 }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h1 { margin: 0 0 .3rem } h2 { margin: 1.6rem 0 .3rem; font-size: 1.1rem }
table { border-collapse: collapse; width: 100%; font-size: .93rem }
td, th { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }
.demo { background: #fc05; padding: .5rem .8rem; border-radius: .4rem }
.ok { color: #1b8a3a } .bad { color: #c62828; font-weight: 600 }
.bar { background: var(--line); border-radius: 3px; height: .5rem; width: 7rem; margin-top: .5rem }
.bar i { display: block; background: #1b8a3a; border-radius: 3px; height: 100% }
.tiles { display: flex; flex-wrap: wrap; gap: 1rem; margin: 1rem 0 }
.tiles div { border: 1px solid var(--line); border-radius: .5rem; padding: .5rem 1rem; min-width: 8rem }
.tiles b { display: block; font-size: 1.5rem }
@media (max-width: 40rem) { .wide { display: none } td, th { padding: .3rem .2rem; overflow-wrap: anywhere } }
"""
DEMO = (
    "<p class=demo><b>Demo.</b> No Telegram account is configured, so these channels come from a simulated Telegram."
    " Set <code>TELEGRAM_API_ID</code> and <code>TELEGRAM_API_HASH</code> and run <code>tga login</code> to watch"
    " real ones.</p>"
)


VERDICTS = {
    "ok": "All is well.",
    "degraded": "It works, but not all of it:",
    "failing": "Something does not work:",
}


def status_page(details: dict[str, Any]) -> str:
    demo, well = details["demo"], details["status"] == "ok"
    title = f"Telegram Assistant{' (demo)' if demo else ''}"
    verdict = VERDICTS.get(details["status"], VERDICTS["failing"])
    troubles = "".join(f"<li>{escape(trouble)}</li>" for trouble in details["troubles"])
    return (
        "<!doctype html><html lang=en><head><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<meta http-equiv=refresh content=5><title>{title}</title><style>{STYLE}</style></head><body>"
        f"<h1>Telegram Assistant</h1>{DEMO if demo else ''}<p class={'ok' if well else 'bad'}>{verdict}</p>"
        f"{f'<ul>{troubles}</ul>' if troubles else ''}{_overdue(details.get('parser'))}"
        f"{_capture(details.get('ledger'))}{_pipeline(details.get('pipeline'))}"
        f"<h2>Parts</h2><table><tr><th>Part<th>State<th>Trouble</tr>{''.join(_parts(details))}</table>"
        "<p><a href=/health/details>details</a> · <a href=/metrics>metrics</a></p></body></html>"
    )


def _overdue(parser: dict[str, Any] | None) -> str:
    """Channels that were not read by the time that was promised, those that wait longest first."""
    if not parser or not parser.get("overdue"):
        return ""
    rows = "".join(
        f"<tr><td>{escape(one['channel'])}<td>{escape(one['since'][:19].replace('T', ' '))}"
        f"<td>{escape(one['error'] or 'it waits for its turn')}</tr>"
        for one in parser["overdue"]
    )
    more = parser["channels"]["overdue"] - len(parser["overdue"])
    return (
        "<h2>Not read in time</h2><table><tr><th>Channel<th>Promised until (UTC)<th>Last error</tr>"
        f"{rows}</table>{f'<p>and {more:,} more</p>' if more > 0 else ''}"
    )


def _capture(ledger: dict[str, Any] | None) -> str:
    if ledger is None or "listed" not in ledger:  # it cannot be read now; the troubles above say why
        return ""
    tiles = (("posts captured", "captured"), ("channels", "channels"), ("ids unknown", "unknown"))
    shown = "".join(f"<div><b>{ledger[key]:,}</b>{name}</div>" for name, key in tiles)
    if not ledger["listed"]:
        return f"<div class=tiles>{shown}</div><p>No channels yet: <code>tga channels add @name</code></p>"
    rows = "".join(_channel(row) for row in ledger["listed"])
    more = ledger["channels"] - len(ledger["listed"])
    return (
        f"<div class=tiles>{shown}</div><h2>Channels</h2><table><tr><th>Channel<th class=n>Posts<th class=n>Unknown"
        f"<th class=wide>Proven up to<th class=wide>Newest post (UTC)<th>Trouble</tr>{rows}</table>"
        f"{f'<p>and {more:,} more: tga channels list</p>' if more > 0 else ''}"
    )


def _pipeline(pipeline: dict[str, Any] | None) -> str:
    """What each stage has before it. An entry holds up to a hundred posts, so `behind` is no count of posts."""
    if not pipeline or not pipeline.get("stages"):
        return ""
    rows = "".join(
        f"<tr><td>{escape(stage)}<td class={'ok' if one['status'] == 'ok' else 'bad'}>{escape(one['status'])}"
        f"<td class=n>{one['behind']:,}<td class=n>{one['tried_again_later']:,}"
        f"<td class='n {'bad' if one['dead_letters'] else ''}'>{one['dead_letters']:,}"
        f"<td class='n wide'>{_age(one['oldest_seconds'])}</tr>"
        for stage, one in pipeline["stages"].items()
    )
    hint = "<p>Dead letters: <code>tga dead-letters list</code></p>"
    dead = any(one["dead_letters"] for one in pipeline["stages"].values())
    return (
        "<h2>Pipeline</h2><table><tr><th>Stage<th>State<th class=n>Behind<th class=n>Tried again later"
        f"<th class=n>Dead letters<th class='n wide'>Oldest waits</tr>{rows}</table>{hint if dead else ''}"
    )


def _age(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds >= 1 else ""


def _channel(row: dict[str, Any]) -> str:
    percent = float(row["percent"])
    return (
        f"<tr><td>{escape(row['channel'])}<td class=n>{row['captured']:,}<td class=n>{row['unknown']:,}"
        f"<td class=wide title='{percent:.2f} %'><div class=bar><i style='width:{percent:.0f}%'></i></div>"
        f"<small>id {row['proven_up_to']:,}</small>"
        f"<td class=wide>{escape(row['newest_post'] or '')}<td class=bad>{escape(row['error'] or '')}</tr>"
    )


def _parts(details: dict[str, Any]) -> Iterable[str]:
    for kind in ("engines", "tasks"):
        for name, report in details[kind].items():
            state = "ok" if report["status"] == "ok" else "bad"
            what = f"{name} answers" if kind == "engines" else name
            yield (
                f"<tr><td>{escape(what)}<td class={state}>{escape(str(report['status']))}"
                f"<td>{escape(str(report.get('error') or ''))}</tr>"
            )
