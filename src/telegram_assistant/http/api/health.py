"""What the system tells of itself: health, briefly for all and in full for the operator, metrics, and live events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from ipaddress import ip_address
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, Request
from fastapi.responses import JSONResponse, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel, ConfigDict

from telegram_assistant.health import Level
from telegram_assistant.http.dependencies import AdminDep, CallerDep, ServicesDep, get_caller
from telegram_assistant.metrics import REGISTRY
from telegram_assistant.services.live import Listener, LiveFeed
from telegram_assistant.services.problems import Problem
from telegram_assistant.services.upkeep import only_the_operator

FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip", "via")

router = APIRouter(prefix="/health", tags=["health"])
outside = APIRouter(include_in_schema=False)


class HealthAnswer(BaseModel):
    """Whether this process can answer. What is wrong stands in the details, which are for admins.

    `degraded`: it answers, though not all of the system is well. Only `failing` is 503: a process leaves the service
    for its own troubles and never for those of another role.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [{"status": "ok", "demo": False}]})

    status: Literal["ok", "degraded", "failing"]
    demo: bool


@router.get(
    "",
    operation_id="get_health",
    summary="Whether this process can answer; needs no credential",
    response_model=HealthAnswer,
    responses={503: {"model": HealthAnswer, "description": "It cannot answer: an engine that it needs is away."}},
)
async def brief(services: ServicesDep) -> JSONResponse:
    health = services.health
    status: Literal["ok", "degraded", "failing"] = "failing"
    if await health.can_serve():
        status = "ok" if health.level is Level.OK else "degraded"  # as the last look found it: no role is waited for
    answer = HealthAnswer(status=status, demo=health.demo)
    return JSONResponse(answer.model_dump(), status_code=503 if status == "failing" else 200)


@router.get("/details", operation_id="get_health_details", summary="Every task, engine and role (for the operator)")
async def full(services: ServicesDep, admin: AdminDep) -> dict[str, Any]:
    """For admins of the first tenant: the report names what all tenants watch."""
    only_the_operator(admin)
    return await services.health.details()


@outside.get("/health")
async def brief_outside(services: ServicesDep) -> JSONResponse:
    return await brief(services)


@outside.get("/health/details")
async def full_outside(services: ServicesDep, admin: AdminDep) -> dict[str, Any]:
    return await full(services, admin)


@outside.get("/metrics")
async def metrics(request: Request, services: ServicesDep) -> Response:
    """For Prometheus on this machine, or with the key of the operator."""
    if not _is_here(request):
        only_the_operator(await get_caller(request))
    await services.health.probe_engines()  # metrics may be asked for first
    services.health.show_freshness()
    return Response(generate_latest(REGISTRY), media_type=CONTENT_TYPE_LATEST)


def _is_here(request: Request) -> bool:
    """From loopback itself: what a proxy on this machine hands on comes from elsewhere."""
    if request.client is None or any(name in request.headers for name in FORWARDED):
        return False
    try:
        return ip_address(request.client.host).is_loopback
    except ValueError:
        return False


AGAIN_MS = 2000

events = APIRouter(prefix="/events", tags=["events"])


def feed_of(services: ServicesDep, _: CallerDep) -> LiveFeed:
    """After the question who asks: a stranger learns nothing."""
    if services.live is None:
        raise Problem(503, "Live events are not running here", headers={"Retry-After": "30"})
    return services.live


FeedDep = Annotated[LiveFeed, Depends(feed_of)]


async def _listener(feed: FeedDep, caller: CallerDep) -> AsyncIterator[Listener]:
    with feed.listen(caller.tenant_id) as listener:
        yield listener


@events.get(
    "",
    response_class=EventSourceResponse,
    operation_id="follow_events",
    summary="Follow what happens",
    response_description="A stream of server-sent events, until one of us closes it.",
)
async def follow(
    feed: FeedDep,
    listener: Annotated[Listener, Depends(_listener)],
    last_event_id: Annotated[
        str | None, Header(max_length=64, description="Go on after this event; browsers send it by themselves.")
    ] = None,
) -> AsyncIterator[ServerSentEvent]:
    """`post`: a post can be found now: its id, channel and first words. `progress`: how far backfills and the pipeline
    are, whenever that changes. `missed`: more has happened since `Last-Event-ID` than can be told again. A connection
    ends after a quarter of an hour; connect again with the id of the last event, and nothing is lost."""
    yield ServerSentEvent(comment="hello", retry=AGAIN_MS)
    if last_event_id:
        for told in await feed.resume(listener.tenant_id, last_event_id):
            yield ServerSentEvent(event=told.name, data=told.data, id=told.id)
            if told.place is not None:
                listener.resumed(told.place)
    async for told in listener.events():
        yield ServerSentEvent(event=told.name, data=told.data, id=told.id)
