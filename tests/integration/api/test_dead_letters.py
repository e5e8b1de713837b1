"""Dead letters through the API: an admin sees, replays and drops those of its own tenant."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest
from redis.asyncio import Redis

from telegram_assistant.bus.retry_queue import RetryQueue
from telegram_assistant.domain.events import DeadLetter
from telegram_assistant.names import INDEXING, POSTS_ENRICHED, POSTS_PARSED, TAGGING
from telegram_assistant.stores.postgres.pipeline import DeadLetters

pytestmark = pytest.mark.integration

Town = Any  # of conftest.py, which cannot be imported
ClientOf = Any
LETTERS = "/api/v1/dead-letters"


async def put(town: Town, tenant: UUID, key: str, *, stage: str = TAGGING, payload: str | None = None) -> int:
    event = POSTS_PARSED if stage == TAGGING else POSTS_ENRICHED
    letter = DeadLetter(
        stage=stage,
        event=event,
        key=key,
        payload=payload if payload is not None else json.dumps({"idempotency_key": key, "text": "<b>words</b>"}),
        reason=f"the model refuses {key}",
        traceback="Traceback: here",
        attempts=3,
        trace_id="t1",
        tenant_id=tenant,
    )
    store = DeadLetters(town.archive.database)
    await store.add([letter])
    return (await store.find())[0].id


@pytest.fixture
async def letters(town: Town) -> dict[str, int]:
    own, other = town.admin.tenant_id, town.other.tenant_id
    return {
        "one": await put(town, own, "one"),
        "two": await put(town, own, "two", stage=INDEXING),
        "nonsense": await put(town, own, "nonsense", payload="no json"),
        "theirs": await put(town, other, "theirs"),
    }


async def test_they_are_listed_by_stage_and_in_pages(town: Town, client_of: ClientOf, letters: dict[str, int]) -> None:
    client = client_of(town.admin)
    first = (await client.get(LETTERS, params={"limit": 2})).json()
    second = (await client.get(LETTERS, params={"limit": 2, "cursor": first["next"]})).json()
    found = [one["id"] for one in first["items"] + second["items"]]
    assert found == [letters["nonsense"], letters["two"], letters["one"]]
    assert second["next"] is None
    of_stage = (await client.get(LETTERS, params={"stage": INDEXING})).json()["items"]
    assert [one["id"] for one in of_stage] == [letters["two"]]
    assert (await client.get(LETTERS, params={"stage": "cooking"})).status_code == 422
    assert (await client.get(LETTERS, params={"cursor": "x"})).status_code == 422


async def test_one_is_shown_whole(town: Town, client_of: ClientOf, letters: dict[str, int]) -> None:
    client = client_of(town.admin)
    shown = (await client.get(f"{LETTERS}/{letters['one']}")).json()
    assert shown["payload"]["text"] == "<b>words</b>"
    assert shown["traceback"] == "Traceback: here"
    assert shown["can_replay"]
    assert not (await client.get(f"{LETTERS}/{letters['nonsense']}")).json()["can_replay"]


async def test_a_replay_waits_for_the_stage_that_failed(
    town: Town, client_of: ClientOf, letters: dict[str, int], redis: Redis
) -> None:
    client = client_of(town.admin)
    done = (await client.post(f"{LETTERS}/{letters['one']}/replay")).json()
    assert done == {"done": 1, "left": [], "action": "replayed"}
    assert await RetryQueue(redis, TAGGING).size() == 1
    assert await RetryQueue(redis, INDEXING).size() == 0
    ((waits, _),) = await RetryQueue(redis, TAGGING).take(2e9, 5)
    assert json.loads(bytes(waits.payload))["text"] == "<b>words</b>"
    assert letters["one"] not in [one["id"] for one in (await client.get(LETTERS)).json()["items"]]


async def test_all_of_a_stage_at_once(town: Town, client_of: ClientOf, letters: dict[str, int], redis: Redis) -> None:
    client = client_of(town.admin)
    done = (await client.post(f"{LETTERS}/replay", json={"stage": TAGGING})).json()
    assert done == {"done": 1, "left": [letters["nonsense"]], "action": "replayed"}
    assert await RetryQueue(redis, TAGGING).size() == 1, "not the other tenant's"
    dropped = (await client.post(f"{LETTERS}/drop", json={"ids": [letters["nonsense"], letters["two"]]})).json()
    assert dropped["done"] == 2
    assert (await client.get(LETTERS)).json()["items"] == []
    assert [one["id"] for one in (await client_of(town.other).get(LETTERS)).json()["items"]] == [letters["theirs"]]


async def test_dropped_is_gone(town: Town, client_of: ClientOf, letters: dict[str, int]) -> None:
    client = client_of(town.admin)
    assert (await client.delete(f"{LETTERS}/{letters['one']}")).status_code == 204
    assert (await client.delete(f"{LETTERS}/{letters['one']}")).status_code == 404


async def test_another_tenants_letters_are_not_there(
    town: Town, client_of: ClientOf, letters: dict[str, int], redis: Redis
) -> None:
    client, theirs = client_of(town.admin), letters["theirs"]
    assert (await client.get(f"{LETTERS}/{theirs}")).status_code == 404
    assert (await client.post(f"{LETTERS}/{theirs}/replay")).status_code == 404
    assert (await client.delete(f"{LETTERS}/{theirs}")).status_code == 404
    for action in ("replay", "drop"):
        answer = await client.post(f"{LETTERS}/{action}", json={"ids": [letters["one"], theirs]})
        assert answer.status_code == 404, "none of them, when one is not there"
    assert await RetryQueue(redis, TAGGING).size() == 0
    assert len(await DeadLetters(town.archive.database).find()) == 4


async def test_members_and_strangers_may_not(town: Town, client_of: ClientOf, letters: dict[str, int]) -> None:
    for method, path in (("GET", ""), ("GET", f"/{letters['one']}"), ("POST", f"/{letters['one']}/replay")):
        assert (await client_of(town.member).request(method, LETTERS + path)).status_code == 403
        assert (await client_of().request(method, LETTERS + path)).status_code == 401


WRONG_CHOICES: list[dict[str, Any]] = [
    {},
    {"ids": []},
    {"ids": [0]},
    {"ids": [2**63]},
    {"ids": [1], "stage": TAGGING},
    {"stage": "x"},
    {"stage": "\0"},
]


async def test_a_wrong_choice_is_explained(town: Town, client_of: ClientOf, subtests: pytest.Subtests) -> None:
    for chosen in WRONG_CHOICES:
        with subtests.test(chosen=chosen):
            assert (await client_of(town.admin).post(f"{LETTERS}/drop", json=chosen)).status_code == 422
