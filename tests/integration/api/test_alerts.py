"""Alerts by the API and on their page: notices, watched posts, and places that only admins set."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from fastapi import FastAPI
from redis.asyncio import Redis

from telegram_assistant.alerting.delivering import Alerting
from telegram_assistant.config import Settings
from telegram_assistant.services.services import Senders, Services
from telegram_assistant.stores.sealed import Sealer
from telegram_assistant.wiring.jobs import open_alerting, open_places
from telegram_assistant.wiring.runtime import utc_now
from tests.integration.alerting.outside import KEY, Outside, outside

pytestmark = pytest.mark.integration

Town = Any  # of conftest.py, which cannot be imported
Client = Callable[..., httpx.AsyncClient]


@pytest.fixture
async def world() -> AsyncIterator[Outside]:
    async with outside() as made:
        yield made


@pytest.fixture
async def alerting(app: FastAPI, services: Services, redis: Redis, world: Outside) -> Alerting:
    settings = Settings(
        alert_loopback=f"127.0.0.1:{world.port}", pagerduty_url=f"{world.base}/v2/enqueue", hostname="test"
    )
    sealer, places = Sealer("key"), open_places(settings, utc_now)
    app.state.services = replace(app.state.services, senders=Senders(places, sealer))
    return open_alerting(services.database, redis, sealer, places, settings=settings, clock=utc_now)


async def edit(town: Town, post: UUID, words: str) -> None:
    await town.archive.run(
        "INSERT INTO post_versions (post_id, version, text, content_hash)"
        " SELECT id, version, text, content_hash FROM posts WHERE id = :id",
        id=post,
    )
    await town.archive.run("UPDATE posts SET text = :words, version = version + 1 WHERE id = :id", words=words, id=post)


async def test_watching_a_post(client_of: Client, town: Town, alerting: Alerting) -> None:
    member, admin, other = client_of(town.member), client_of(town.admin), client_of(town.other)
    post = await town.archive.post(1, "нефть дорожает")
    assert (await other.put(f"/api/v1/watched-posts/{post}")).status_code == 404
    assert (await member.put(f"/api/v1/watched-posts/{post}")).status_code == 204
    assert (await member.put(f"/api/v1/watched-posts/{post}")).status_code == 204
    [listed] = (await member.get("/api/v1/watched-posts")).json()["items"]
    assert (listed["post_id"], listed["url"]) == (str(post), "https://t.me/daily_news/1")
    assert (await admin.get("/api/v1/watched-posts")).json()["items"] == [], "each has their own"
    for number in range(3):
        await edit(town, post, f"нефть дешевеет {number}")
        await alerting.once()
    found = (await member.get("/api/v1/notices", params={"limit": 2})).json()
    assert found["unread"] == 3
    assert [one["content"]["to"] for one in found["items"]] == [4, 3]
    rest = (await member.get("/api/v1/notices", params={"limit": 2, "cursor": found["next"]})).json()
    assert [one["content"]["to"] for one in rest["items"]] == [2]
    assert rest["next"] is None
    assert (await admin.get("/api/v1/notices")).json()["items"] == []
    assert (await member.post("/api/v1/notices/read")).json() == {"count": 3}
    assert (await member.delete(f"/api/v1/watched-posts/{post}")).status_code == 204
    assert (await member.delete(f"/api/v1/watched-posts/{post}")).status_code == 404
    assert (await member.get("/api/v1/notices", params={"cursor": "WzFd"})).status_code == 422


async def test_places_are_for_admins_and_their_secrets_for_nobody(
    client_of: Client, town: Town, alerting: Alerting, world: Outside
) -> None:
    admin, other = client_of(town.admin), client_of(town.other)
    wanted = {"kind": "slack", "value": world.slack_url, "name": "#news"}
    for path in ("", "/deliveries"):
        assert (await client_of(town.member).get(f"/api/v1/alert-places{path}")).status_code == 403
    assert (await client_of(town.member).post("/api/v1/alert-places", json=wanted)).status_code == 403
    made = (await admin.post("/api/v1/alert-places", json=wanted)).json()
    assert made["topics"] == ["search", "post", "channel", "storage"]
    assert world.slack_url not in (await admin.get("/api/v1/alert-places")).text
    [(stored,)] = await town.archive.rows("SELECT secret FROM alert_channels")
    assert b"abcd1234" not in stored, "sealed"
    place = f"/api/v1/alert-places/{made['id']}"
    assert (await other.get("/api/v1/alert-places")).json() == {"items": []}
    for method, path in (("PATCH", ""), ("DELETE", ""), ("POST", "/test"), ("POST", "/retry")):
        answer = await other.request(method, place + path, json={"enabled": False} if method == "PATCH" else None)
        assert answer.status_code == 404, path
    assert (await admin.post(f"{place}/test")).status_code == 204
    assert len(world.slack) == 1
    world.status = [404]
    failed = await admin.post(f"{place}/test")
    assert failed.status_code == 409
    assert "no_service" in failed.json()["detail"]
    await town.archive.run("UPDATE channels SET status = 'dead' WHERE id = 100")
    world.status = [410]
    await alerting.once()
    [sent] = (await admin.get("/api/v1/alert-places/deliveries")).json()["items"]
    assert (sent["state"], sent["topic"], sent["attempts"]) == ("dead", "channel", 1)
    assert (await admin.post(f"{place}/retry")).json() == {"count": 1}
    changed = await admin.patch(place, json={"topics": ["post"], "enabled": False})
    assert (changed.json()["topics"], changed.json()["enabled"]) == (["post"], False)
    assert (await admin.delete(place)).status_code == 204
    assert (await admin.get("/api/v1/alert-places/deliveries")).json() == {"items": []}
    actions = [row.action for row in await town.archive.rows("SELECT action FROM audit_log ORDER BY id")]
    assert actions[-2:] == ["alert_place_added", "alert_place_removed"]


BAD_PLACES: list[dict[str, Any]] = [
    {"kind": "slack", "value": "http://hooks.slack.com/services/x"},
    {"kind": "slack", "value": "https://10.0.0.1/x"},
    {"kind": "slack", "value": "\0"},
    {"kind": "slack", "value": "x" * 3_000},
    {"kind": "fax", "value": KEY},
    {"kind": "pagerduty", "value": "x"},
    {"kind": "pagerduty", "value": KEY, "topics": ["everything"]},
    {"kind": "pagerduty", "value": KEY, "topics": ["post"] * 11},
    {"kind": "webhook", "value": "http://localhost:6379/"},
    {},
]


@pytest.mark.usefixtures("alerting")
async def test_bad_places(client_of: Client, town: Town, subtests: pytest.Subtests) -> None:
    for body in BAD_PLACES:
        with subtests.test(body=body):
            answer = await client_of(town.admin).post("/api/v1/alert-places", json=body)
            assert answer.status_code == 422
            assert await town.archive.rows("SELECT 1 FROM alert_channels") == []


async def test_where_nothing_is_sent_it_says_so(client_of: Client, town: Town) -> None:
    answer = await client_of(town.admin).post("/api/v1/alert-places", json={"kind": "pagerduty", "value": KEY})
    assert answer.status_code == 503


@pytest.mark.parametrize("language", ["en", "ru"])
async def test_the_page(client_of: Client, town: Town, alerting: Alerting, world: Outside, language: str) -> None:
    admin = client_of(town.admin, page=True)
    admin.cookies.set("tga_language", language)
    assert (await admin.get("/alerts")).status_code == 200
    post = await town.archive.post(1, "нефть <b>дорожает</b>")
    button = await admin.get(f"/alerts/watch/{post}", headers={"HX-Request": "true"})
    assert 'aria-pressed="false"' in button.text
    pressed = await admin.post(f"/alerts/watch/{post}", headers={"HX-Request": "true"})
    assert 'aria-pressed="true"' in pressed.text
    assert (await admin.post(f"/alerts/watch/{uuid4()}")).status_code == 404
    added = await admin.post("/alerts/places", data={"kind": "webhook", "value": f"{world.base}/hook"})
    assert "whsec_" in added.text
    assert added.headers["Cache-Control"] == "no-store", "the Back button shows no secret"
    assert "whsec_" not in (await admin.get("/alerts")).text
    await edit(town, post, "нефть <b>дешевеет</b>")
    await town.archive.run("UPDATE channels SET status = 'dead', last_error = '<script>' WHERE id = 200")
    await alerting.once()
    shown = (await admin.get("/alerts")).text
    assert "<del>&lt;b&gt;дорожает&lt;/b&gt;</del><ins>&lt;b&gt;дешевеет&lt;/b&gt;</ins>" in shown
    assert "&lt;script&gt;" in shown
    assert shown.count('class="badge ok"') >= 3, "the place, and two deliveries"
    assert len(world.hooks) == 2
    [place] = await town.archive.rows("SELECT id FROM alert_channels")
    tested = await admin.post(f"/alerts/places/{place.id}/test")
    assert 'class="notice ok small" role="status"' in tested.text
    bad = await admin.post("/alerts/places", data={"kind": "slack", "value": "http://hooks.slack.com/x"})
    assert bad.status_code == 422
    assert "https://" in bad.text
    assert 'value="http://hooks.slack.com/x"' in bad.text, "to be corrected"
    assert '<option value="slack" selected>' in bad.text
    for path in (f"/alerts/places/{place.id}/toggle", "/alerts/read", f"/alerts/places/{place.id}/retry"):
        assert (await admin.post(path)).status_code == 303
    assert (await admin.post(f"/alerts/places/{place.id}/remove")).status_code == 303
    assert (await admin.post(f"/alerts/watch/{post}")).status_code == 303
    assert await town.archive.rows("SELECT 1 FROM watched_posts") == []


@pytest.mark.usefixtures("alerting")
async def test_a_member_sees_no_places(client_of: Client, town: Town) -> None:
    member = client_of(town.member, page=True)
    shown = await member.get("/alerts")
    assert shown.status_code == 200
    assert "/alerts/places" not in shown.text
    assert (await member.post("/alerts/places", data={"kind": "pagerduty", "value": KEY})).status_code == 403
