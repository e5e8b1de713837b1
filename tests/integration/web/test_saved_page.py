"""The page of saved searches: kept, muted, removed, and what they found."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from fastapi import FastAPI
from redis.asyncio import Redis

from telegram_assistant.alerting.places import Places
from telegram_assistant.crawl.network import Poster
from telegram_assistant.errors import Retry
from telegram_assistant.search.alerts import Alerts, Webhooks
from telegram_assistant.services.services import Senders, Services
from telegram_assistant.stores.sealed import Sealer
from telegram_assistant.wiring.jobs import open_alerts
from telegram_assistant.wiring.runtime import utc_now

pytestmark = pytest.mark.integration

Town = Any  # of conftest.py, which cannot be imported
ClientOf = Any
ID = re.compile(r'id="s([0-9a-f-]{36})"')


class Deaf(Webhooks):
    """Takes nothing."""

    async def send(self, url: str, secret: str, body: bytes) -> int:
        raise Retry(f"{url} answered 500 to {len(body)} bytes signed with {len(secret)}")


@pytest.fixture
async def looking(
    app: FastAPI, services: Services, redis: Redis, lexicon: Any, monkeypatch: pytest.MonkeyPatch
) -> Alerts:
    monkeypatch.setattr("telegram_assistant.search.alerts.FRESH", timedelta(days=36_500))
    monkeypatch.setattr("telegram_assistant.search.alerts.BEFORE", timedelta(days=36_500))
    poster, sealer = Poster(agent="test"), Sealer("key")
    webhooks = Deaf(poster, utc_now)
    places = Places(poster, webhooks, frozenset(), "")
    app.state.services = replace(app.state.services, senders=Senders(places, sealer))
    return open_alerts(services.database, redis, sealer, webhooks, owner="test", lexicon=lexicon)


async def test_a_search_is_saved_from_the_search_page(town: Town, client_of: ClientOf, looking: Alerts) -> None:
    client = client_of(town.member, page=True)
    assert "Nothing is saved yet" in (await client.get("/saved")).text
    assert 'action="/saved"' in (await client.get("/search", params={"q": "нефть"})).text
    made = await client.post("/saved", data={"query": "нефть <b>"})
    assert made.status_code == 303
    page = (await client.get("/saved")).text
    assert "нефть &lt;b&gt;" in page
    assert "Nothing new so far" in page
    await town.archive.post(1, "Нефть дорожает, b <script>alert(1)</script>")
    await looking.once()
    assert "1 new: show it" in (await client.get("/saved/unread", params={"seen": 0})).text
    page = (await client.get("/saved")).text
    assert "1 unread" in page
    assert "<script>alert" not in page
    assert (await client.post("/saved/read")).status_code == 303
    assert "1 unread" not in (await client.get("/saved")).text


async def test_it_is_muted_and_removed(town: Town, client_of: ClientOf) -> None:
    client = client_of(town.member, page=True)
    await client.post("/saved", data={"query": "нефть", "name": "Oil"})
    [search] = ID.findall((await client.get("/saved")).text)
    await client.post(f"/saved/{search}/mute")
    assert "Unmute" in (await client.get("/saved")).text
    await client.post(f"/saved/{search}/mute")
    assert "Unmute" not in (await client.get("/saved")).text
    for path in ("mute", "remove", "retry", "webhook/drop", "webhook/test", "webhook"):
        stranger = await client_of(town.admin, page=True).post(f"/saved/{search}/{path}", data={"url": "https://x.org"})
        assert stranger.status_code == 404, path
    assert (await client.post(f"/saved/{search}/remove")).status_code == 303
    assert "Nothing is saved yet" in (await client.get("/saved")).text


async def test_what_cannot_be_saved_is_told(town: Town, client_of: ClientOf) -> None:
    client = client_of(town.member, page=True)
    for query in ("", "-снег", "x" * 1_001, "\0"):
        answer = await client.post("/saved", data={"query": query})
        assert answer.status_code == 422, query
        assert "text/html" in answer.headers["content-type"]
    del client.headers["X-CSRF-Token"]
    assert (await client.post("/saved", data={"query": "нефть"})).status_code == 403


@pytest.mark.usefixtures("looking")
async def test_a_webhook_is_set_and_tried(town: Town, client_of: ClientOf) -> None:
    client = client_of(town.member, page=True)
    await client.post("/saved", data={"query": "нефть"})
    [search] = ID.findall((await client.get("/saved")).text)
    refused = await client.post(f"/saved/{search}/webhook", data={"url": "http://127.0.0.1/"})
    assert refused.status_code == 422
    assert "The webhook did not take it" in refused.text
    taken = await client.post(f"/saved/{search}/webhook", data={"url": "https://example.org/hook"})
    assert "whsec_" in taken.text
    assert taken.headers["Cache-Control"] == "no-store", "the Back button shows no secret"
    again = (await client.get("/saved")).text
    assert "whsec_" not in again, "it is shown once"
    assert "https://example.org/hook" in again
    assert "answered 500" in (await client.post(f"/saved/{search}/webhook/test")).text
    await client.post(f"/saved/{search}/webhook/drop")
    assert "https://example.org/hook" not in (await client.get("/saved")).text


async def test_earlier_alerts_come_below(town: Town, client_of: ClientOf, looking: Alerts) -> None:
    client = client_of(town.member, page=True)
    await client.post("/saved", data={"query": "нефть"})
    for number in range(1, 26):
        await town.archive.post(number, f"нефть, сутки {number}")
    await looking.once()
    html = (await client.get("/saved")).text
    assert html.count("<article") == 20
    [more] = set(re.findall(r'hx-get="(/saved/alerts[^"]*)"', html))
    assert (await client.get(more.replace("&amp;", "&"))).text.count("<article") == 5
