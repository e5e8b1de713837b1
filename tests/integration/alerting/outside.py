"""Slack and PagerDuty on loopback: they check what they get as the real ones do, and answer in their words."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

KEY = "0123456789abcdef0123456789ABCDEF"
SLACK_PATH = "/services/T000/B000/abcd1234"


@dataclass
class Outside:
    """What arrived. `status`: what is answered instead of success, to one after another."""

    port: int = 0
    slack: list[dict[str, Any]] = field(default_factory=list)
    pagerduty: list[dict[str, Any]] = field(default_factory=list)
    hooks: list[dict[str, Any]] = field(default_factory=list)
    status: list[int] = field(default_factory=list)
    asked: int = 0

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def slack_url(self) -> str:
        return self.base + SLACK_PATH

    @property
    def incidents(self) -> set[str]:
        """Of PagerDuty that are open."""
        found: dict[str, str] = {one["dedup_key"]: one["event_action"] for one in self.pagerduty}
        return {key for key, action in found.items() if action == "trigger"}

    async def take_slack(self, request: Request) -> Response:
        self.asked += 1
        body = json.loads(await request.body())
        if self.status:
            words = {404: "no_service", 403: "action_prohibited", 410: "channel_is_archived", 400: "invalid_payload"}
            status = self.status.pop(0)
            headers = {"Retry-After": "30"} if status == 429 else {}
            if status == 302:
                headers["Location"] = "http://169.254.169.254/latest"
            return PlainTextResponse(words.get(status, "sorry"), status, headers)
        if not valid_blocks(body):
            return PlainTextResponse("invalid_blocks", 400)
        self.slack.append(body)
        return PlainTextResponse("ok")

    async def take_pagerduty(self, request: Request) -> Response:
        self.asked += 1
        event = json.loads(await request.body())
        status = self.status.pop(0) if self.status else 202
        if status == 429:
            return JSONResponse({"status": "throttle exceeded", "message": "Requests throttled"}, 429)
        errors = event_errors(event)
        if status == 400 or errors:
            said = {"status": "invalid event", "message": "Event object is invalid", "errors": errors}
            return JSONResponse(said, 400)
        if status != 202:
            return JSONResponse({"message": "Internal Server Error"}, status)
        self.pagerduty.append(event)
        key = event["dedup_key"]
        return JSONResponse({"status": "success", "message": "Event processed", "dedup_key": key}, 202)

    async def take_hook(self, request: Request) -> Response:
        assert request.headers["x-tga-signature"].startswith("t=")
        self.hooks.append(json.loads(await request.body()))
        return Response(status_code=204)


def valid_blocks(body: dict[str, Any]) -> bool:
    """Slack's limits: https://docs.slack.dev/reference/block-kit/blocks."""
    for block in body["blocks"]:
        kind = block["type"]
        if kind == "header" and not (block["text"]["type"] == "plain_text" and 0 < len(block["text"]["text"]) <= 150):
            return False
        if kind == "section" and not 0 < len(block["text"]["text"]) <= 3000:
            return False
        if kind == "context" and not 0 < len(block["elements"]) <= 10:
            return False
    return bool(body["text"]) and len(body["blocks"]) <= 50


def event_errors(event: dict[str, Any]) -> list[str]:
    """What the Events API v2 finds wrong."""
    errors = [] if event.get("routing_key") == KEY else ["'routing_key' is invalid"]
    if event.get("event_action") not in {"trigger", "acknowledge", "resolve"}:
        errors.append("'event_action' is invalid")
    if not 0 < len(event.get("dedup_key", "")) <= 255:
        errors.append("'dedup_key' is invalid")
    if event.get("event_action") == "trigger":
        payload = event["payload"]
        if not 0 < len(payload["summary"]) <= 1024 or not payload["source"]:
            errors.append("'payload.summary' is missing")
        if payload["severity"] not in {"critical", "error", "warning", "info"}:
            errors.append("'payload.severity' is invalid")
    return errors


@asynccontextmanager
async def outside() -> AsyncIterator[Outside]:
    made = Outside()
    routes = [
        Route(SLACK_PATH, made.take_slack, methods=["POST"]),
        Route("/v2/enqueue", made.take_pagerduty, methods=["POST"]),
        Route("/hook", made.take_hook, methods=["POST"]),
    ]
    server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_level="error", lifespan="off", ws="none"))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        made.port = listener.getsockname()[1]
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield made
        finally:
            server.should_exit = server.force_exit = True
            await serving
