"""A model server on loopback that speaks OpenAI's API, and is what a remote provider is on a bad day."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections import Counter
from hashlib import sha256
from random import Random

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

HOST = "127.0.0.1"
LONG_WORD = re.compile(r"[^\W\d_]{6,}")
MOST_TAGS = 4
STUBBORN = 20  # one text of so many is never answered in the right form while things are bad
SHARES = {"429": 0.06, "500": 0.05, "no JSON": 0.03, "malformed": 0.03}


class Provider:
    """Tags are words of the post. Until `recover` it limits, fails and talks nonsense, and `fall` shuts it down."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._bad_day = True
        self._port = 0
        self._kept: socket.socket | None = None  # bound, not listening: while it is down no other process gets its port
        self._server: uvicorn.Server | None = None
        self._serving: asyncio.Task[None] | None = None
        self.answered: Counter[str] = Counter()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._port}/v1"

    @property
    def failures(self) -> int:
        return self.answered.total() - self.answered["well"]

    async def rise(self) -> None:
        """At the same port as before."""
        await self.fall()
        app = Starlette(routes=[Route("/v1/chat/completions", self._chat, methods=["POST"])])
        config = uvicorn.Config(app, log_level="critical", lifespan="off", ws="none")
        self._server = uvicorn.Server(config)
        if self._kept is None:
            self._kept = _bound(0)
            self._port = self._kept.getsockname()[1]
        self._serving = asyncio.create_task(self._server.serve(sockets=[_bound(self._port)]))

    async def fall(self) -> None:
        """Connections are cut, new ones refused."""
        if self._server is not None:
            self._server.should_exit = self._server.force_exit = True
            self._server = None
        if self._serving is not None:
            # If the caller is cancelled, the shutdown must go on: cancelled, it would leave its port taken.
            await asyncio.shield(self._serving)
            self._serving = None

    async def close(self) -> None:
        await self.fall()
        if self._kept is not None:
            self._kept.close()

    async def recover(self) -> None:
        """It is there, and well, from now on."""
        self._bad_day = False
        if self._server is None:
            await self.rise()

    async def _chat(self, request: Request) -> Response:
        body = await request.json()
        words = body["messages"][-1]["content"].partition("\n")[2].rpartition("\n")[0]  # without its fences
        trouble = self._trouble(words)
        self.answered[trouble or "well"] += 1
        match trouble:
            case "429":
                return JSONResponse({"error": {"message": "slow down"}}, 429, {"Retry-After": "1"})
            case "500":
                return JSONResponse({"error": {"message": "our fault"}}, 500)
            case "no JSON":
                return Response("<html>gateway</html>")
            case "malformed" | "stubborn":
                return _completion("I had rather talk about the weather.")
        tags = list(dict.fromkeys(LONG_WORD.findall(words)))[:MOST_TAGS]
        return _completion(json.dumps({"tags": tags, "topics": [], "entities": [], "language": "ru"}))

    def _trouble(self, words: str) -> str | None:
        if not self._bad_day:
            return None
        if sha256(words.encode()).digest()[0] % STUBBORN == 0:
            return "stubborn"
        drawn = self._random.random()
        for kind, share in SHARES.items():
            if drawn < share:
                return kind
            drawn -= share
        return None


def _bound(port: int) -> socket.socket:
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind((HOST, port))
    return made


def _completion(text: str) -> Response:
    message = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": 800, "completion_tokens": 80, "total_tokens": 880}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    return JSONResponse({"id": "x", "object": "chat.completion", "choices": choices, "usage": usage})
