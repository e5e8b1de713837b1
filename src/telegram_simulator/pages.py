"""The web pages that the posts of a world link to, served on loopback, so that a crawler has something real to read."""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import socket
from abc import ABC, abstractmethod
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from hashlib import sha256
from html import escape
from typing import Self

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from telegram_simulator.archive import Archive
from telegram_simulator.article import Article, article_html, page_html, write_article
from telegram_simulator.voices import TOPICS
from telegram_simulator.world import World

HOST = "127.0.0.1"
PORTS = (20_000, 32_000)  # below those that systems give to connections, so that a port is still free later
ROBOTS = "User-agent: *\nDisallow: /private/\n"
SITE = "Simulated News"  # the front pages; an article names the channel that it is by
HEADLINES = 30  # on a front page
NAME = re.compile(r"(?P<kind>[a-z]+)-(?P<id>[0-9]{1,18})(?P<picture>\.jpg)?")


class Site(ABC):
    """Pages on loopback. Stopping and starting again keeps the port."""

    def __init__(self, port: int = 0) -> None:
        self._port = port
        self._server: _Server | None = None
        self._serving: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        if not self._port:
            raise RuntimeError("the pages have no port before they are started")
        return self._port

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.port}"

    async def start(self) -> None:
        """Raises OSError where the port is taken."""
        listener = _listen(self._port)
        self._port = listener.getsockname()[1]
        self._server = _Server(
            uvicorn.Config(
                self._app(), log_config=None, access_log=False, lifespan="off", ws="none", timeout_graceful_shutdown=1
            )
        )
        # Who connects from now on is answered in a moment: the port is ours already.
        self._serving = asyncio.get_running_loop().create_task(self._server.serve(sockets=[listener]))

    async def stop(self) -> None:
        if self._server is None or self._serving is None:
            return
        self._server.should_exit = True
        serving, self._server, self._serving = self._serving, None, None
        await serving

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.stop()

    @abstractmethod
    def _app(self) -> Starlette: ...


class Pages(Site):
    """One site for all channels of a world."""

    def __init__(self, world: World, archive: Archive, *, link_host: str, port: int = 0) -> None:
        super().__init__(port)
        self._world = world
        self._archive = archive
        self._link_host = link_host

    def _app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/robots.txt", self._robots),
                Route("/private/{path:path}", self._private),
                Route("/", self._front),
                Route("/{topic}", self._front),
                Route("/{topic}/{name}", self._page),
            ]
        )

    async def _robots(self, _: Request) -> Response:
        return PlainTextResponse(ROBOTS)

    async def _private(self, request: Request) -> Response:
        """A client that obeys robots.txt does not ask for it."""
        return _html(request, page_html("en", "Drafts", "Drafts", "<p>For the newsroom only.</p>"))

    async def _front(self, request: Request) -> Response:
        topic = request.path_params.get("topic")
        if topic not in (None, *TOPICS):
            raise HTTPException(404)
        articles = [a for story in self._archive.newest(HEADLINES, topic) if (a := self._article(story.id)) is not None]
        items = "\n".join(
            f'<li lang="{a.language}"><a href="{escape(a.address)}">{escape(a.title)}</a></li>' for a in articles
        )
        language = articles[0].language if articles else "en"
        return _html(request, page_html(language, SITE, topic or SITE, f"<ul>\n{items}\n</ul>"))

    async def _page(self, request: Request) -> Response:
        name = NAME.fullmatch(request.path_params["name"])
        article = None if name is None else self._article(int(name["id"]))
        if name is None or article is None or not article.address.endswith(_path(request, name)):
            raise HTTPException(404)
        if name["picture"]:
            data = await asyncio.to_thread(article.picture)
            return _conditional(request, Response(data, media_type="image/jpeg"), article.published)
        return _html(request, article_html(article), article.published)

    def _article(self, story_id: int) -> Article | None:
        story = self._archive.get(story_id)
        if story is None:
            return None
        return write_article(story, self._world.channels[story.first_channel], self._link_host)


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: the code that started it stops it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def free_port(preferred: int = 0) -> int:
    """A port that no process listens on now: the preferred one, else any."""
    for port in (preferred, *(PORTS[0] + secrets.randbelow(PORTS[1] - PORTS[0]) for _ in range(50))):
        if port:
            with contextlib.suppress(OSError), _listen(port):
                return port
    with _listen(0) as listener:
        return int(listener.getsockname()[1])


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen(128)
    except OSError:
        listener.close()
        raise
    return listener


def _path(request: Request, name: re.Match[str]) -> str:
    """The path of the page itself, also where its picture is asked for."""
    return f"/{request.path_params['topic']}/{name['kind']}-{name['id']}"


def _html(request: Request, html: str, modified: datetime | None = None) -> Response:
    return _conditional(request, Response(html, media_type="text/html"), modified)


def _conditional(request: Request, response: Response, modified: datetime | None) -> Response:
    """The response, or 304 for who has it already."""
    headers = {"ETag": f'"{sha256(response.body).hexdigest()[:32]}"'}
    if modified is not None:
        headers["Last-Modified"] = format_datetime(modified.astimezone(UTC), usegmt=True)
    if _has_it(request, headers["ETag"], modified):
        return Response(status_code=304, headers=headers)
    response.headers.update(headers)
    return response


def _has_it(request: Request, etag: str, modified: datetime | None) -> bool:
    known = request.headers.get("If-None-Match")
    if known is not None:  # then the date is not looked at
        return known.strip() == "*" or etag in {tag.strip().removeprefix("W/") for tag in known.split(",")}
    since = request.headers.get("If-Modified-Since")
    if since is None or modified is None:
        return False
    try:
        return modified <= parsedate_to_datetime(since)
    except (ValueError, TypeError):  # no date, or one without a zone
        return False
