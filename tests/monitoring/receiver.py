"""A server on loopback that is told of alerts: it speaks Slack's incoming webhooks and PagerDuty's Events API v2."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

WEBHOOK = "/services/T000/B000/not-a-secret"
ROUTING_KEY = "0123456789abcdef0123456789abcdef"


class Receiver:
    """Keeps what it took. What the real ones would refuse, it refuses as they do and writes down."""

    def __init__(self) -> None:
        self.url = ""
        self.slack: list[dict[str, Any]] = []
        self.pagerduty: list[dict[str, Any]] = []
        self.refused: list[Any] = []
        self.metrics = ""  # of a role, for Prometheus
        self._news = asyncio.Condition()

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[Receiver]:
        app = web.Application()
        app.router.add_post(WEBHOOK, self._take_slack)
        app.router.add_post("/v2/enqueue", self._take_pagerduty)
        app.router.add_get("/metrics", self._give_metrics)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        try:
            yield self
        finally:
            await runner.cleanup()

    async def hears(self, holds: Callable[[Receiver], bool]) -> None:
        """Comes back when this holds."""
        async with asyncio.timeout(300), self._news:
            await self._news.wait_for(lambda: holds(self))

    def in_slack(self, title: str) -> list[dict[str, Any]]:
        return [one["attachments"][0] for one in self.slack if title in one["attachments"][0]["title"]]

    def events(self, action: str) -> list[dict[str, Any]]:
        return [one for one in self.pagerduty if one["event_action"] == action]

    async def _take_slack(self, request: web.Request) -> web.Response:
        message = await request.json()
        if not any(one.get("text") for one in message.get("attachments", ())):
            return await self._refuse(message, web.Response(status=400, text="no_text"))
        await self._keep(self.slack, message)
        return web.Response(text="ok")

    async def _take_pagerduty(self, request: web.Request) -> web.Response:
        event = await request.json()
        if not _is_event(event):
            return await self._refuse(event, web.json_response({"status": "invalid event"}, status=400))
        await self._keep(self.pagerduty, event)
        return web.json_response({"status": "success", "dedup_key": event["dedup_key"]}, status=202)

    async def _give_metrics(self, _: web.Request) -> web.Response:
        return web.Response(text=self.metrics)

    async def _keep(self, where: list[dict[str, Any]], what: dict[str, Any]) -> None:
        async with self._news:
            where.append(what)
            self._news.notify_all()

    async def _refuse(self, what: Any, answer: web.Response) -> web.Response:
        self.refused.append(what)
        return answer


def _is_event(event: dict[str, Any]) -> bool:
    if event.get("routing_key") != ROUTING_KEY or not event.get("dedup_key"):
        return False
    told = event.get("payload") or {}
    whole = bool(told.get("summary") and told.get("source")) and told.get("severity") in {
        "critical",
        "error",
        "warning",
        "info",
    }
    return event.get("event_action") in {"acknowledge", "resolve"} or (event.get("event_action") == "trigger" and whole)
