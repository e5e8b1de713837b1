"""What stands before every request and after every answer: a limit on what is sent to us, and headers of safety.

Plain ASGI: what streams for hours must not pass through a wrapper around whole answers.
"""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LONGEST_BODY = 2**20  # the longest form has a few kilobytes
FILES = "/import/files/"  # what is sent there with PUT goes to the disk, and is limited there; no form can send it
# Nothing from outside, no script but our own files, no frames.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; connect-src 'self';"
    " font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "private, no-cache",
}


class SafeHeaders:
    """On every answer, unless a route says otherwise. Those to bugs are made further outside and have their own."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, with_headers if scope["type"] == "http" else send)


class BodyLimit:
    """Keeps memory free: a body that is said to be too long is not read, one that turns out to be is not read on."""

    def __init__(self, app: ASGIApp, limit: int = LONGEST_BODY) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or (scope["method"] == "PUT" and scope["path"].startswith(FILES)):
            await self._app(scope, receive, send)
            return
        declared = Headers(scope=scope).get("content-length", "")
        left = self._limit

        async def limited() -> Message:
            nonlocal left
            if declared.isdecimal() and int(declared) > self._limit:
                raise self._too_long()
            message = await receive()
            left -= len(message.get("body", b""))
            if left < 0:
                raise self._too_long()
            return message

        await self._app(scope, limited, send)

    def _too_long(self) -> HTTPException:
        words = f"More than {self._limit} bytes were sent"
        return HTTPException(413, words, headers={"Connection": "close"})
