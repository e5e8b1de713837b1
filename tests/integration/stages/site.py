"""A web site on loopback: a few pages, a robots.txt, and a memory of what was asked for."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

ROBOTS = "User-agent: *\nDisallow: /private/\n"
SECRET = "<script>alert(1)</script><img src=x onerror=alert(2)>"  # what no table may ever hold


def article(title: str, text: str) -> str:
    paragraphs = "".join(f"<p>{text} Абзац номер {number}.</p>" for number in range(4))
    return (
        f"<html><head><title>{title}</title><style>p {{color: red}}</style></head><body><nav>Меню</nav>{SECRET}"
        f"<article><h1>{title}</h1>{paragraphs}</article></body></html>"
    )


@dataclass
class Site:
    """Serves what is in `pages`; with an ETag when the page has one."""

    pages: dict[str, str] = field(default_factory=dict)
    status: dict[str, int] = field(default_factory=dict)
    etags: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    port: int = 0
    _server: asyncio.Server | None = None

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def begin_anew(self) -> None:
        for memory in (self.pages, self.status, self.etags):
            memory.clear()
        self.asked.clear()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        path = head.split(" ")[1]
        if path != "/robots.txt":
            self.asked.append(path)
        writer.write(self._answer(path, head.lower()))
        await writer.drain()
        writer.close()

    def _answer(self, path: str, head: str) -> bytes:
        etag = self.etags.get(path)
        if etag and f"if-none-match: {etag}" in head:
            return _response(304, "", etag)
        if path == "/robots.txt":
            return _response(200, ROBOTS, None, "text/plain")
        found = self.pages.get(path)
        status = self.status.get(path, 200 if found is not None else 404)
        return _response(status, found or "", etag)


def _response(status: int, body: str, etag: str | None, kind: str = "text/html; charset=utf-8") -> bytes:
    content = body.encode()
    lines = [f"HTTP/1.1 {status} X", f"Content-Type: {kind}", f"Content-Length: {len(content)}", "Connection: close"]
    lines += [f"ETag: {etag}"] if etag else []
    return "\r\n".join([*lines, "", ""]).encode() + content
