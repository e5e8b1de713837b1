"""The page of the pipeline: stages in words and lines, dead letters with replay, storage."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from fastapi import FastAPI
from redis.asyncio import Redis
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.bus.observer import Sampler
from telegram_assistant.bus.retry_queue import RetryQueue
from telegram_assistant.bus.streams import FIELD, make_group
from telegram_assistant.domain.events import DeadLetter
from telegram_assistant.names import INDEXING, POSTS_PARSED, TAGGING, stream
from telegram_assistant.stages import PIPELINE, STAGES, groups
from telegram_assistant.stores.postgres.pipeline import DeadLetters

pytestmark = pytest.mark.integration

Town = Any  # of conftest.py, which cannot be imported
ClientOf = Any
HTMX = {"HX-Request": "true"}
HOSTILE = "</code><script>alert(1)</script>"


@pytest.fixture
async def sampler(app: FastAPI, redis: Redis, database: AsyncEngine) -> Sampler:
    for event, group in groups():
        await make_group(redis, event, group)
    made = Sampler(redis, groups(), DeadLetters(database).counts)
    await made.look()
    app.state.services = replace(app.state.services, sampler=made)
    return made


@pytest.fixture
async def letters(town: Town) -> dict[str, int]:
    store = DeadLetters(town.archive.database)
    for key, stage, tenant, payload in (
        ("one", TAGGING, town.admin.tenant_id, json.dumps({"text": HOSTILE})),
        ("two", INDEXING, town.admin.tenant_id, json.dumps({"text": "two"})),
        ("nonsense", TAGGING, town.admin.tenant_id, "no json"),
        ("theirs", TAGGING, town.other.tenant_id, json.dumps({"text": "theirs"})),
    ):
        await store.add(
            [
                DeadLetter(
                    stage=stage,
                    event=POSTS_PARSED,
                    key=key,
                    payload=payload,
                    reason=f"{HOSTILE} refuses {key}",
                    traceback=f"Traceback {HOSTILE}",
                    attempts=1,
                    trace_id=None,
                    tenant_id=tenant,
                )
            ]
        )
    return {letter.key: letter.id for letter in await store.find()}


@pytest.mark.usefixtures("sampler")
async def test_when_all_is_well(town: Town, client_of: ClientOf) -> None:
    answer = await client_of(town.member, page=True).get("/pipeline")
    assert answer.status_code == 200
    assert "Everything flows" in answer.text
    assert answer.text.count('class="card stage"') == len(STAGES)
    assert "Dead letters" not in answer.text, "these are for admins"
    assert "style=" not in answer.text


async def test_what_is_wrong_is_said_in_words(
    town: Town, client_of: ClientOf, sampler: Sampler, redis: Redis, letters: dict[str, int]
) -> None:
    assert letters
    await redis.xadd(stream(POSTS_PARSED), {FIELD: "[]"})
    await sampler.look()
    client = client_of(town.admin, page=True)
    answer = await client.get("/pipeline/stages", headers=HTMX)
    assert "no worker runs. Start tga worker" in answer.text
    assert "3 events were given up" in answer.text, "of our tenant"
    assert answer.text.count("<polyline") == 3 * len(STAGES)
    client.cookies.set("tga_language", "ru")
    assert "3 события отложены" in (await client.get("/pipeline/stages", headers=HTMX)).text


async def test_before_the_first_look(town: Town, client_of: ClientOf) -> None:
    assert "The stages were not looked at yet" in (await client_of(town.member, page=True).get("/pipeline")).text


@pytest.mark.usefixtures("sampler")
async def test_troubles_are_for_who_runs_it_all(town: Town, client_of: ClientOf, services: Any) -> None:
    async def down() -> None:
        raise OSError("it is away")

    services.health.engines["redis"] = down
    assert "it is away" in (await client_of(town.admin, page=True).get("/pipeline")).text
    for person in (town.member, town.other):
        assert "it is away" not in (await client_of(person, page=True).get("/pipeline")).text


@pytest.mark.usefixtures("sampler")
async def test_n14_what_is_rebuilt_is_told_with_its_progress(town: Town, client_of: ClientOf) -> None:
    """Whichever process does it: the page reads it from the tables."""
    add = "INSERT INTO upkeep (name, state) VALUES (:name, CAST(:state AS jsonb))"
    await town.archive.run(add, name="index_pass", state='{"why": "vectors vanished", "examined": 1204, "of": 11000}')
    await town.archive.run(add, name="archive", state='{"hurry": "Redis lost its data", "examined": 7}')
    client = client_of(town.admin, page=True)
    told = (await client.get("/pipeline/stages", headers=HTMX)).text.replace("\u00a0", " ").replace("\u202f", " ")
    assert "1,204 of 11,000 posts were compared" in told
    assert "Redis lost its data: 7 of about" in told
    client.cookies.set("tga_language", "ru")
    assert "восстанавливается из архива" in (await client.get("/pipeline/stages", headers=HTMX)).text


async def test_letters_are_shown_whole_and_harmless(town: Town, client_of: ClientOf, letters: dict[str, int]) -> None:
    assert letters
    client = client_of(town.admin, page=True)
    answer = await client.get("/pipeline/letters", headers=HTMX)
    assert "<script>" not in answer.text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in answer.text
    assert "refuses theirs" not in answer.text
    assert answer.text.count("/replay") == 2 * 2 + 2, "what is no event can only be dropped"
    of_stage = await client.get("/pipeline/letters", params={"stage": INDEXING}, headers=HTMX)
    assert "refuses two" in of_stage.text
    assert "refuses one" not in of_stage.text
    assert (await client.get("/pipeline/letters", params={"stage": "x"}, headers=HTMX)).status_code == 422


async def test_a_letter_is_replayed(town: Town, client_of: ClientOf, letters: dict[str, int], redis: Redis) -> None:
    client = client_of(town.admin, page=True)
    answer = await client.post(f"/pipeline/letters/{letters['one']}/replay", headers=HTMX)
    assert "1 event is on its way again" in answer.text
    assert "refuses one" not in answer.text
    assert await RetryQueue(redis, TAGGING).size() == 1
    whole = await client.post("/pipeline/letters/replay", data={"stage": ""})
    assert (whole.status_code, whole.headers["location"]) == (303, "/pipeline#letters")
    assert await RetryQueue(redis, INDEXING).size() == 1
    dropped = await client.post(f"/pipeline/letters/{letters['nonsense']}/drop", headers=HTMX)
    assert "1 event was forgotten" in dropped.text
    assert "None: everything was handled" in dropped.text


async def test_members_and_other_tenants_may_not(
    town: Town, client_of: ClientOf, letters: dict[str, int], redis: Redis
) -> None:
    one = letters["one"]
    for method, path in (("GET", ""), ("POST", f"/{one}/replay"), ("POST", f"/{one}/drop"), ("POST", "/replay")):
        assert (await client_of(town.member, page=True).request(method, f"/pipeline/letters{path}")).status_code == 403
    other = client_of(town.other, page=True)
    assert (await other.post(f"/pipeline/letters/{one}/replay")).status_code == 404
    assert (await other.post(f"/pipeline/letters/{one}/drop")).status_code == 404
    assert await RetryQueue(redis, TAGGING).size() == 0


async def test_storage_is_counted(town: Town, client_of: ClientOf) -> None:
    client = client_of(town.member, page=True)
    assert "Nothing is stored yet" in (await client.get("/pipeline/storage", headers=HTMX)).text
    await town.archive.post(1, "some words")
    answer = await client.get("/pipeline/storage", headers=HTMX)
    assert "Search index" in answer.text


def test_each_stage_has_its_name_in_both_languages() -> None:
    for row in PIPELINE:
        assert all((*row.title, *row.told, *row.about)), row.stage
