"""`/saved`: searches that are kept, and what they found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from telegram_assistant.domain.access import Caller
from telegram_assistant.domain.results import Shown
from telegram_assistant.domain.saved_search import LONGEST_NAME, Alert
from telegram_assistant.errors import Reject, Retry
from telegram_assistant.http.answers import LONGEST, read_found, write_found
from telegram_assistant.http.dependencies import CallerDep, OwnSavedDep, SavedDep, ServicesDep
from telegram_assistant.http.web.page import fragment, page
from telegram_assistant.services.services import Services
from telegram_assistant.stores.postgres.saved_searches import SavedSearches, SearchAlerts
from telegram_assistant.stores.postgres.visible_posts import VisiblePosts

ALERTS = 20
LONGEST_QUERY = 16_000

router = APIRouter(include_in_schema=False)
Of = Annotated[UUID | None, Query()]


@dataclass(frozen=True, slots=True)
class ShownAlert:
    """An alert with its post."""

    alert: Alert
    post: Shown


@router.get("/saved")
async def saved(request: Request, services: ServicesDep, caller: CallerDep, of: Of = None) -> HTMLResponse:
    return await _page(request, services, caller, of=of)


@router.get("/saved/alerts")
async def alerts(
    request: Request,
    services: ServicesDep,
    caller: CallerDep,
    cursor: Annotated[str, Query(max_length=LONGEST)],
    of: Of = None,
) -> HTMLResponse:
    """Earlier ones, below those that are there."""
    found = await _alerts(services, caller, of, cursor)
    return fragment(request, "saved_alerts.html", caller=caller, of=of, **found)


@router.get("/saved/unread")
async def unread(
    request: Request, services: ServicesDep, caller: CallerDep, seen: Annotated[int, Query(ge=0, lt=2**31)] = 0
) -> HTMLResponse:
    """How many more there are than the page shows."""
    count = await SearchAlerts(services.database).unread(caller.tenant_id, caller.user_id)
    return fragment(request, "saved_unread.html", caller=caller, seen=seen, new=max(0, count - seen))


@router.post("/saved")
async def save(
    desk: SavedDep,
    query: Annotated[str, Form(max_length=LONGEST_QUERY)] = "",
    name: Annotated[str, Form(max_length=LONGEST_NAME)] = "",
) -> RedirectResponse:
    made = await desk.save(query, name)
    return RedirectResponse(f"/saved#s{made.id}", status_code=303)


@router.post("/saved/read")
async def read(services: ServicesDep, caller: CallerDep) -> RedirectResponse:
    await SearchAlerts(services.database).read(caller.tenant_id, caller.user_id)
    return _back()


@router.post("/saved/{search_id}/mute")
async def mute(desk: SavedDep, one: OwnSavedDep) -> RedirectResponse:
    await desk.change(one, muted=not one.muted)
    return _back()


@router.post("/saved/{search_id}/remove")
async def remove(desk: SavedDep, one: OwnSavedDep) -> RedirectResponse:
    await desk.saved.remove(one)
    return _back()


@router.post("/saved/{search_id}/retry")
async def retry(services: ServicesDep, one: OwnSavedDep) -> RedirectResponse:
    await SearchAlerts(services.database).again(one)
    return _back()


@router.post("/saved/{search_id}/webhook")
async def set_webhook(
    request: Request,
    services: ServicesDep,
    caller: CallerDep,
    desk: SavedDep,
    one: OwnSavedDep,
    *,
    url: Annotated[str, Form(max_length=2_000)] = "",
) -> HTMLResponse:
    """No redirect: the secret is shown this once."""
    try:
        secret = await desk.set_webhook(one, url)
    except (Reject, Retry) as exc:
        return await _page(request, services, caller, status=422, about=one.id, failed=str(exc))
    return await _page(request, services, caller, about=one.id, secret=secret)


@router.post("/saved/{search_id}/webhook/drop")
async def drop_webhook(desk: SavedDep, one: OwnSavedDep) -> RedirectResponse:
    await desk.drop_webhook(one)
    return _back()


@router.post("/saved/{search_id}/webhook/test")
async def try_webhook(
    request: Request,
    services: ServicesDep,
    caller: CallerDep,
    desk: SavedDep,
    one: OwnSavedDep,
) -> HTMLResponse:
    try:
        status = await desk.try_webhook(one)
    except (Reject, Retry) as exc:
        return await _page(request, services, caller, about=one.id, failed=str(exc))
    return await _page(request, services, caller, about=one.id, took=status)


async def _page(
    request: Request, services: Services, caller: Caller, *, of: UUID | None = None, status: int = 200, **told: Any
) -> HTMLResponse:
    """`told`: what came of the webhook that the search `about` has."""
    searches = await SavedSearches(services.database).of_user(caller.tenant_id, caller.user_id)
    unknown = {"about": None, "failed": "", "secret": "", "took": 0}
    return page(
        request,
        "saved.html",
        caller=caller,
        status=status,
        kept=not told.get("secret"),
        searches=searches,
        unread=sum(one.unread for one in searches),
        of=of,
        **{**unknown, **told},
        **await _alerts(services, caller, of, None),
    )


async def _alerts(services: Services, caller: Caller, of: UUID | None, cursor: str | None) -> dict[str, Any]:
    after = read_found(cursor) if cursor else None
    found = await SearchAlerts(services.database).of_user(
        caller.tenant_id, caller.user_id, limit=ALERTS + 1, search_id=of, after=after
    )
    posts = await VisiblePosts(services.database).posts(caller.tenant_id, [one.post_id for one in found])
    shown = [ShownAlert(one, posts[one.post_id]) for one in found[:ALERTS] if one.post_id in posts]
    return {"alerts": shown, "next": write_found(found[ALERTS - 1]) if len(found) > ALERTS else None}


def _back() -> RedirectResponse:
    return RedirectResponse("/saved", status_code=303)
