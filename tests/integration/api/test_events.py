"""Server-sent events over a real server: they arrive, resume, stay within the tenant, and do not hold up a stop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, Self
from uuid import UUID

import httpx
import pytest
from fastapi import FastAPI
from redis.asyncio import Redis
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.bus.observer import Sampler
from telegram_assistant.bus.streams import FIELD, Publisher
from telegram_assistant.bus.supervisor import Supervisor
from telegram_assistant.domain.events import PostIndexed
from telegram_assistant.http.serving import listen, serve
from telegram_assistant.names import POSTS_INDEXED, stream
from telegram_assistant.services.live import PER_TENANT, make_feed
from telegram_assistant.stages import groups
from telegram_assistant.stores.postgres.pipeline import DeadLetters
from telegram_assistant.wiring.runtime import utc_now
from tests.integration.search.archive import NEWS, SYSTEM

pytestmark = pytest.mark.integration

Town = Any  # of conftest.py, which cannot be imported
EVENTS = "/api/v1/events"
PRIVATE = 300


@dataclass
class Event:
    """One event as it came over the wire."""

    name: str = "message"
    id: str = ""
    data: list[str] = field(default_factory=list)

    @property
    def content(self) -> Any:
        return json.loads("\n".join(self.data))


async def parsed(response: httpx.Response) -> AsyncIterator[Event]:
    event = Event()
    async for line in response.aiter_lines():
        name, _, value = line.partition(": ")
        match name:
            case "event":
                event.name = value
            case "id":
                event.id = value
            case "data":
                event.data.append(value)
            case "" if event.data:
                yield event
                event = Event()


@dataclass
class Server:
    """The application on a port, with its feed, in the order in which the role starts them."""

    address: str
    supervisor: Supervisor
    redis: Redis

    async def publish(self, *posts: tuple[UUID, int, UUID]) -> None:
        await Publisher(self.redis).publish(POSTS_INDEXED, [indexed(*one) for one in posts])

    def events(self, person: Any, after: str = "") -> EventStream:
        return EventStream(self.address, person, after)


class EventStream:
    """A connection, as a browser keeps it."""

    def __init__(self, address: str, person: Any, after: str) -> None:
        headers = {"Authorization": f"Bearer {person.key}"} | ({"Last-Event-ID": after} if after else {})
        self._client = httpx.AsyncClient(base_url=address, headers=headers, timeout=20)

    async def __aenter__(self) -> Self:
        self._context = self._client.stream("GET", EVENTS)
        self.response = await self._context.__aenter__()
        if self.response.status_code == 200:
            self._events = parsed(self.response)
        return self

    async def __aexit__(self, *error: object) -> None:
        if self.response.status_code == 200:
            await self._events.aclose()  # type: ignore[attr-defined]  # it is a generator
        await self._context.__aexit__(None, None, None)
        await self._client.aclose()

    async def next(self, name: str = "post") -> Event:
        async for event in self._events:
            if event.name == name:
                return event
        raise AssertionError("the stream ended")

    async def rest(self) -> list[Event]:
        return [event async for event in self._events]


def indexed(one: UUID, channel: int, tenant: UUID) -> PostIndexed:
    return PostIndexed(
        trace_id="t",
        occurred_at=utc_now(),
        idempotency_key=f"{one}",
        tenant_id=tenant,
        channel_id=channel,
        post_id=one,
        content_hash="",
    )


@pytest.fixture
async def server(app: FastAPI, redis: Redis, database: AsyncEngine, town: Town) -> AsyncIterator[Server]:
    assert town
    supervisor = Supervisor()
    sampler = Sampler(redis, groups(), DeadLetters(database).counts)
    app.state.services = replace(app.state.services, live=make_feed(redis, database, sampler))
    with listen("127.0.0.1", 0, variable="X") as listener:
        await supervisor.start("api", lambda task: serve(app, listener, task))
        await supervisor.start("live_events", app.state.services.live.run)
        yield Server(f"http://127.0.0.1:{listener.getsockname()[1]}", supervisor, redis)
        await supervisor.stop()


async def posts_of(town: Town, numbers: Sequence[int], channel: int = NEWS) -> list[UUID]:
    return [await town.archive.post(number, f"words <b>{number}</b>", channel=channel) for number in numbers]


async def test_a_new_post_arrives(server: Server, town: Town) -> None:
    (one,) = await posts_of(town, [1])
    async with server.events(town.member) as events:
        assert events.response.headers["content-type"].startswith("text/event-stream")
        await server.publish((one, NEWS, SYSTEM))
        told = await events.next()
    assert told.content == {
        "id": str(one),
        "channel_id": NEWS,
        "channel": "Daily_News",
        "posted_at": told.content["posted_at"],
        "text": "words <b>1</b>",
        "has_media": False,
    }


async def test_whoever_lost_the_connection_goes_on_where_it_was(server: Server, town: Town) -> None:
    ids = await posts_of(town, [1, 2, 3, 4])
    async with server.events(town.member) as events:
        await server.publish(*((one, NEWS, SYSTEM) for one in ids[:3]))
        first = await events.next()
    await server.publish((ids[3], NEWS, SYSTEM), (ids[1], NEWS, SYSTEM))
    async with server.events(town.member, after=first.id) as events:
        told = [await events.next() for _ in range(3)]
        (live,) = await posts_of(town, [5])
        await server.publish((live, NEWS, SYSTEM))
        told.append(await events.next())
    assert [one.content["id"] for one in told] == [*map(str, ids[1:]), str(live)], "each once, in their order"


@pytest.mark.parametrize("after", ["nonsense", "9" * 60, "1-1.1.1", "99999999999999-0"])
async def test_an_id_that_nobody_gave_begins_now(server: Server, town: Town, after: str) -> None:
    ids = await posts_of(town, [1, 2])
    await server.publish((ids[0], NEWS, SYSTEM))
    async with server.events(town.member, after=after) as events:
        await server.publish((ids[1], NEWS, SYSTEM))
        assert (await events.next()).content["id"] == str(ids[1])


async def test_each_tenant_hears_of_its_own(server: Server, town: Town) -> None:
    (news,) = await posts_of(town, [1])
    (secret,) = await posts_of(town, [2], PRIVATE)
    (last,) = await posts_of(town, [3])
    tenant_b = town.other.tenant_id
    async with server.events(town.member) as ours, server.events(town.other) as theirs:
        # Even if an event says so: what a tenant may see is asked of PostgreSQL.
        await server.publish((secret, PRIVATE, SYSTEM), (news, NEWS, tenant_b), (last, NEWS, SYSTEM))
        assert [(await ours.next()).content["id"] for _ in range(2)] == [str(news), str(last)]
        assert (await theirs.next()).content["id"] == str(secret)
        resumed = server.events(town.member, after="0-0")
        async with resumed as again:
            assert [(await again.next()).content["id"] for _ in range(2)] == [str(news), str(last)]


async def test_an_index_entry_made_again_is_no_news(server: Server, town: Town) -> None:
    ids = await posts_of(town, [1, 2])
    async with server.events(town.member) as events:
        await server.publish((ids[0], NEWS, SYSTEM))
        await server.publish((ids[0], NEWS, SYSTEM))
        await server.redis.xadd(stream(POSTS_INDEXED), {FIELD: "no json"})
        await server.publish((ids[1], NEWS, SYSTEM))
        assert [(await events.next()).content["id"] for _ in range(2)] == [*map(str, ids)]


async def test_progress_is_told(server: Server, town: Town) -> None:
    await town.archive.run(
        "UPDATE channels SET newest_id = 10, requested_from = 1, coverage = '{[1,6)}', captured = 5 WHERE id = :id",
        id=NEWS,
    )
    async with server.events(town.member) as events:
        told = await events.next("progress")
    (channel,) = told.content["channels"]
    assert (channel["id"], channel["percent"], channel["unknown"]) == (NEWS, 50.0, 5)
    assert told.id == "", "it does not move where a listener resumes"


async def test_too_many_connections_are_refused(server: Server, app: FastAPI, town: Town) -> None:
    with listening(app, town, PER_TENANT):
        async with server.events(town.member) as events:
            assert events.response.status_code == 429
            assert events.response.headers["retry-after"] == "30"
            assert events.response.headers["content-type"] == "application/problem+json"
        async with server.events(town.other) as events:
            assert events.response.status_code == 200
    async with server.events(town.member) as events:
        assert events.response.status_code == 200


def listening(app: FastAPI, town: Town, count: int) -> ExitStack:
    """So many listeners of the tenant at once."""
    stack = ExitStack()
    for _ in range(count):
        stack.enter_context(app.state.services.live.listen(town.member.tenant_id))
    return stack


async def test_a_listener_that_leaves_is_forgotten(server: Server, app: FastAPI, town: Town) -> None:
    with listening(app, town, PER_TENANT - 1):
        async with server.events(town.member) as last, server.events(town.member) as refused:
            assert (last.response.status_code, refused.response.status_code) == (200, 429)
        async with asyncio.timeout(300):
            status = 429
            while status == 429:
                async with server.events(town.member) as again:
                    status = again.response.status_code
    assert status == 200


async def test_a_stop_lets_everybody_go(server: Server, town: Town) -> None:
    async with server.events(town.member) as events, server.events(town.other) as theirs:
        async with asyncio.timeout(300):
            await server.supervisor.stop()
        # The streams came to their end; they were not torn.
        assert {event.name for event in await events.rest()} <= {"progress"}
        assert {event.name for event in await theirs.rest()} <= {"progress"}


async def test_strangers_hear_nothing(server: Server) -> None:
    async with httpx.AsyncClient(base_url=server.address, timeout=300) as client:
        assert (await client.get(EVENTS)).status_code == 401
