"""`/api/v1/interests` and the page: seen, changed and forgotten by whom they belong to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from telegram_assistant.domain.interests import Act
from telegram_assistant.services.services import Services
from telegram_assistant.stores.postgres.interests import Interests
from tests.integration.conftest import Town
from tests.integration.search.archive import NEWS, Archive

pytestmark = pytest.mark.integration

Clients = Callable[..., httpx.AsyncClient]


async def weights(client: httpx.AsyncClient) -> dict[str, float]:
    items: list[dict[str, Any]] = (await client.get("/api/v1/interests")).json()["items"]
    return {one["topic"]: one["weight"] for one in items}


async def test_interests_are_chosen_changed_and_forgotten(town: Town, client_of: Clients) -> None:
    client = client_of(town.member)
    chosen = await client.put("/api/v1/interests", json={"topic": "Экономика"})
    assert chosen.status_code == 200
    [one] = chosen.json()["items"]
    assert (one["topic"], one["chosen"], one["names"]["en"]) == ("economy", 1.0, "Economy")
    await client.put("/api/v1/interests", json={"topic": "economy", "weight": 0.3})
    await client.put("/api/v1/interests", json={"topic": "  Лунная   База ", "weight": 0.6})
    assert await weights(client) == {"лунная база": 0.6, "economy": 0.3}
    assert (await client.delete("/api/v1/interests", params={"topic": "economy"})).status_code == 204
    assert (await client.delete("/api/v1/interests", params={"topic": "economy"})).status_code == 404
    assert (await client.delete("/api/v1/interests")).status_code == 204
    assert await weights(client) == {}
    assert (await client.delete("/api/v1/interests")).status_code == 204


async def test_nobody_sees_those_of_another(town: Town, client_of: Clients) -> None:
    await client_of(town.member).put("/api/v1/interests", json={"topic": "space"})
    for other in (town.admin, town.other):
        client = client_of(other)
        assert await weights(client) == {}
        assert (await client.delete("/api/v1/interests", params={"topic": "space"})).status_code == 404
    assert (await client_of(None).get("/api/v1/interests")).status_code == 401
    assert await weights(client_of(town.member)) == {"space": 1.0}


STRANGE: list[dict[str, Any]] = [
    {"topic": ""},
    {"topic": "   "},
    {"topic": "\0"},
    {"topic": "я" * 81},
    {"topic": "space", "weight": 2},
    {"topic": "space", "weight": -0.1},
    {"topic": "space", "weight": "NaN"},
    {"topic": "space", "strength": 1},
    {},
]


async def test_strange_input_is_refused(town: Town, client_of: Clients, subtests: pytest.Subtests) -> None:
    for body in STRANGE:
        with subtests.test(body=body):
            assert (await client_of(town.member).put("/api/v1/interests", json=body)).status_code == 422


async def test_recommendations_come_with_their_reasons(
    town: Town, archive: Archive, services: Services, client_of: Clients
) -> None:
    now = services.clock()
    post = await archive.post(1, "Ракета взлетела", topics=("space",))
    await archive.run("UPDATE posts SET posted_at = :now", now=now)
    await archive.run("UPDATE search_documents SET posted_at = :now", now=now)
    client = client_of(town.member)
    await client.put("/api/v1/interests", json={"topic": "Космос"})
    found = (await client.get("/api/v1/interests/recommendations")).json()
    assert [(one["post_id"], one["channel_id"], one["why"]) for one in found["posts"]] == [(str(post), NEWS, ["space"])]
    assert found["new_channels"] == []


async def test_the_page_shows_and_changes_them(town: Town, services: Services, client_of: Clients) -> None:
    client = client_of(town.member, page=True)
    empty = await client.get("/interests")
    assert "Nothing is known yet" in empty.text
    store, own = Interests(services.database), (town.member.tenant_id, town.member.user_id)
    await store.note(*own, Act.VIEW, ["economy", "<script>x</script>"], now=services.clock())
    shown = await client.get("/interests")
    assert "Economy" in shown.text
    assert "&lt;script&gt;x&lt;/script&gt;" in shown.text
    assert "<script>x" not in shown.text
    changed = await client.post("/interests", data={"topic": "economy", "level": "little"})
    assert (changed.status_code, changed.headers["location"]) == (303, "/interests")
    assert {one.topic: one.chosen for one in await store.of_user(*own)}["economy"] == 0.3
    assert "a little" in (await client.get("/interests")).text
    await client.post("/interests/forget", data={"topic": "<script>x</script>"})
    assert [one.topic for one in await store.of_user(*own)] == ["economy"]
    assert (await client.get("/interests/recommended")).status_code == 200
    await client.post("/interests/forget-all")
    assert await store.of_user(*own) == []


async def test_forms_of_somebody_else_are_refused(town: Town, client_of: Clients) -> None:
    client = client_of(town.member, page=True)
    del client.headers["X-CSRF-Token"]
    assert (await client.post("/interests/forget-all")).status_code == 403
