"""A model server on loopback that speaks OpenAI's API, well or badly."""

from __future__ import annotations

import asyncio
import json
import socket
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from hashlib import sha256
from typing import Literal

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from faults.gate import Gate

HOST = "127.0.0.1"
SIZE = 32  # numbers in a vector
MOST_TAGS = 3

Mode = Literal["well", "garbage", "zeros", "negative"]


class QuietServer(uvicorn.Server):
    """uvicorn without its signal handlers: Ctrl-C is for the run."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class ModelServer:
    """Tags are words of the post, vectors are made from its digest. `mode` makes it answer nonsense."""

    def __init__(self) -> None:
        self.mode: Mode = "well"
        self.asked: Counter[str] = Counter()  # how often the same text was sent
        self.app = Starlette(
            routes=[
                Route("/v1/chat/completions", self._chat, methods=["POST"]),
                Route("/v1/embeddings", self._embeddings, methods=["POST"]),
            ]
        )

    async def _chat(self, request: Request) -> Response:
        body = await request.json()
        text = str(body["messages"][-1]["content"])
        self.asked[text] += 1
        if self.mode == "garbage":
            return _completion("I had rather talk about the weather.")
        words = [word for word in text.split() if word.isalpha() and len(word) > 5]
        tags = list(dict.fromkeys(words))[:MOST_TAGS]
        used = -1_000_000 if self.mode == "negative" else 120
        return _completion(json.dumps({"tags": tags, "topics": [], "entities": [], "language": "en"}), used)

    async def _embeddings(self, request: Request) -> Response:
        texts = (await request.json())["input"]
        if self.mode == "garbage":
            return Response("<html>gateway</html>")
        data = [{"index": index, "embedding": self._vector(text)} for index, text in enumerate(texts)]
        return JSONResponse({"data": data, "usage": {"prompt_tokens": 10 * len(texts), "total_tokens": 0}})

    def _vector(self, text: str) -> list[float]:
        if self.mode == "zeros":
            return [0.0] * SIZE
        return [round(byte / 128 - 1, 3) for byte in sha256(text.encode()).digest()[:SIZE]]


def _completion(text: str, used: int = 120) -> Response:
    message = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": used - 20, "completion_tokens": 20, "total_tokens": used}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    return JSONResponse({"id": "x", "object": "chat.completion", "choices": choices, "usage": usage})


@asynccontextmanager
async def model_server() -> AsyncIterator[tuple[ModelServer, Gate]]:
    """The server, and the gate that it is reached by."""
    models = ModelServer()
    server = QuietServer(uvicorn.Config(models.app, log_level="critical", lifespan="off", ws="none"))
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        serving = asyncio.ensure_future(server.serve(sockets=[listener]))
        gate = Gate(listener.getsockname()[1])
        await gate.start()
        try:
            yield models, gate
        finally:
            await gate.stop()
            server.should_exit = server.force_exit = True
            await serving
