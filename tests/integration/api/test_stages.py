"""Stages, storage, health and metrics: what an operator reads, and who may."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import replace
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from redis.asyncio import Redis
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.bus.observer import KEPT, Sampler
from telegram_assistant.bus.streams import FIELD, make_group
from telegram_assistant.metrics import STAGE_EVENTS
from telegram_assistant.names import POSTS_PARSED, TAGGING, stream
from telegram_assistant.stages import STAGES, groups
from telegram_assistant.stores.postgres.pipeline import DeadLetters
from tests.integration.search.archive import NEWS, SPORT

pytestmark = pytest.mark.integration

Town = Any  # of conftest.py, which cannot be imported
ClientOf = Any


@pytest.fixture
async def sampler(app: FastAPI, redis: Redis, database: AsyncEngine) -> Sampler:
    for event, group in groups():
        await make_group(redis, event, group)
    made = Sampler(redis, groups(), DeadLetters(database).counts)
    app.state.services = replace(app.state.services, sampler=made)
    return made


async def test_each_stage_says_how_far_behind_it_is(
    town: Town, client_of: ClientOf, sampler: Sampler, redis: Redis
) -> None:
    await redis.xadd(stream(POSTS_PARSED), {FIELD: "[]"})
    await sampler.look()
    stages = (await client_of(town.member).get("/api/v1/stages")).json()["items"]
    assert [one["stage"] for one in stages] == list(STAGES)
    tagging = next(one for one in stages if one["stage"] == TAGGING)
    assert (tagging["behind"], tagging["state"], tagging["workers"]) == (1, "unattended", 0)
    assert "tga worker" in tagging["what_to_do"]
    idle = next(one for one in stages if one["stage"] == "enrichment")
    assert (idle["state"], idle["what_to_do"]) == ("idle", None)


async def test_a_stage_that_runs_elsewhere_is_counted_by_batches(sampler: Sampler, redis: Redis) -> None:
    await sampler.look()
    for _ in range(3):
        await redis.xadd(stream(POSTS_PARSED), {FIELD: "[]"})
    await redis.xreadgroup(TAGGING, "somebody", {stream(POSTS_PARSED): ">"}, count=10)
    await sampler.look()
    history = sampler.stages[TAGGING]
    assert not history.counts_events
    assert history.now.done - history.samples[0].done == 3
    assert history.state == "busy"
    assert history.per_minute > 0
    assert len(history.rates) == 2


async def test_a_stage_of_this_process_is_counted_by_events(redis: Redis, database: AsyncEngine) -> None:
    for event, group in groups():
        await make_group(redis, event, group)
    sampler = Sampler(redis, groups(), DeadLetters(database).counts, runs_here=lambda stage: stage == TAGGING)
    await sampler.look()
    STAGE_EVENTS.labels(TAGGING, "done").inc(250)
    await sampler.look()
    history = sampler.stages[TAGGING]
    assert history.counts_events
    assert history.now.done - history.samples[0].done == 250
    for _ in range(KEPT):
        history.samples.append(history.now)
    assert (len(history.samples), history.per_minute) == (KEPT, 0.0)


async def test_before_the_first_look_there_is_nothing_to_say(town: Town, client_of: ClientOf) -> None:
    answer = await client_of(town.member).get("/api/v1/stages")
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "5"


async def test_storage_counts_what_a_tenant_sees(town: Town, client_of: ClientOf) -> None:
    await town.archive.post(1, "four", channel=NEWS)
    await town.archive.post(2, "привет", channel=SPORT)
    sha256 = hashlib.sha256(b"x").hexdigest()
    await town.archive.run(
        "INSERT INTO media_objects (sha256, mime, size, storage_key) VALUES (:sha, 'image/png', 1000, 'k')", sha=sha256
    )
    for position in (0, 1):
        await town.archive.run(
            "INSERT INTO post_media (post_id, position, kind, sha256, status)"
            " SELECT id, :position, 'photo', :sha, 'stored' FROM posts",
            sha=sha256,
            position=position,
        )
    used = (await client_of(town.member).get("/api/v1/storage")).json()
    kinds = {one["kind"]: one for one in used["items"]}
    assert kinds["media"] == {"kind": "media", "count": 1, "bytes": 1000}, "one file, however many posts have it"
    assert kinds["posts"]["count"] == 2
    assert used["bytes"] == sum(one["bytes"] for one in used["items"])
    nothing = (await client_of(town.other).get("/api/v1/storage")).json()
    assert nothing["bytes"] == 0


async def test_health_is_brief_for_strangers(town: Town, client_of: ClientOf) -> None:
    for path in ("/health", "/api/v1/health"):
        answer = await client_of().get(path)
        assert (answer.status_code, answer.json()) == (200, {"status": "ok", "demo": False})
    for path in ("/health/details", "/api/v1/health/details"):
        assert (await client_of().get(path)).status_code == 401
        assert (await client_of(town.member).get(path)).status_code == 403
        assert (await client_of(town.other).get(path)).status_code == 403, "it names the channels of all tenants"
        assert "tasks" in (await client_of(town.admin).get(path)).json()


async def test_what_is_wrong_is_503(client_of: ClientOf, services: Any) -> None:
    async def down() -> None:
        raise OSError("it is away")

    services.health.engines["redis"] = down
    answer = await client_of().get("/health")
    assert (answer.status_code, answer.json()["status"]) == (503, "failing")
    assert "away" not in answer.text


async def test_n32_another_role_does_not_take_the_api_out_of_service(client_of: ClientOf, services: Any) -> None:
    async def never() -> dict[str, Any]:
        await asyncio.Event().wait()
        return {}

    async def down() -> None:
        raise OSError("it is away")

    services.health.sections["pipeline"] = never
    services.health.engines["media"] = down
    answer = await client_of().get("/health")
    assert (answer.status_code, answer.json()["status"]) == (200, "ok")
    await services.health.details()  # the look that the process makes by itself
    answer = await client_of().get("/health")
    assert (answer.status_code, answer.json()["status"]) == (200, "degraded"), "told, and no reason to leave"


@pytest.mark.parametrize(
    "address,headers,expected",
    [
        ("127.0.0.1", {}, 200),
        ("::1", {}, 200),
        ("10.0.0.7", {}, 401),
        ("127.0.0.1", {"X-Forwarded-For": "10.0.0.7"}, 401),
        ("127.0.0.1", {"Forwarded": "for=10.0.0.7"}, 401),
        ("testclient", {}, 401),
    ],
)
async def test_metrics_are_for_this_machine(app: FastAPI, address: str, headers: dict[str, str], expected: int) -> None:
    transport = httpx.ASGITransport(app, client=(address, 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://tga.test", headers=headers) as client:
        assert (await client.get("/metrics")).status_code == expected


async def test_metrics_with_an_admins_key(app: FastAPI, town: Town) -> None:
    transport = httpx.ASGITransport(app, client=("10.0.0.7", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://tga.test") as client:
        for person, expected in ((town.admin, 200), (town.member, 403), (town.other, 403)):
            answer = await client.get("/metrics", headers={"Authorization": f"Bearer {person.key}"})
            assert answer.status_code == expected
