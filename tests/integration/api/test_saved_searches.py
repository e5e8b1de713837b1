"""Saved searches through the API: kept, changed, told of, and nobody else's."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from fastapi import FastAPI
from redis.asyncio import Redis

from telegram_assistant.alerting.places import Places
from telegram_assistant.crawl.network import Poster
from telegram_assistant.domain.saved_search import MOST_SEARCHES
from telegram_assistant.errors import Retry
from telegram_assistant.search.alerts import Alerts, Webhooks
from telegram_assistant.services.services import Senders, Services
from telegram_assistant.stores.sealed import Sealer
from telegram_assistant.wiring.jobs import open_alerts
from telegram_assistant.wiring.runtime import utc_now

pytestmark = pytest.mark.integration

Town = Any  # of conftest.py, which cannot be imported
ClientOf = Any
SAVED = "/api/v1/saved-searches"
ALERTS = "/api/v1/alerts"
HOOK = "https://example.org/hook"


class Sent(Webhooks):
    """Keeps what would have been sent."""

    def __init__(self) -> None:
        super().__init__(Poster(agent="test"), utc_now)
        self.sent: list[tuple[str, bytes]] = []
        self.fails = False

    async def send(self, url: str, secret: str, body: bytes) -> int:
        if self.fails:
            raise Retry(f"{url} answered 500")
        self.sent.append((secret, body))
        return 204


@pytest.fixture
def webhooks(app: FastAPI) -> Sent:
    made = Sent()
    places = Places(Poster(agent="test"), made, frozenset(), "")
    app.state.services = replace(app.state.services, senders=Senders(places, Sealer("key")))
    return made


@pytest.fixture
async def looking(services: Services, redis: Redis, webhooks: Sent, lexicon: Any, monkeypatch: Any) -> Alerts:
    monkeypatch.setattr("telegram_assistant.search.alerts.FRESH", timedelta(days=36_500))
    monkeypatch.setattr("telegram_assistant.search.alerts.BEFORE", timedelta(days=36_500))
    return open_alerts(services.database, redis, Sealer("key"), webhooks, owner="test", lexicon=lexicon)


async def test_a_search_is_kept_and_changed(town: Town, client_of: ClientOf) -> None:
    client = client_of(town.member)
    made = await client.post(SAVED, json={"query": "  нефть   -газ "})
    assert made.status_code == 201
    saved = made.json()
    assert (saved["name"], saved["query"], saved["web"], saved["muted"]) == ("нефть -газ", "нефть -газ", True, False)
    one = await client.get(f"{SAVED}/{saved['id']}")
    assert (
        await client.get(f"{SAVED}/{saved['id']}", headers={"If-None-Match": one.headers["etag"]})
    ).status_code == 304
    changed = (await client.patch(f"{SAVED}/{saved['id']}", json={"name": "Oil", "muted": True})).json()
    assert (changed["name"], changed["muted"], changed["web"]) == ("Oil", True, True)
    assert [item["id"] for item in (await client.get(SAVED)).json()["items"]] == [saved["id"]]
    assert (await client.delete(f"{SAVED}/{saved['id']}")).status_code == 204
    assert (await client.get(SAVED)).json() == {"items": [], "next": None}


FINDING_EVERYTHING: list[str] = ["", "   ", "-реклама", "\0", "'", "after:7d", "x" * 1_001, "x" * 20_000]


async def test_what_would_find_everything_is_refused(
    town: Town, client_of: ClientOf, subtests: pytest.Subtests
) -> None:
    for query in FINDING_EVERYTHING:
        with subtests.test(query=query):
            answer = await client_of(town.member).post(SAVED, json={"query": query})
            assert answer.status_code == 422
            assert answer.json()["detail"]


async def test_there_is_a_most(town: Town, client_of: ClientOf) -> None:
    await town.archive.run(
        "INSERT INTO saved_searches (tenant_id, user_id, name, query)"
        " SELECT :tenant, :user, 'x', 'x' FROM generate_series(1, :most)",
        tenant=town.member.tenant_id,
        user=town.member.user_id,
        most=MOST_SEARCHES,
    )
    answer = await client_of(town.member).post(SAVED, json={"query": "нефть"})
    assert answer.status_code == 422
    assert "remove one" in answer.json()["detail"]


@pytest.mark.usefixtures("webhooks")
async def test_nobody_sees_those_of_others(town: Town, client_of: ClientOf) -> None:
    mine = (await client_of(town.member).post(SAVED, json={"query": "нефть"})).json()["id"]
    await client_of(town.member).put(f"{SAVED}/{mine}/webhook", json={"url": HOOK})
    for person in (town.other, town.other_member, town.admin):  # the admin of the same tenant either
        client = client_of(person)
        assert (await client.get(SAVED)).json()["items"] == []
        for method, path, body in (
            ("GET", "", None),
            ("PATCH", "", {"muted": True}),
            ("DELETE", "", None),
            ("PUT", "/webhook", {"url": HOOK}),
            ("DELETE", "/webhook", None),
            ("POST", "/webhook/test", None),
            ("POST", "/webhook/retry", None),
        ):
            answer = await client.request(method, f"{SAVED}/{mine}{path}", json=body)
            assert answer.status_code == 404, (method, path)
    assert (await client_of(town.member).get(f"{SAVED}/{uuid4()}")).status_code == 404
    assert (await client_of(town.member).get(f"{SAVED}/nonsense")).status_code == 422
    assert (await client_of().get(SAVED)).status_code == 401


async def test_alerts_are_listed_counted_and_read(town: Town, client_of: ClientOf, looking: Alerts) -> None:
    client = client_of(town.member)
    saved = (await client.post(SAVED, json={"query": "нефть"})).json()["id"]
    other = (await client.post(SAVED, json={"query": "снег"})).json()["id"]
    for number in range(1, 6):
        await town.archive.post(number, f"нефть, сутки {number}")
        await looking.once()
    first = (await client.get(ALERTS, params={"limit": 3})).json()
    assert first["unread"] == 5
    assert first["items"][0]["search"] == "нефть"
    assert first["items"][0]["text"] == "нефть, сутки 5"
    second = (await client.get(ALERTS, params={"limit": 3, "cursor": first["next"]})).json()
    assert second["next"] is None
    urls = [item["post"]["url"] for item in (*first["items"], *second["items"])]
    assert urls == [f"https://t.me/daily_news/{number}" for number in (5, 4, 3, 2, 1)]
    assert (await client.get(ALERTS, params={"search_id": other})).json()["items"] == []
    assert (await client.get(f"{SAVED}/{saved}")).json()["unread"] == 5
    assert (await client.post(f"{ALERTS}/read", params={"search_id": other})).json() == {"count": 0}
    assert (await client.post(f"{ALERTS}/read")).json() == {"count": 5}
    assert (await client.get(ALERTS)).json()["unread"] == 0
    assert (await client_of(town.admin).get(ALERTS)).json()["items"] == []
    for cursor in ("nonsense", "W10", first["next"][:-2]):
        assert (await client.get(ALERTS, params={"cursor": cursor})).status_code == 422


async def test_a_webhook_is_set_tried_and_sent_to(
    town: Town, client_of: ClientOf, looking: Alerts, webhooks: Sent
) -> None:
    client = client_of(town.member)
    saved = (await client.post(SAVED, json={"query": "нефть"})).json()["id"]
    path = f"{SAVED}/{saved}/webhook"
    assert (await client.post(f"{path}/test")).status_code == 422
    for url in ("http://127.0.0.1/", "http://localhost:8000/", "ftp://x.org", "http://169.254.169.254/", "", "\0"):
        assert (await client.put(path, json={"url": url})).status_code == 422, url
    secret = (await client.put(path, json={"url": HOOK})).json()["secret"]
    assert secret.startswith("whsec_")
    assert (await client.get(f"{SAVED}/{saved}")).json()["webhook_url"] == HOOK
    assert (await client.post(f"{path}/test")).json() == {"status": 204}
    await town.archive.post(1, "нефть")
    await looking.once()
    assert [(used, b'"alert"' in body) for used, body in webhooks.sent] == [(secret, False), (secret, True)]
    webhooks.fails = True
    failed = await client.post(f"{path}/test")
    assert (failed.status_code, failed.json()["detail"]) == (409, f"{HOOK} answered 500")
    await town.archive.post(2, "нефть снова")
    await town.archive.run("UPDATE search_alerts SET attempts = 5")
    await looking.once()
    await town.archive.run("UPDATE search_alerts SET attempts = 5, due_at = now() WHERE state = 'waiting'")
    await looking.once()
    dead = (await client.get(ALERTS, params={"webhook": "dead"})).json()["items"]
    assert [(item["error"], item["webhook"]) for item in dead] == [(f"{HOOK} answered 500", "dead")]
    assert (await client.get(f"{SAVED}/{saved}")).json()["dead"] == 1
    assert (await client.post(f"{path}/retry")).json() == {"count": 1}
    assert (await client.delete(path)).status_code == 204
    assert (await client.get(f"{SAVED}/{saved}")).json()["webhook_url"] is None


async def test_without_a_sender_there_are_no_webhooks(town: Town, client_of: ClientOf) -> None:
    client = client_of(town.member)
    saved = (await client.post(SAVED, json={"query": "нефть"})).json()["id"]
    answer = await client.put(f"{SAVED}/{saved}/webhook", json={"url": HOOK})
    assert answer.status_code == 503
