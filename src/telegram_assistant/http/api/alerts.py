"""Notices, posts that you watch, and the places of a tenant that alerts are sent to."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from telegram_assistant.domain.alerting import LONGEST_NAME, Action, Topic, Way
from telegram_assistant.errors import Reject, Retry
from telegram_assistant.http.answers import (
    CountOut,
    Cursor,
    FromValue,
    Items,
    Page,
    page_of,
    read_notice,
    write_notice,
)
from telegram_assistant.http.dependencies import AdminDep, CallerDep, PlaceDep, PlacesDep, PostId, ServicesDep
from telegram_assistant.services.problems import conflict, not_found
from telegram_assistant.stores.postgres.alerts import AlertDeliveries, Notices
from telegram_assistant.stores.postgres.watched_posts import WatchedPosts

PLACE = "3f1c2f0e-8f7e-4c7b-9b6a-0d6f1a2b3c4d"


def _without_left(content: dict[str, Any]) -> dict[str, Any]:
    """`left` is kept for the next look at the trouble, which compares it; readers need it not."""
    return {name: value for name, value in content.items() if name != "left"}


class NoticeOut(FromValue):
    """Something that happened (`told`), or that lasts (`open` until it is `resolved`)."""

    id: UUID
    topic: Topic
    state: str
    content: Annotated[dict[str, Any], AfterValidator(_without_left)] = Field(
        description="What it is about; `code` says what happened."
    )
    for_all: Annotated[bool, BeforeValidator(lambda user_id: user_id is None)] = Field(
        validation_alias="user_id", description="It is for all users of your tenant."
    )
    opened_at: datetime
    resolved_at: datetime | None
    read_at: datetime | None


class NoticesOut(Page[NoticeOut]):
    """The newest first."""

    unread: int


class WatchedPostOut(FromValue):
    """A post that you watch: when it is edited or deleted you are told."""

    post_id: UUID
    channel: str = Field(validation_alias="title")
    url: str
    deleted: bool
    watched_since: datetime = Field(validation_alias="created_at")


class PlaceIn(BaseModel):
    """A place for alerts."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"kind": "slack", "value": "https://hooks.slack.com/services/T…/B…/…", "name": "#news"},
                {"kind": "pagerduty", "value": "0123456789abcdef0123456789abcdef", "topics": ["channel"]},
            ]
        }
    )

    kind: Way
    value: str = Field(
        max_length=2_000,
        description="slack: the address of an incoming webhook; pagerduty: the integration key of Events API v2;"
        " webhook: an https address of yours.",
    )
    name: str = Field("", max_length=LONGEST_NAME)
    topics: list[Topic] = Field(default_factory=list, max_length=10, description="Empty: what is usual for the kind.")


class PlaceChange(BaseModel):
    """Only what is given."""

    topics: list[Topic] | None = Field(None, min_length=1, max_length=10)
    enabled: bool | None = None


class PlaceOut(FromValue):
    """A place that alerts are sent to. Its address or key is not shown again."""

    id: UUID = Field(examples=[PLACE])
    kind: Way
    name: str
    hint: str
    topics: list[Topic]
    enabled: bool


class NewPlaceOut(PlaceOut):
    """With the secret that signs what is sent to a webhook, this once."""

    secret: str | None = None


class DeliveryOut(FromValue):
    """An alert on its way to a place."""

    place_id: UUID = Field(validation_alias="channel_id")
    topic: Annotated[str, BeforeValidator(lambda content: str(content.get("topic", "")))] = Field(
        validation_alias="content"
    )
    action: Action
    key: str = Field(validation_alias="dedup_key")
    state: str = Field(description="waiting, delivered, or dead: it is not tried any more.")
    attempts: int
    error: str
    created_at: datetime
    due_at: datetime
    delivered_at: datetime | None


notices = APIRouter(prefix="/notices", tags=["alerts"])
watched = APIRouter(prefix="/watched-posts", tags=["alerts"])
places = APIRouter(prefix="/alert-places", tags=["alerts"])


@notices.get("", operation_id="list_notices", summary="What changed or went wrong")
async def list_notices(
    services: ServicesDep,
    caller: CallerDep,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    cursor: Cursor = None,
) -> NoticesOut:
    """Edits and deletions of posts that you watch, channels in trouble, storage that runs out."""
    store = Notices(services.database)
    found = await store.of_user(
        caller.tenant_id, caller.user_id, limit=limit + 1, after=read_notice(cursor) if cursor else None
    )
    page = page_of(found, limit, NoticeOut.model_validate, write_notice)
    return NoticesOut(items=page.items, next=page.next, unread=await store.unread(caller.tenant_id, caller.user_id))


@notices.post("/read", operation_id="read_notices", summary="Mark notices as read")
async def read_notices(services: ServicesDep, caller: CallerDep) -> CountOut:
    return CountOut(count=await Notices(services.database).read(caller.tenant_id, caller.user_id))


@watched.get("", operation_id="list_watched_posts", summary="Posts that you watch")
async def list_watched_posts(services: ServicesDep, caller: CallerDep) -> Items[WatchedPostOut]:
    """At most 500, the newest first."""
    found = await WatchedPosts(services.database).of_user(caller.tenant_id, caller.user_id)
    return Items(items=[WatchedPostOut.model_validate(one) for one in found])


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
async def list_alert_places(desk: PlacesDep) -> Items[PlaceOut]:
    """At most 20."""
    return Items(items=[PlaceOut.model_validate(one) for one in await desk.channels.of_tenant(desk.tenant_id)])


@places.post("", operation_id="add_alert_place", summary="Send alerts to a place", status_code=201)
async def add_alert_place(desk: PlacesDep, wanted: PlaceIn) -> NewPlaceOut:
    """Slack, PagerDuty or a webhook of yours. Topic `search` sends what any saved search of the tenant finds."""
    made, secret = await desk.add(wanted.kind, wanted.value, wanted.name, wanted.topics)
    return NewPlaceOut.model_validate(made).model_copy(update={"secret": secret})


@places.get("/deliveries", operation_id="list_alert_deliveries", summary="What was sent, and what failed")
async def list_alert_deliveries(
    services: ServicesDep, admin: AdminDep, limit: Annotated[int, Query(ge=1, le=200)] = 50
) -> Items[DeliveryOut]:
    """The newest first."""
    found = await AlertDeliveries(services.database).newest(admin.tenant_id, limit=limit)
    return Items(items=[DeliveryOut.model_validate(one) for one in found])


@places.patch("/{place_id}", operation_id="change_alert_place", summary="Choose topics, switch on or off")
async def change_alert_place(desk: PlacesDep, place: PlaceDep, change: PlaceChange) -> PlaceOut:
    """What happens while it is off is not sent afterwards."""
    await desk.channels.change(place, topics=change.topics, enabled=change.enabled)
    return PlaceOut.model_validate(await desk.channels.get(desk.tenant_id, place.id) or place)


@places.delete("/{place_id}", operation_id="remove_alert_place", summary="Send nothing there", status_code=204)
async def remove_alert_place(desk: PlacesDep, place: PlaceDep) -> None:
    await desk.remove(place)


@places.post("/{place_id}/test", operation_id="test_alert_place", summary="Send a test", status_code=204)
async def test_alert_place(services: ServicesDep, desk: PlacesDep, place: PlaceDep) -> None:
    """`409` with the reason if it does not arrive; `503` where nothing is sent at all."""
    if services.senders is None:
        raise Retry("alerts are not sent here")
    try:
        await desk.test(place)
    except (Reject, Retry) as exc:
        raise conflict(str(exc)) from exc


@places.post("/{place_id}/retry", operation_id="retry_alert_deliveries", summary="Send once more what was given up")
async def retry_alert_deliveries(services: ServicesDep, place: PlaceDep) -> CountOut:
    return CountOut(count=await AlertDeliveries(services.database).again(place))
