"""Everything an account follows, from the page through Redis to a simulated Telegram, and back as ticks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from redis.asyncio import Redis
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.ingest.requests import ChannelRequests
from telegram_simulator.faults import Fault
from telegram_simulator.server import Simulator
from tests.integration.followed import CLUB, FIRST, JOINED, capture_of, followed_world

pytestmark = pytest.mark.integration

Town = Any  # of conftest.py, which cannot be imported
ClientOf = Any


@pytest.fixture
async def sim() -> AsyncIterator[Simulator]:
    async with followed_world() as simulator:
        yield simulator


@pytest.fixture
async def requests(sim: Simulator, database: AsyncEngine, redis: Redis) -> AsyncIterator[ChannelRequests]:
    async with capture_of(sim, database, redis) as made:
        yield made


async def test_all_that_is_followed_is_listed_and_what_is_ticked_costs_no_question(
    requests: ChannelRequests, sim: Simulator, town: Town, client_of: ClientOf
) -> None:
    page = client_of(town.admin, page=True)
    assert "/follow/list" in (await page.get("/follow")).text
    shown = (await page.get("/follow/list")).text
    assert shown.count('name="reference"') == JOINED + 1, "all pages of it"
    assert shown.index("Work") < shown.index("Club") < shown.index("In no folder") < shown.index(f"@name_{FIRST + 1}")
    sim.faults.add(Fault("flood", "contacts.resolveUsername", seconds=3600))
    ticked = [f"@name_{number}" for number in range(FIRST, FIRST + JOINED)] + [f"-100{CLUB:010}"]
    answer = await page.post("/follow", data={"reference": ticked})
    assert f"{JOINED + 1} channels are looked for" in answer.text
    while await requests.step():
        pass
    watched = await town.archive.rows("SELECT id FROM channels WHERE id >= :first", first=FIRST)
    assert len(watched) == JOINED + 1
    assert "disabled" in (await page.get("/follow/list")).text
    assert sim.unhandled == []


async def test_a_shared_folder_and_what_is_wrong(requests: ChannelRequests, town: Town, client_of: ClientOf) -> None:
    page = client_of(town.admin, page=True)
    shown = (await page.get("/follow/list", params={"link": "https://t.me/addlist/AbCdEf123"})).text
    assert "Best of" in shown
    assert "@elsewhere" in shown
    assert "no link of a shared folder" in (await page.get("/follow/list", params={"link": "t.me/durov"})).text
    gone = (await page.get("/follow/list", params={"link": "t.me/addlist/no_such"})).text
    assert 'role="alert"' in gone
    assert (await client_of(town.member, page=True).get("/follow/list")).status_code == 403
    none = (await client_of(town.other, page=True).get("/follow/list")).text
    assert "no Telegram account is connected" in none, "accounts of another tenant are not shown"
    assert requests is not None


async def test_the_api_tells_the_same(requests: ChannelRequests, town: Town, client_of: ClientOf) -> None:
    api = client_of(town.admin)
    told = (await api.get("/api/v1/followed")).json()["items"]
    assert len(told) == JOINED + 1
    club = next(one for one in told if one["title"] == "Club")
    assert (club["reference"], club["folders"], club["watched"]) == (f"-100{CLUB:010}", ["Work"], False)
    added = await api.post("/api/v1/channels/list", json={"text": "\n".join(one["reference"] for one in told)})
    assert {one["outcome"] for one in added.json()["items"]} == {"added"}
    assert all(one["watched"] for one in (await api.get("/api/v1/followed")).json()["items"])
    assert (await api.get("/api/v1/followed", params={"link": "t.me/durov"})).status_code == 422
    assert (await client_of(town.member).get("/api/v1/followed")).status_code == 403
    assert requests is not None
