"""One POST to an address of a stranger: checked as those of pages are, never redirected, its answer read a little."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import httpcore

from telegram_assistant.crawl.network import CheckedNetwork, Resolver, ask_system
from telegram_assistant.domain.urls import NO_HOSTS, Allowance, BadUrl, Url, forbidden, parse_url
from telegram_assistant.errors import Reject, Retry, Skip

SECONDS = 10.0  # for all of it
MOST_BYTES = 64 * 2**10  # of an answer, headers included
LONGEST_SHOWN = 200
NONE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    text: str

    @property
    def shown(self) -> str:
        said = " ".join(self.text.split())[:LONGEST_SHOWN]
        return f"{self.status} {said}".strip()


class Poster:
    """Every name is looked up and checked anew for each request, and exactly that address is asked."""

    def __init__(
        self,
        *,
        agent: str,
        allow: Allowance = NO_HOSTS,
        resolve: Resolver = ask_system,
        tls: ssl.SSLContext | None = None,
        seconds: float = SECONDS,
    ) -> None:
        self.allow = allow
        self._agent = agent
        self._resolve = resolve
        self._tls = tls or httpcore.default_ssl_context()
        self._seconds = seconds

    def permitted(self, text: str) -> Url:
        """Raises Reject for an address that is never asked: private ones, except where loopback is allowed."""
        try:
            url = parse_url(text)
        except BadUrl as exc:
            raise Reject(str(exc)) from exc
        why = forbidden(url, self.allow)
        if why:
            raise Reject(why)
        return url

    def checked(self, text: str) -> Url:
        """The same for what must not be read on its way."""
        url = self.permitted(text)
        if url.scheme != "https" and (url.host, url.port) not in self.allow:
            raise Reject("the address must begin with https://")
        return url

    async def post(self, url: Url, body: bytes, headers: Mapping[str, str] = NONE, *, read: bool = True) -> Answer:
        """JSON. Raises Retry when nothing comes back. `read` False: of the answer only the status matters."""
        try:
            async with asyncio.timeout(self._seconds):
                return await self._post(url, body, headers, read)
        except TimeoutError as exc:
            raise Retry(f"{url.host} did not answer within {self._seconds:g} s") from exc
        except Skip as exc:
            raise Retry(str(exc)) from exc
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException) as exc:
            raise Retry(f"{url.host}: {type(exc).__name__} {exc}".strip()) from exc

    async def _post(self, url: Url, body: bytes, more: Mapping[str, str], read: bool) -> Answer:
        network = CheckedNetwork(self._resolve, allow=self.allow, allowed=MOST_BYTES, beneath=httpcore.AnyIOBackend())
        host = url.host.encode("ascii")
        connection = httpcore.AsyncHTTPConnection(
            httpcore.Origin(url.scheme.encode("ascii"), host, url.port), self._tls, network_backend=network
        )
        headers = {
            "Host": url.authority,
            "User-Agent": self._agent,
            "Content-Type": "application/json; charset=utf-8",
            "Content-Length": str(len(body)),
            "Connection": "close",
            **more,
        }
        request = httpcore.Request(
            b"POST",
            httpcore.URL(scheme=url.scheme, host=host, port=url.port, target=url.target),
            headers=list(headers.items()),
            content=body,
            extensions={"timeout": {"connect": self._seconds}},
        )
        try:
            response = await connection.handle_async_request(request)
            content = await response.aread() if read else b""
        finally:
            await connection.aclose()
            await network.close()
        found = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
        return Answer(response.status, found, content.decode("utf-8", "replace"))
