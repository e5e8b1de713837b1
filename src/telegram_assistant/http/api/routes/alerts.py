"""Notices, posts that you watch, and the places of a tenant that alerts are sent to."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from telegram_assistant.errors import Reject, Retry
from telegram_assistant.http.api.models.alerts import (
    DeliveriesOut,
    DeliveryOut,
    NewPlaceOut,
    NoticeOut,
    NoticesOut,
    PlaceChange,
    PlaceIn,
    PlaceOut,
    PlacesOut,
    WatchedPostOut,
    WatchedPostsOut,
)
from telegram_assistant.http.api.models.search import CountOut
from telegram_assistant.http.auth import AdminDep, CallerDep, ServicesDep
from telegram_assistant.http.cursor import LONGEST, read_notice, write_notice
from telegram_assistant.http.dependencies import PlaceDep, PlacesDep
from telegram_assistant.http.parameters import PostId
from telegram_assistant.services.problems import conflict, not_found
from telegram_assistant.stores.postgres.alerts import AlertDeliveries, Notices
from telegram_assistant.stores.postgres.watched_posts import WatchedPosts

notices = APIRouter(prefix="/notices", tags=["alerts"])
watched = APIRouter(prefix="/watched-posts", tags=["alerts"])
places = APIRouter(prefix="/alert-places", tags=["alerts"])


@notices.get("", operation_id="list_notices", summary="What changed or went wrong")
async def list_notices(
    services: ServicesDep,
    caller: CallerDep,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    cursor: Annotated[str | None, Query(max_length=LONGEST)] = None,
) -> NoticesOut:
    """Edits and deletions of posts that you watch, channels in trouble, storage that runs out."""
    store = Notices(services.database)
    found = await store.of_user(
        caller.tenant_id, caller.user_id, limit=limit + 1, after=read_notice(cursor) if cursor else None
    )
    return NoticesOut(
        items=[NoticeOut.of(one) for one in found[:limit]],
        next=write_notice(found[limit - 1]) if len(found) > limit else None,
        unread=await store.unread(caller.tenant_id, caller.user_id),
    )


@notices.post("/read", operation_id="read_notices", summary="Mark notices as read")
async def read_notices(services: ServicesDep, caller: CallerDep) -> CountOut:
    return CountOut(count=await Notices(services.database).read(caller.tenant_id, caller.user_id))


@watched.get("", operation_id="list_watched_posts", summary="Posts that you watch")
async def list_watched_posts(services: ServicesDep, caller: CallerDep) -> WatchedPostsOut:
    found = await WatchedPosts(services.database).of_user(caller.tenant_id, caller.user_id)
    return WatchedPostsOut(items=[WatchedPostOut.of(one) for one in found])


@watched.put("/{post_id}", operation_id="watch_post", summary="Watch a post", status_code=204)
async def watch_post(services: ServicesDep, caller: CallerDep, post_id: PostId) -> None:
    """When it is edited or deleted you are told, with what changed."""
    if not await WatchedPosts(services.database).watch(caller.tenant_id, caller.user_id, post_id):
        raise not_found("post")


@watched.delete("/{post_id}", operation_id="unwatch_post", summary="Watch a post no more", status_code=204)
async def unwatch_post(services: ServicesDep, caller: CallerDep, post_id: PostId) -> None:
    if not await WatchedPosts(services.database).unwatch(caller.tenant_id, caller.user_id, post_id):
        raise not_found("watched post")


@places.get("", operation_id="list_alert_places", summary="Where alerts are sent")
async def list_alert_places(desk: PlacesDep) -> PlacesOut:
    return PlacesOut(items=[PlaceOut.of(one) for one in await desk.channels.of_tenant(desk.tenant_id)])


@places.post("", operation_id="add_alert_place", summary="Send alerts to a place", status_code=201)
async def add_alert_place(services: ServicesDep, admin: AdminDep, desk: PlacesDep, wanted: PlaceIn) -> NewPlaceOut:
    """Slack, PagerDuty or a webhook of yours. Topic `search` sends what anybody's saved search finds."""
    made, secret = await desk.add(wanted.kind, wanted.value, wanted.name, wanted.topics)
    await desk.record(services.access, admin, "alert_place_added", made)
    return NewPlaceOut(**PlaceOut.of(made).model_dump(), secret=secret)


@places.get("/deliveries", operation_id="list_alert_deliveries", summary="What was sent, and what failed")
async def list_alert_deliveries(
    services: ServicesDep, admin: AdminDep, limit: Annotated[int, Query(ge=1, le=200)] = 50
) -> DeliveriesOut:
    found = await AlertDeliveries(services.database).newest(admin.tenant_id, limit=limit)
    return DeliveriesOut(items=[DeliveryOut.of(one) for one in found])


@places.patch("/{place_id}", operation_id="change_alert_place", summary="Choose topics, switch on or off")
async def change_alert_place(desk: PlacesDep, place: PlaceDep, change: PlaceChange) -> PlaceOut:
    """What happens while it is off is not sent afterwards."""
    await desk.channels.change(place, topics=change.topics, enabled=change.enabled)
    return PlaceOut.of(await desk.channels.get(desk.tenant_id, place.id) or place)


@places.delete("/{place_id}", operation_id="remove_alert_place", summary="Send nothing there", status_code=204)
async def remove_alert_place(services: ServicesDep, admin: AdminDep, desk: PlacesDep, place: PlaceDep) -> None:
    await desk.channels.remove(place)
    await desk.record(services.access, admin, "alert_place_removed", place)


@places.post("/{place_id}/test", operation_id="test_alert_place", summary="Send a test", status_code=204)
async def test_alert_place(desk: PlacesDep, place: PlaceDep) -> None:
    """`409` with the reason if it does not arrive; `503` where nothing is sent at all."""
    if desk.outlets is None:
        raise Retry("alerts are not sent here")
    try:
        await desk.test(place)
    except (Reject, Retry) as exc:
        raise conflict(str(exc)) from exc


@places.post("/{place_id}/retry", operation_id="retry_alert_deliveries", summary="Send once more what was given up")
async def retry_alert_deliveries(services: ServicesDep, place: PlaceDep) -> CountOut:
    return CountOut(count=await AlertDeliveries(services.database).again(place))
