"""What happens, as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Depends, Header
from fastapi.sse import EventSourceResponse, ServerSentEvent

from telegram_assistant.http.dependencies import CallerDep, ServicesDep
from telegram_assistant.services.live import Listener, LiveFeed
from telegram_assistant.services.problems import Problem

AGAIN_MS = 2000

router = APIRouter(prefix="/events", tags=["events"])


def feed_of(services: ServicesDep, _: CallerDep) -> LiveFeed:
    """After the question who asks: a stranger learns nothing."""
    if services.live is None:
        raise Problem(503, "Live events are not running here", headers={"Retry-After": "30"})
    return services.live


FeedDep = Annotated[LiveFeed, Depends(feed_of)]


async def _listener(feed: FeedDep, caller: CallerDep) -> AsyncIterator[Listener]:
    with feed.listen(caller.tenant_id) as listener:
        yield listener


@router.get(
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
