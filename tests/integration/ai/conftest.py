"""Servers on loopback that speak the providers' real APIs, with troubles on demand, and the one local worker."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from email import message_from_bytes
from email.policy import HTTP
from typing import Any
from urllib.parse import parse_qsl

import pytest
import pytest_asyncio
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from telegram_assistant.ai.local.provider import ModelProcess
from telegram_assistant.ai.providers import (
    GIGACHAT_DEFAULTS,
    OPENAI_DEFAULTS,
    Models,
    ModelsConfig,
    Provider,
    build_models,
)
from telegram_assistant.ai.remote.connections import GigaChatAccount, OpenAiServer
from telegram_assistant.ai.remote.gate import CallLimits
from telegram_assistant.ai.spend import ModelBudget, Price
from telegram_assistant.domain.retries import Backoff

KEY = "test-key-1234"
CREDENTIALS = "dGVzdDprZXk="
QUICK = CallLimits(concurrency=3, backoff=Backoff(base=0.01, cap=0.02), waits_here=0.5, failures=3)

Step = Callable[[Request], Awaitable[Response]]
Brain = Callable[[str, str], str]  # (system, data) -> what the model writes


def failing(status: int, body: object = "", **headers: str) -> Step:
    """An answer with that status."""

    async def step(_: Request) -> Response:
        content = body if isinstance(body, str) else json.dumps(body)
        return Response(content, status, {name.replace("_", "-"): value for name, value in headers.items()})

    return step


@dataclass
class Fake:
    """What both servers have: a brain, troubles that come first, and what was asked."""

    brain: Brain = lambda _system, _data: '{"tags": []}'
    troubles: deque[Step] = field(default_factory=deque)
    asked: list[dict[str, Any]] = field(default_factory=list)
    size: int = 8
    url: str = ""
    forever: asyncio.Event = field(default_factory=asyncio.Event)
    inside: int = 0
    most_inside: int = 0

    async def slow(self, _: Request) -> Response:
        """No answer while the test runs."""
        await self.forever.wait()
        return Response(status_code=500)

    def vector(self, text: str) -> list[float]:
        return [float(ord(char) % 7) for char in f"{text:>{self.size}}"[-self.size :]]

    async def entered(self, request: Request) -> Response | None:
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        await asyncio.sleep(0)
        self.inside -= 1
        return await self.troubles.popleft()(request) if self.troubles else None

    def remember(self, request: Request, body: dict[str, Any]) -> None:
        self.asked.append({"path": request.url.path, "key": request.headers.get("authorization"), **body})

    @property
    def systems(self) -> list[str]:
        return [body["messages"][0]["content"] for body in self.asked if "messages" in body]


@dataclass
class FakeOpenAi(Fake):
    """/v1/chat/completions and /v1/embeddings."""

    usage: Any = field(default_factory=lambda: {"prompt_tokens": 400, "completion_tokens": 20, "total_tokens": 420})

    def app(self) -> Starlette:
        paths = {"/v1/chat/completions": self._chat, "/v1/embeddings": self._embeddings}
        return Starlette(routes=[Route(path, handler, methods=["POST"]) for path, handler in paths.items()])

    async def _chat(self, request: Request) -> Response:
        body = await request.json()
        self.remember(request, body)
        if trouble := await self.entered(request):
            return trouble
        if request.headers.get("authorization") != f"Bearer {KEY}":
            return JSONResponse({"error": {"message": "Incorrect API key provided"}}, 401)
        system, data = (message["content"] for message in body["messages"])
        words = data if isinstance(data, str) else data[0]["text"]
        message = {"role": "assistant", "content": self.brain(system, words)}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return JSONResponse({"id": "x", "object": "chat.completion", "choices": [choice], "usage": self.usage})

    async def _embeddings(self, request: Request) -> Response:
        body = await request.json()
        self.remember(request, body)
        if trouble := await self.entered(request):
            return trouble
        data = [
            {"object": "embedding", "index": number, "embedding": self.vector(text)}
            for number, text in enumerate(body["input"])
        ]
        tokens = max(7, sum(map(len, body["input"])) // 4)
        usage = {"prompt_tokens": tokens, "total_tokens": tokens} if self.usage else None
        return JSONResponse({"object": "list", "data": data[::-1], "usage": usage})


@dataclass
class FakeGigaChat(Fake):
    """OAuth, /api/v1/chat/completions, files and embeddings. Tokens end when the test says so."""

    token: str = ""
    tokens_given: int = 0
    lifetime: float = 1800.0
    files: dict[str, bytes] = field(default_factory=dict)
    uploads: list[tuple[str, bytes]] = field(default_factory=list)

    def app(self) -> Starlette:
        paths = {
            "/oauth": self._oauth,
            "/api/v1/chat/completions": self._chat,
            "/api/v1/embeddings": self._embeddings,
            "/api/v1/files": self._upload,
            "/api/v1/files/{id}/delete": self._delete,
        }
        return Starlette(routes=[Route(path, handler, methods=["POST"]) for path, handler in paths.items()])

    async def _oauth(self, request: Request) -> Response:
        form = dict(parse_qsl((await request.body()).decode()))
        if request.headers.get("authorization") != f"Basic {CREDENTIALS}" or not request.headers.get("rquid"):
            return JSONResponse({"code": 6, "message": "credentials doesn't match db data"}, 401)
        self.asked.append({"path": "/oauth", "scope": form["scope"]})
        self.tokens_given += 1
        self.token = f"token-{self.tokens_given}"
        return JSONResponse({"access_token": self.token, "expires_at": int((time.time() + self.lifetime) * 1000)})

    async def _allowed(self, request: Request, body: dict[str, Any]) -> Response | None:
        self.remember(request, body)
        if request.headers.get("authorization") != f"Bearer {self.token}":
            return JSONResponse({"status": 401, "message": "Token has expired"}, 401)
        return await self.entered(request)

    async def _chat(self, request: Request) -> Response:
        body = await request.json()
        if trouble := await self._allowed(request, body):
            return trouble
        system, user = body["messages"]
        if any(file not in self.files for file in user.get("attachments") or []):
            return JSONResponse({"status": 404, "message": "no such file"}, 404)
        return self.completion(self.brain(system["content"], user["content"]))

    def completion(self, text: str, finish_reason: str = "stop") -> Response:
        choice = {"message": {"role": "assistant", "content": text}, "index": 0, "finish_reason": finish_reason}
        usage = {"prompt_tokens": 390, "completion_tokens": 60, "total_tokens": 450}
        rest = {"created": 1, "model": "GigaChat-2:2", "object": "chat.completion", "usage": usage}
        return JSONResponse({"choices": [choice], **rest})

    async def _upload(self, request: Request) -> Response:
        body = await request.body()
        if trouble := await self._allowed(request, {}):
            return trouble
        head = f"Content-Type: {request.headers['content-type']}\r\n\r\n".encode()
        parts = message_from_bytes(head + body, policy=HTTP).iter_parts()
        (file,) = [part for part in parts if part.get_filename()]
        content = file.get_payload(decode=True)
        assert isinstance(content, bytes)
        name = f"file-{len(self.uploads)}"
        self.files[name] = content
        self.uploads.append((file.get_content_type(), content))
        about = {"bytes": len(content), "created_at": 1, "filename": file.get_filename(), "purpose": "general"}
        return JSONResponse({"id": name, "object": "file", **about})

    async def _delete(self, request: Request) -> Response:
        if trouble := await self._allowed(request, {}):
            return trouble
        self.files.pop(request.path_params["id"])
        return JSONResponse({"id": request.path_params["id"], "deleted": True})

    async def _embeddings(self, request: Request) -> Response:
        body = await request.json()
        if trouble := await self._allowed(request, body):
            return trouble
        data = [
            {
                "object": "embedding",
                "index": number,
                "embedding": self.vector(text),
                "usage": {"prompt_tokens": len(text) // 4},
            }
            for number, text in enumerate(body["input"])
        ]
        return JSONResponse({"object": "list", "data": data, "model": body["model"]})


async def _started(server: uvicorn.Server) -> None:
    for _ in range(2_000):
        if server.started:
            return
        await asyncio.sleep(0.005)
    raise AssertionError("the server does not start")


@asynccontextmanager
async def listening(fake: FakeOpenAi | FakeGigaChat, tls: dict[str, Any] | None = None) -> AsyncIterator[None]:
    """The server, on a free port of loopback."""
    config = uvicorn.Config(fake.app(), log_level="error", lifespan="off", ws="none", **(tls or {}))
    server = uvicorn.Server(config)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        fake.url = f"{'https' if tls else 'http'}://127.0.0.1:{listener.getsockname()[1]}"
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            await _started(server)
            yield
        finally:
            fake.forever.set()
            server.should_exit = server.force_exit = True
            await serving


@pytest.fixture
async def openai() -> AsyncIterator[FakeOpenAi]:
    fake = FakeOpenAi()
    async with listening(fake):
        yield fake


@pytest.fixture
async def gigachat() -> AsyncIterator[FakeGigaChat]:
    fake = FakeGigaChat()
    async with listening(fake):
        yield fake


class NoEyes:
    """The local describer is not asked here."""

    identity = property()

    async def describe(self, picture: object) -> Any:
        raise AssertionError(picture)


def openai_models(
    fake: Fake, *, timeout: float = 10.0, key: str = KEY, budget: ModelBudget | None = None, **changes: Any
) -> Models:
    """Every ability by the fake OpenAI."""
    config = replace(OPENAI_DEFAULTS, embedding_size=fake.size, price=Price(1.0, 2.0), limits=QUICK, **changes)
    server = OpenAiServer(base_url=f"{fake.url}/v1", api_key=key, timeout=timeout)
    return _models(ModelsConfig(**_all(Provider.OPENAI), openai_server=server, openai=config), budget)


def gigachat_models(fake: Fake, *, timeout: float = 10.0, credentials: str = CREDENTIALS, **account: Any) -> Models:
    """Every ability by the fake GigaChat."""
    config = replace(GIGACHAT_DEFAULTS, embedding_size=fake.size, price=Price(1.0, 2.0), limits=QUICK)
    account |= {"base_url": f"{fake.url}/api/v1", "auth_url": f"{fake.url}/oauth"}
    known = GigaChatAccount(credentials=credentials, timeout=timeout, **account)
    return _models(ModelsConfig(**_all(Provider.GIGACHAT), gigachat_account=known, gigachat=config))


def _all(provider: Provider) -> dict[str, Any]:
    return dict.fromkeys(("tag", "describe", "embed", "answer"), provider)


def _models(config: ModelsConfig, budget: ModelBudget | None = None) -> Models:
    return build_models(config, NoEyes(), budget)


@pytest.fixture
async def make() -> AsyncIterator[Callable[..., Models]]:
    """Builds models for a fake server, and closes them."""
    made: list[Models] = []

    def build(fake: Fake, **options: Any) -> Models:
        models = openai_models(fake, **options) if isinstance(fake, FakeOpenAi) else gigachat_models(fake, **options)
        made.append(models)
        return models

    yield build
    for models in made:
        await models.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def worker() -> AsyncIterator[ModelProcess]:
    """The real local models, loaded once for all tests of this process."""
    process = ModelProcess()
    yield process
    await process.close()


@pytest.fixture
def fail() -> Callable[..., Step]:
    return failing


@pytest.fixture
def secure() -> Callable[..., Any]:
    return listening


@pytest.fixture
def gigachat_class() -> type[FakeGigaChat]:
    return FakeGigaChat
