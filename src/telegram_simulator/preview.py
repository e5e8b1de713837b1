"""The web face of a world: its public channels as preview pages on loopback, with the faults that such pages have."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from telegram_simulator.faults import Event, Fault, FaultBook
from telegram_simulator.model import Channel, File, Message
from telegram_simulator.pages import HOST, Site
from telegram_simulator.preview_markup import CHALLENGE, ERROR, Markup, grouped, landing
from telegram_simulator.world import World

PAGE_SIZE = 20
LOG_LENGTH = 20_000


class PreviewPages(Site):
    """t.me of a world. `left_out`: posts that exist, and that no page of history shows (by channel and message)."""

    def __init__(self, world: World, *, port: int = 0, faults: Iterable[Fault] = ()) -> None:
        super().__init__(port)
        self.faults = FaultBook(faults)
        self.left_out: set[tuple[int, int]] = set()
        self.asked: deque[str] = deque(maxlen=LOG_LENGTH)
        self.world = world
        self._markup = Markup(world, self._file_address)

    def expire_files(self) -> None:
        """The addresses of files that were shown so far are not valid any more."""
        self.world.expire_references()

    def _app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/file/{number:int}/{token}", self._file),
                Route("/s/{name}", self._history),
                Route("/{name}", self._name),
                Route("/{name}/{number:int}", self._post),
            ]
        )

    def _file_address(self, file: File) -> str:
        return f"http://{HOST}:{self.port}/file/{file.id}/{file.references[-1].hex()}.jpg"

    async def _file(self, request: Request) -> Response:
        if fault := self._hit("web.file", request, None):
            return _failing(fault, "")
        file = self.world.files.get(request.path_params["number"])
        if file is None or self._file_address(file) != str(request.url):
            return PlainTextResponse("gone", status_code=404)
        return Response(await asyncio.to_thread(lambda: file.data), media_type=file.mime)

    async def _history(self, request: Request) -> Response:
        channel = self._public(request)
        fault = self._hit("web.page", request, channel)
        if channel is None or (fault and fault.action == "web_no_preview"):
            return RedirectResponse(f"/{request.path_params['name']}")
        self.world.reveal()
        visible = [one for one in channel.messages.values() if (channel.id, one.id) not in self.left_out]
        shown = _window(visible, _id(request, "before"), _id(request, "after"))
        older = bool(shown) and shown[0].id > visible[0].id
        newer = bool(shown) and shown[-1].id < visible[-1].id
        page = self._markup.page(channel, shown, older=older, newer=newer)
        return _failing(fault, page) if fault else HTMLResponse(page)

    async def _name(self, request: Request) -> Response:
        found = self.world.by_username(request.path_params["name"])
        if found is None:
            return HTMLResponse(landing(None, said="If you have Telegram, you can contact this name right away."))
        if not isinstance(found, Channel):
            return HTMLResponse(landing(found.first_name, f"@{found.username}"))
        counted = f"{found.subscribers} {'members' if found.group else 'subscribers'}"
        return HTMLResponse(landing(found.title, counted, found.about))

    async def _post(self, request: Request) -> Response:
        channel = self._public(request)
        fault = self._hit("web.post", request, channel)
        message = None if channel is None else channel.messages.get(request.path_params["number"])
        if channel is None or message is None or (fault and fault.action == "web_soft_ban"):
            return HTMLResponse(ERROR)
        group = next(group for group in grouped(channel.messages.values()) if message in group)
        page = self._markup.post(channel, group)
        return _failing(fault, page) if fault else HTMLResponse(page)

    def _public(self, request: Request) -> Channel | None:
        found = self.world.by_username(request.path_params["name"])
        return found if isinstance(found, Channel) and not found.group and not found.private else None

    def _hit(self, method: str, request: Request, channel: Channel | None) -> Fault | None:
        self.asked.append(str(request.url).removeprefix(f"http://{HOST}:{self.port}"))
        name = channel.username.lower() if channel and channel.username else None
        return self.faults.pick(Event(method, channel_id=channel.id if channel else None, username=name))


def _window(visible: Sequence[Message], before: int, after: int) -> list[Message]:
    """Twenty messages, and the rest of an album that they cut. After 0 is as if nothing was said."""
    if after:
        start = next((place for place, one in enumerate(visible) if one.id > after), len(visible))
        stop = min(start + PAGE_SIZE, len(visible))
    else:
        stop = len(visible)
        if before:
            stop = next((place for place, one in enumerate(visible) if one.id >= before), len(visible))
        start = max(0, stop - PAGE_SIZE)
    while 0 < start < stop and _together(visible[start - 1], visible[start]):
        start -= 1
    while start < stop < len(visible) and _together(visible[stop - 1], visible[stop]):
        stop += 1
    return list(visible[start:stop])


def _together(one: Message, other: Message) -> bool:
    return one.grouped_id is not None and one.grouped_id == other.grouped_id


def _id(request: Request, name: str) -> int:
    value = request.query_params.get(name, "")
    return int(value) if value.isdecimal() else 0


def _failing(fault: Fault, page: str) -> Response:
    match fault.action:
        case "web_flood":
            return PlainTextResponse("slow down", status_code=429, headers={"Retry-After": f"{fault.seconds:.0f}"})
        case "web_error":
            return PlainTextResponse(fault.message, status_code=fault.code)
        case "web_challenge":
            return HTMLResponse(CHALLENGE)
        case "web_changed":
            return HTMLResponse(page.replace("data-post", "data-item"))
        case "web_cut":
            return HTMLResponse(page[: len(page) // 2])
        case _:
            return HTMLResponse(page)
