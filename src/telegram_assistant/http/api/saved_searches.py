"""Saved searches and their alerts: each belongs to the user who made it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from telegram_assistant.domain.results import Shown
from telegram_assistant.domain.saved_search import LONGEST_NAME, Alert, DeliveryState
from telegram_assistant.errors import Retry
from telegram_assistant.http.answers import (
    CountOut,
    Cursor,
    FromValue,
    Page,
    etagged,
    example,
    read_found,
    write_found,
)
from telegram_assistant.http.api.search import LONGEST_QUESTION, FoundPostOut
from telegram_assistant.http.dependencies import CallerDep, OwnSavedDep, SavedDep, ServicesDep
from telegram_assistant.services.problems import conflict
from telegram_assistant.stores.postgres.saved_searches import SearchAlerts
from telegram_assistant.stores.postgres.visible_posts import VisiblePosts

SEARCH = "1b671a64-40d5-491e-99b0-da01ff1f3341"


class SavedSearchIn(BaseModel):
    """A search to keep."""

    model_config = example(query="нефть OR газ -реклама", name="Energy", web=True)

    query: Annotated[str, Field(max_length=LONGEST_QUESTION, description="See docs/reference/query-language.md.")]
    name: Annotated[str, Field(max_length=LONGEST_NAME)] = ""
    web: bool = Field(default=True, description="Whether what it finds counts as unread.")


class SavedSearchChange(BaseModel):
    """What is to be different; what is left out stays."""

    model_config = example(muted=True)

    name: Annotated[str | None, Field(max_length=LONGEST_NAME)] = None
    web: bool | None = None
    muted: bool | None = Field(default=None, description="While it is muted nothing is looked for.")


class SavedSearchOut(FromValue):
    """A search that is kept."""

    model_config = example(
        id=SEARCH,
        name="Energy",
        query="нефть OR газ -реклама",
        web=True,
        muted=False,
        webhook_url=None,
        created_at="2026-05-02T09:30:00Z",
        unread=3,
        dead=0,
    )

    id: UUID
    name: str
    query: str
    web: bool
    muted: bool
    webhook_url: str | None
    created_at: datetime
    unread: int
    dead: int = Field(description="Alerts that the webhook did not take.")


class WebhookIn(BaseModel):
    """Where alerts are sent."""

    model_config = example(url="https://example.org/telegram-alerts")

    url: Annotated[str, Field(max_length=2_000, description="http or https, at a public address.")]


class WebhookOut(BaseModel):
    """Where alerts are sent, and the secret that signs them: it is shown this once."""

    url: str = Field(examples=["https://example.org/telegram-alerts"])
    secret: str = Field(examples=["whsec_…"])


class WebhookTrialOut(BaseModel):
    """What the webhook answered."""

    status: int = Field(examples=[204])


class AlertOut(BaseModel):
    """A post that a saved search found."""

    search_id: UUID
    search: str
    post: FoundPostOut
    text: str = Field(description="The beginning of the post.")
    found_at: datetime
    read: bool
    also: int = Field(description="Posts that told the same within a day: they made no alert of their own.")
    webhook: DeliveryState = Field(description="`shown`: there was no webhook.")
    attempts: int
    error: str


class AlertsOut(Page[AlertOut]):
    """The newest first."""

    unread: int


router = APIRouter(prefix="/saved-searches", tags=["saved searches"])
alerts = APIRouter(prefix="/alerts", tags=["saved searches"])


@router.get("", operation_id="list_saved_searches", summary="Your saved searches")
async def list_saved_searches(desk: SavedDep) -> Page[SavedSearchOut]:
    """All of yours, the newest first."""
    found = await desk.saved.of_user(desk.tenant_id, desk.user_id)
    return Page(items=[SavedSearchOut.model_validate(one) for one in found], next=None)


@router.post("", operation_id="save_search", summary="Keep a search", status_code=201)
async def save_search(desk: SavedDep, wanted: SavedSearchIn) -> SavedSearchOut:
    """From now on every new post that has all its words and fits its filters is an alert, once; what tells the same
    within a day is no other alert."""
    return SavedSearchOut.model_validate(await desk.save(wanted.query, wanted.name, web=wanted.web))


@router.get("/{search_id}", operation_id="get_saved_search", summary="A saved search", response_model=SavedSearchOut)
async def get_saved_search(request: Request, saved: OwnSavedDep) -> Response:
    return etagged(request, SavedSearchOut.model_validate(saved))


@router.patch("/{search_id}", operation_id="change_saved_search", summary="Rename or mute a saved search")
async def change_saved_search(desk: SavedDep, saved: OwnSavedDep, change: SavedSearchChange) -> SavedSearchOut:
    if change.name is not None:
        saved = await desk.rename(saved, change.name)
    return SavedSearchOut.model_validate(await desk.change(saved, web=change.web, muted=change.muted))


@router.delete("/{search_id}", operation_id="remove_saved_search", summary="Remove a saved search", status_code=204)
async def remove_saved_search(desk: SavedDep, saved: OwnSavedDep) -> None:
    """Its alerts go with it."""
    await desk.saved.remove(saved)


@router.put("/{search_id}/webhook", operation_id="set_webhook", summary="Send the alerts of a search to an address")
async def set_webhook(desk: SavedDep, saved: OwnSavedDep, wanted: WebhookIn) -> WebhookOut:
    """Each alert is a POST of JSON with `X-TGA-Signature: t=<seconds>,v1=<hex>`: the HMAC-SHA256 of `<seconds>.<body>`
    under the secret, which is shown this once. Anything but 2xx within 10 seconds is tried again, six times over about
    three hours; redirects are not followed. Addresses of private networks are refused."""
    secret = await desk.set_webhook(saved, wanted.url)
    found = await desk.saved.get(desk.tenant_id, desk.user_id, saved.id)
    return WebhookOut(url=(found.webhook_url if found else None) or wanted.url, secret=secret)


@router.delete("/{search_id}/webhook", operation_id="drop_webhook", summary="Send no alerts any more", status_code=204)
async def drop_webhook(desk: SavedDep, saved: OwnSavedDep) -> None:
    await desk.drop_webhook(saved)


@router.post("/{search_id}/webhook/test", operation_id="try_webhook", summary="Send a test to the webhook")
async def try_webhook(desk: SavedDep, saved: OwnSavedDep) -> WebhookTrialOut:
    """`409` with the reason if it does not take it."""
    try:
        return WebhookTrialOut(status=await desk.try_webhook(saved))
    except Retry as exc:
        raise conflict(str(exc)) from exc


@router.post("/{search_id}/webhook/retry", operation_id="retry_alerts", summary="Send once more what was given up")
async def retry_alerts(services: ServicesDep, saved: OwnSavedDep) -> CountOut:
    return CountOut(count=await SearchAlerts(services.database).again(saved))


@alerts.get("", operation_id="list_alerts", summary="What your saved searches found")
async def list_alerts(
    services: ServicesDep,
    caller: CallerDep,
    *,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    cursor: Cursor = None,
    search_id: Annotated[UUID | None, Query(description="Only of this one.")] = None,
    webhook: Annotated[DeliveryState | None, Query(description="Only those that are so far.")] = None,
) -> AlertsOut:
    store = SearchAlerts(services.database)
    after = read_found(cursor) if cursor else None
    found = await store.of_user(
        caller.tenant_id, caller.user_id, limit=limit + 1, search_id=search_id, state=webhook, after=after
    )
    shown = await VisiblePosts(services.database).posts(caller.tenant_id, [alert.post_id for alert in found])
    return AlertsOut(
        items=[_alert(one, shown[one.post_id]) for one in found[:limit] if one.post_id in shown],
        next=write_found(found[limit - 1]) if len(found) > limit else None,
        unread=await store.unread(caller.tenant_id, caller.user_id),
    )


def _alert(alert: Alert, post: Shown) -> AlertOut:
    return AlertOut(
        search_id=alert.search_id,
        search=alert.search_name,
        post=FoundPostOut.model_validate(post),
        text=post.text[:300],
        found_at=alert.found_at,
        read=alert.read_at is not None,
        also=alert.also,
        webhook=alert.state,
        attempts=alert.attempts,
        error=alert.error,
    )


@alerts.post("/read", operation_id="read_alerts", summary="Mark alerts as read")
async def read_alerts(
    services: ServicesDep,
    caller: CallerDep,
    search_id: Annotated[UUID | None, Query(description="Only of this one; left out: of all.")] = None,
) -> CountOut:
    count = await SearchAlerts(services.database).read(caller.tenant_id, caller.user_id, search_id=search_id)
    return CountOut(count=count)
