"""`/alerts`: what changed or went wrong, watched posts, and for admins where alerts are sent."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from markupsafe import Markup

from telegram_assistant.domain.access import Caller
from telegram_assistant.domain.alerting import LONGEST_NAME, Notice, Topic, Way
from telegram_assistant.errors import Reject, Retry
from telegram_assistant.http.answers import Cursor, read_notice, write_notice
from telegram_assistant.http.dependencies import AdminDep, CallerDep, PlaceDep, PlacesDep, PostId, ServicesDep
from telegram_assistant.http.web.page import fragment, page
from telegram_assistant.http.web.rendering import diff
from telegram_assistant.services.problems import not_found
from telegram_assistant.services.services import Services
from telegram_assistant.stores.postgres.alerts import AlertChannels, AlertDeliveries, Notices
from telegram_assistant.stores.postgres.watched_posts import WatchedPosts

ON_A_PAGE = 20
DELIVERIES = 30

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class ShownNotice:
    """With what an edit changed, as far as that is kept and seen."""

    notice: Notice
    change: Markup | None

    @property
    def code(self) -> str:
        return str(self.notice.content.get("code", ""))


@router.get("/alerts")
async def alerts(request: Request, services: ServicesDep, caller: CallerDep, cursor: Cursor = None) -> HTMLResponse:
    return await _page(request, services, caller, cursor=cursor)


@router.post("/alerts/read")
async def read(services: ServicesDep, caller: CallerDep) -> RedirectResponse:
    await Notices(services.database).read(caller.tenant_id, caller.user_id)
    return _back()


@router.get("/alerts/watch/{post_id}")
async def watch_button(request: Request, services: ServicesDep, caller: CallerDep, post_id: PostId) -> HTMLResponse:
    """A piece of the page of a post."""
    return await _button(request, services, caller, post_id)


@router.post("/alerts/watch/{post_id}")
async def watch(request: Request, services: ServicesDep, caller: CallerDep, post_id: PostId) -> Response:
    """Watch it, or no more."""
    posts = WatchedPosts(services.database)
    if not await posts.unwatch(caller.tenant_id, caller.user_id, post_id) and not await posts.watch(
        caller.tenant_id, caller.user_id, post_id
    ):
        raise not_found("post")
    if "hx-request" in request.headers:
        return await _button(request, services, caller, post_id)
    return _back("#watched")


@router.post("/alerts/places")
async def add_place(
    request: Request,
    services: ServicesDep,
    admin: AdminDep,
    desk: PlacesDep,
    kind: Annotated[Way, Form()],
    *,
    value: Annotated[str, Form(max_length=2_000)] = "",
    name: Annotated[str, Form(max_length=LONGEST_NAME)] = "",
    topics: Annotated[list[Topic] | None, Form(max_length=10)] = None,
) -> HTMLResponse:
    """No redirect: the secret of a webhook is shown this once."""
    try:
        made, secret = await desk.add(kind, value, name, topics or [])
    except (Reject, Retry) as exc:
        written = {"kind": kind, "value": value, "name": name, "topics": topics or []}
        return await _page(request, services, admin, status=422, failed=str(exc), written=written)
    return await _page(request, services, admin, about=made.id, secret=secret or "")


@router.post("/alerts/places/{place_id}/toggle")
async def toggle(desk: PlacesDep, place: PlaceDep) -> RedirectResponse:
    await desk.channels.change(place, enabled=not place.enabled)
    return _back("#places")


@router.post("/alerts/places/{place_id}/remove")
async def remove(desk: PlacesDep, place: PlaceDep) -> RedirectResponse:
    await desk.remove(place)
    return _back("#places")


@router.post("/alerts/places/{place_id}/retry")
async def retry(services: ServicesDep, place: PlaceDep) -> RedirectResponse:
    await AlertDeliveries(services.database).again(place)
    return _back("#places")


@router.post("/alerts/places/{place_id}/test")
async def test(
    request: Request,
    services: ServicesDep,
    admin: AdminDep,
    desk: PlacesDep,
    place: PlaceDep,
) -> HTMLResponse:
    try:
        await desk.test(place)
    except (Reject, Retry) as exc:
        return await _page(request, services, admin, about=place.id, failed=str(exc))
    return await _page(request, services, admin, about=place.id, arrived=True)


async def _page(
    request: Request,
    services: Services,
    caller: Caller,
    *,
    cursor: str | None = None,
    status: int = 200,
    **told: Any,
) -> HTMLResponse:
    """`told`: what came of what an admin did with the place `about`."""
    store, tenant_id = Notices(services.database), caller.tenant_id
    after = read_notice(cursor) if cursor else None
    found = await store.of_user(tenant_id, caller.user_id, limit=ON_A_PAGE + 1, after=after)
    places = await AlertChannels(services.database).of_tenant(tenant_id) if caller.is_admin else []
    sent = await AlertDeliveries(services.database).newest(tenant_id, limit=DELIVERIES) if caller.is_admin else []
    unknown: dict[str, Any] = {"about": None, "failed": "", "secret": "", "arrived": False, "written": {}}
    return page(
        request,
        "alerts.html",
        caller=caller,
        status=status,
        kept=not (told.get("secret") or told.get("written")),
        notices=[await _shown(services, one) for one in found[:ON_A_PAGE]],
        next=write_notice(found[ON_A_PAGE - 1]) if len(found) > ON_A_PAGE else None,
        unread=await store.unread(tenant_id, caller.user_id),
        watched=await WatchedPosts(services.database).of_user(tenant_id, caller.user_id),
        places=places,
        sent=sent,
        names={one.id: one.name for one in places},
        ways=list(Way),
        topics=list(Topic),
        **{**unknown, **told},
    )


async def _shown(services: Services, notice: Notice) -> ShownNotice:
    if notice.content.get("code") != "edited":
        return ShownNotice(notice, None)
    old, new = int(notice.content["from"]), int(notice.content["to"])
    post_id = UUID(str(notice.content["post_id"]))
    texts = await WatchedPosts(services.database).texts(notice.tenant_id, post_id, [old, new])
    if old not in texts or new not in texts or texts[old] == texts[new]:
        return ShownNotice(notice, None)
    return ShownNotice(notice, await asyncio.to_thread(diff, texts[old], texts[new]))


async def _button(request: Request, services: Services, caller: Caller, post_id: UUID) -> HTMLResponse:
    watching = await WatchedPosts(services.database).is_watched(caller.tenant_id, caller.user_id, post_id)
    return fragment(request, "alerts_watch.html", caller=caller, post_id=post_id, watching=watching)


def _back(where: str = "") -> RedirectResponse:
    return RedirectResponse(f"/alerts{where}", status_code=303)
