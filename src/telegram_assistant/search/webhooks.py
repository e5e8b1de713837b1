"""What is sent to the address of a stranger: one POST, signed, to public addresses only, never redirected."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import ssl
from collections.abc import Callable
from datetime import datetime

import httpcore

from telegram_assistant.crawl.network import CheckedNetwork, Resolver, ask_system
from telegram_assistant.domain.urls import NOBODY, Allowance, BadUrl, Url, forbidden, parse_url
from telegram_assistant.errors import Reject, Retry, Skip

SECONDS = 10.0  # for all of it
MOST_BYTES = 64 * 2**10  # of an answer, headers included
SIGNATURE = "X-TGA-Signature"
LONGEST_URL = 2_000


def new_secret() -> str:
    return f"whsec_{secrets.token_urlsafe(32)}"


def signature(secret: str, moment: datetime, body: bytes) -> str:
    """`t=<seconds>,v1=<HMAC-SHA256 of "<seconds>.<body>">`: an old request cannot be sent again as a new one."""
    seconds = str(int(moment.timestamp()))
    signed = hmac.new(secret.encode(), f"{seconds}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={seconds},v1={signed}"


class Webhooks:
    """Sends. Every name is looked up and checked anew for each request, and exactly that address is asked."""

    def __init__(
        self,
        *,
        agent: str,
        clock: Callable[[], datetime],
        allow: Allowance = NOBODY,
        resolve: Resolver = ask_system,
        tls: ssl.SSLContext | None = None,
        seconds: float = SECONDS,
    ) -> None:
        self._agent = agent
        self._clock = clock
        self._allow = allow
        self._resolve = resolve
        self._tls = tls or httpcore.default_ssl_context()
        self._seconds = seconds

    def checked(self, text: str) -> str:
        """The address as it will be asked. Raises Reject for one that never will be."""
        return str(self._permitted(text))

    async def send(self, url: str, secret: str, body: bytes) -> int:
        """The status of the answer, always 2xx. Raises Retry; Reject where another try would be the same."""
        here = self._permitted(url)
        try:
            async with asyncio.timeout(self._seconds):
                status = await self._post(here, secret, body)
        except TimeoutError as exc:
            raise Retry(f"{here.host} did not answer within {self._seconds:g} s") from exc
        except Skip as exc:
            raise Retry(str(exc)) from exc
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException) as exc:
            raise Retry(f"{here.host}: {type(exc).__name__} {exc}".strip()) from exc
        if 300 <= status < 400:
            raise Retry(f"{here.host} answered {status}: redirects are not followed")
        if not 200 <= status < 300:
            raise Retry(f"{here.host} answered {status}")
        return status

    def _permitted(self, text: str) -> Url:
        if len(text) > LONGEST_URL:
            raise Reject(f"the address is longer than {LONGEST_URL} characters")
        try:
            url = parse_url(text)
        except BadUrl as exc:
            raise Reject(str(exc)) from exc
        why = forbidden(url, self._allow)
        if why:
            raise Reject(why)
        return url

    async def _post(self, url: Url, secret: str, body: bytes) -> int:
        network = CheckedNetwork(self._resolve, allow=self._allow, allowed=MOST_BYTES, beneath=httpcore.AnyIOBackend())
        host = url.host.encode("ascii")
        connection = httpcore.AsyncHTTPConnection(
            httpcore.Origin(url.scheme.encode("ascii"), host, url.port), self._tls, network_backend=network
        )
        headers = {
            "Host": url.authority,
            "User-Agent": self._agent,
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            "Connection": "close",
            SIGNATURE: signature(secret, self._clock(), body),
        }
        request = httpcore.Request(
            b"POST",
            httpcore.URL(scheme=url.scheme, host=host, port=url.port, target=url.target),
            headers=list(headers.items()),
            content=body,
            extensions={"timeout": {"connect": self._seconds}},
        )
        try:
            # Of the answer only the status matters: its body is not even read.
            return (await connection.handle_async_request(request)).status
        finally:
            await connection.aclose()
            await network.close()
