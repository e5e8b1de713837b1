"""A small internet: raw servers on loopback that do what they like, behind public addresses and names of our choice."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import httpcore
import pytest

from telegram_assistant.crawl.fetcher import Fetcher, Limits
from telegram_assistant.crawl.robots import Robots

START = datetime(2026, 1, 5, 12, tzinfo=UTC)
PUBLIC = "93.184.216."
NO_TLS = ssl.SSLContext(
    ssl.PROTOCOL_TLS_CLIENT
)  # loading all authorities for each fetcher would take longer than a test


@dataclass(frozen=True)
class Asked:
    """A request as a server saw it."""

    target: str
    headers: dict[str, str]


Handler = Callable[[Asked, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Server:
    """One loopback server. `pages` holds whole answers by path, or functions that write what they like."""

    port: int = 0
    pages: dict[str, bytes | Handler] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    names: list[str | None] = field(default_factory=list)  # that clients asked for in their TLS greeting
    greeting: bytes = b""  # said before anything was asked, and then nothing more
    _server: asyncio.Server | None = None

    @property
    def paths(self) -> list[str]:
        return [asked.target for asked in self.asked]

    async def start(self, tls: ssl.SSLContext | None = None) -> None:
        if tls is not None:
            tls.sni_callback = lambda _socket, name, _context: self.names.append(name)
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self.greeting:
                writer.write(self.greeting)
                return
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.split("\r\n")
            headers = {
                name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)
            }
            asked = Asked(first.split(" ")[1], headers)
            self.asked.append(asked)
            answer = self.pages.get(asked.target.partition("?")[0], response(status=404))
            if isinstance(answer, bytes):
                writer.write(answer)
                await writer.drain()
            else:
                await answer(asked, writer)
        except (OSError, EOFError):
            pass  # the client had enough
        finally:
            writer.close()


def response(
    body: bytes | str = b"",
    status: int = 200,
    kind: str = "text/html; charset=utf-8",
    headers: Iterable[tuple[str, str]] = (),
    *,
    length: bool = True,
) -> bytes:
    content = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status} X", *([f"Content-Type: {kind}"] if kind else [])]
    lines += [f"Content-Length: {len(content)}"] if length else []
    lines += [f"{name}: {value}" for name, value in headers]
    return "\r\n".join([*lines, "", ""]).encode() + content


def article(title: str = "Погода", paragraphs: int = 5, head: str = "", lang: str = "ru") -> str:
    text = "Российские учёные представили новую модель, которая предсказывает погоду на неделю вперёд."
    body = "".join(f"<p>Абзац номер {number}. {text}</p>" for number in range(paragraphs))
    return (
        f'<html lang="{lang}"><head><title>{title}</title>{head}</head><body><nav><a href="/">Меню сайта</a></nav>'
        f"<article><h1>{title}</h1>{body}</article><footer>Подвал</footer></body></html>"
    )


class Wire(httpcore.AsyncNetworkBackend):
    """The cable: public addresses are those of our servers; it remembers what was dialled."""

    def __init__(self) -> None:
        self.dialled: list[tuple[str, int]] = []
        self.servers: dict[str, Server] = {}

    async def connect_tcp(self, host: str, port: int, *args: Any, **options: Any) -> httpcore.AsyncNetworkStream:
        self.dialled.append((host, port))
        server = self.servers.get(host)
        if server is None and not host.startswith("127."):
            raise httpcore.ConnectError(f"nobody is at {host}")
        there = ("127.0.0.1", server.port) if server else (host, port)
        return await httpcore.AnyIOBackend().connect_tcp(*there, *args, **options)


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now

    def pass_by(self, **span: float) -> None:
        self.now += timedelta(**span)


class Internet:
    """Names, addresses and servers."""

    response = staticmethod(response)
    article = staticmethod(article)

    def __init__(self) -> None:
        self.wire = Wire()
        self.clock = Clock()
        self.names: dict[str, list[list[str]]] = {}  # answers in turn, the last one for ever
        self.looked_up: list[str] = []
        self._servers: list[Server] = []

    async def site(self, name: str, tls: ssl.SSLContext | None = None, **pages: bytes | Handler) -> Server:
        """A site with a public address; pages by path without its first slash, dots as underscores."""
        server = await self.server(tls)
        server.pages |= {f"/{path}": page for path, page in pages.items()}
        address = f"{PUBLIC}{len(self._servers)}"
        self.wire.servers[address] = server
        self.names[name] = [[address]]
        return server

    async def server(self, tls: ssl.SSLContext | None = None) -> Server:
        """A server on loopback that nobody may reach."""
        server = Server()
        await server.start(tls)
        self._servers.append(server)
        return server

    async def resolve(self, host: str, _port: int) -> list[str]:
        self.looked_up.append(host)
        answers = self.names.get(host, [[host]])  # an address stands for itself
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def fetcher(
        self, *, allow: Iterable[tuple[str, int]] = (), tls: ssl.SSLContext | None = None, **limits: Any
    ) -> Fetcher:
        return Fetcher(
            agent="TelegramAssistant/test (+https://owner.test)",
            limits=Limits(**{"total_seconds": 10.0, "connect_seconds": 5.0, **limits}),
            allow=frozenset(allow),
            resolve=self.resolve,
            network=self.wire,
            tls=tls or NO_TLS,
        )

    def robots(self, most_sites: int = 100, **limits: Any) -> Robots:
        return Robots(self.fetcher(**limits), clock=self.clock, most_sites=most_sites)

    async def stop(self) -> None:
        for server in self._servers:
            await server.stop()


@pytest.fixture
def new_internet() -> type[Internet]:
    """For tests that share a loop."""
    return Internet


@pytest.fixture
async def internet() -> AsyncIterator[Internet]:
    made = Internet()
    yield made
    await made.stop()
