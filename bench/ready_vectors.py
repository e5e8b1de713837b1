"""`python -m bench.ready_vectors SIZE`: an OpenAI-compatible server that gives every text the same vector, at once.

In place of a model, to see what all the rest costs. Prints its port, and ends when its input ends.
"""

from __future__ import annotations

import asyncio
import socket
import sys

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


class Texts(msgspec.Struct):
    """What an embedding is asked for."""

    input: list[str]


def answer(size: int, texts: int) -> bytes:
    vector = [round(0.5 - number / size, 4) for number in range(size)]
    data = [{"object": "embedding", "index": index, "embedding": vector} for index in range(texts)]
    return msgspec.json.encode({"object": "list", "data": data, "usage": {"prompt_tokens": 0, "total_tokens": 0}})


async def serve(size: int) -> None:
    ready: dict[int, bytes] = {}

    async def embeddings(request: Request) -> Response:
        texts = len(msgspec.json.decode(await request.body(), type=Texts).input)
        if texts not in ready:
            ready[texts] = answer(size, texts)
        return Response(ready[texts], media_type="application/json")

    app = Starlette(routes=[Route("/v1/embeddings", embeddings, methods=["POST"])])
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off", ws="none"))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        print(listener.getsockname()[1], flush=True)
        serving = asyncio.ensure_future(server.serve(sockets=[listener]))
        await asyncio.to_thread(sys.stdin.read)
        server.should_exit = True
        await serving


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
