"""The first steps on the page: ways to begin, a Telegram account without a terminal, the demo put away."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from redis.asyncio import Redis
from rich.console import Console
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.bus.supervisor import Supervisor
from telegram_assistant.config import Settings
from telegram_assistant.embedded.folder import DataFolder, Running
from telegram_assistant.health import Health
from telegram_assistant.i18n import LANGUAGES, load_texts
from telegram_assistant.source.telegram_login import REASONS
from telegram_assistant.stores.postgres.watched_channels import Requests
from telegram_assistant.terminal import Steps
from telegram_assistant.wiring.connecting import WAITING, open_accounts, open_connect_desk, take_kept_account
from telegram_assistant.wiring.demo import ask_for_channels
from telegram_assistant.wiring.runtime import Runtime
from telegram_simulator.faults import Fault
from telegram_simulator.model import User
from telegram_simulator.server import Simulator
from telegram_simulator.world import World
from tests.integration.search.archive import NEWS, SPORT, SYSTEM

pytestmark = pytest.mark.integration

Town = Any  # of conftest.py, which cannot be imported
ClientOf = Any
HTMX = {"HX-Request": "true"}
ANN, PHONE = 1001, "+79990000001"
APPLICATION = {"api_id": "12345", "api_hash": "0123456789ABCDEF0123456789abcdef"}


@dataclass
class Setting:
    """A page that connects to a simulated Telegram."""

    runtime: Runtime
    sim: Simulator
    page: httpx.AsyncClient
    restarts: list[bool] = field(default_factory=list)

    async def post(self, path: str, **data: str) -> str:
        return (await self.page.post(path, data=data, headers=HTMX)).text

    async def until(self, text: str) -> str:
        for _ in range(15_000):
            shown = (await self.page.get("/connect/state", headers=HTMX)).text
            if text in shown:
                return shown
            await asyncio.sleep(0.02)
        pytest.fail(f"{text} never came: {shown}")


@pytest.fixture
async def sim() -> AsyncIterator[Simulator]:
    world = World()
    world.add_user(User(ANN, 501, "Ann", phone=PHONE))
    async with Simulator(world) as simulator:
        yield simulator


@pytest.fixture
async def connected(  # noqa: PLR0917 - fixtures
    sim: Simulator,
    town: Town,
    app: FastAPI,
    client_of: ClientOf,
    database: AsyncEngine,
    redis: Redis,
    tmp_path: Path,
) -> AsyncIterator[Callable[..., Any]]:
    async with AsyncExitStack() as stack:

        async def make(*, demo: bool) -> Setting:
            key = tmp_path / "key.pem"
            key.write_text(sim.public_key_pem)
            given: dict[str, Any] = {} if demo else {"telegram_api_id": 1, "telegram_api_hash": "hash"}
            settings = Settings(tga_data_dir=tmp_path, telegram_server=sim.address, telegram_rsa_key=key, **given)
            folder, supervisor = DataFolder(tmp_path), Supervisor()
            folder.make()
            running = Running("", "")
            health, steps = Health(supervisor, demo=demo), Steps(Console(quiet=True))
            runtime = Runtime(
                settings, steps, folder, supervisor, health, stack, database, redis, running, joined=False
            )
            made = Setting(runtime, sim, client_of(town.admin, page=True))
            runtime.restart = lambda: made.restarts.append(True)
            desk = open_connect_desk(runtime)
            app.state.services = replace(app.state.services, connecting=desk, health=health)
            await runtime.start_task("telegram_login", desk.run)
            return made

        yield make


async def test_by_qr_with_a_password_from_the_demo(connected: Any, sim: Simulator, app: FastAPI) -> None:
    stage = await connected(demo=True)
    sim.world.users[ANN].password = "open sesame"
    assert "api_hash" in (await stage.page.get("/connect")).text
    await stage.post("/connect", **APPLICATION)
    assert "<svg" in await stage.until("Scan this")
    state = app.state.services.connecting.state
    assert "token" not in repr(state), "a log must not hold it"
    sim.accept_qr(state.address, ANN)
    await stage.until("two-step verification")
    assert "Telegram is being asked" in await stage.post("/connect/answer", answer="wrong")
    assert "not the password" in await stage.until('type="password"')
    await stage.post("/connect/answer", answer="open sesame")
    assert "Connected: Ann" in await stage.until("starts anew")
    assert stage.restarts == [True]

    # What the next start finds: the application as settings, the session sealed until it has its row.
    keys = stage.runtime.folder.path / "keys"
    kept = Settings(tga_data_dir=stage.runtime.folder.path)
    assert (kept.demo, kept.telegram_api_id) == (False, 12345)
    assert kept.telegram_api_hash is not None
    assert kept.telegram_api_hash.get_secret_value() == APPLICATION["api_hash"].lower()
    assert {oct((keys / name).stat().st_mode)[-3:] for name in (WAITING, "telegram_api_id", "telegram_api_hash")} == {
        "600"
    }
    assert b"session" not in (keys / WAITING).read_bytes()
    await take_kept_account(stage.runtime)
    assert (keys / WAITING).exists(), "the demo leaves it alone"
    stage.runtime.health.demo = False
    await take_kept_account(stage.runtime)
    (account,) = await open_accounts(stage.runtime).all()
    assert (account.name, account.telegram_user_id, account.status) == ("Ann", ANN, "active")
    assert not (keys / WAITING).exists()
    assert not Settings(tga_data_dir=stage.runtime.folder.path, telegram_api_id=7, telegram_api_hash="x").demo


async def test_by_phone_an_account_is_taken_up_without_a_new_start(connected: Any, sim: Simulator) -> None:
    stage = await connected(demo=False)
    assert "api_hash" not in (await stage.page.get("/connect")).text, "the settings say it"
    await stage.post("/connect", phone=PHONE)
    await stage.until("Code from Telegram")
    await stage.post("/connect/answer", answer="1")
    await stage.until("not the code")
    await stage.post("/connect/answer", answer=sim.login_codes[PHONE])
    assert "/follow" in await stage.until("Connected: Ann")
    assert [account.name for account in await open_accounts(stage.runtime).all()] == ["Ann"]
    assert stage.restarts == []


async def test_what_fails_is_said_in_plain_words_in_both_languages(connected: Any, sim: Simulator) -> None:
    stage = await connected(demo=True)
    assert "api_id is a number" in await stage.post("/connect", api_id="x", api_hash="")
    assert "32 letters" in await stage.post("/connect", api_id="1", api_hash="x")
    assert "no phone number" in await stage.post("/connect", **APPLICATION, phone="call me")
    sim.faults.add(Fault("flood", "auth.sendCode", seconds=77, times=1))
    await stage.post("/connect", **APPLICATION, phone=PHONE)
    await stage.until("asks to wait 77 seconds")
    await stage.post("/connect", **APPLICATION, phone="+79998887766")
    await stage.until("Code from Telegram")
    assert "Go on" in await stage.post("/connect/end"), "it can be left at any time"
    sim.faults.add(Fault("error", "auth.sendCode", message="API_ID_INVALID", code=400, times=1))
    stage.page.cookies.set("tga_language", "ru")
    await stage.post("/connect", **APPLICATION, phone=PHONE)
    await stage.until("Telegram не знает такого api_id")
    answer = await stage.page.post("/connect/answer", data={"answer": "1"}, headers=HTMX)
    assert answer.status_code == 409
    texts = load_texts()
    for reason in (*REASONS, "flood", "away", "not_answered"):
        assert all(texts(language, f"connect.reason_{reason}", n=2) for language in LANGUAGES)
    for _ in range(6):
        said = await stage.post("/connect", **APPLICATION, phone=PHONE)
    assert re.search("подождите [0-9]+ секунд", said), "it is limited"


async def test_only_the_operator_connects(connected: Any, town: Town, client_of: ClientOf) -> None:
    await connected(demo=True)
    for person in (town.member, town.other, town.other_member):
        page = client_of(person, page=True)
        for answer in (
            await page.get("/connect"),
            await page.post("/connect", data=APPLICATION),
            await page.get("/connect/state"),
        ):
            assert answer.status_code == 403
        assert "/connect" not in (await page.get("/start")).text.partition("<main")[2]


async def test_the_demo_is_put_away_and_stays_away(
    town: Town, client_of: ClientOf, app: FastAPI, database: AsyncEngine
) -> None:
    app.state.services = replace(app.state.services, health=Health(Supervisor(), demo=True))
    page, requests = client_of(town.admin, page=True), Requests(database)
    await ask_for_channels(database, ["daily_news", "not_found_yet"])
    assert await requests.get(SYSTEM, "@not_found_yet") is not None
    await town.archive.run("UPDATE channels SET access_hash = '{\"preview\": 0}' WHERE id = :id", id=SPORT)
    assert "Put its channels away" in (await page.get("/start")).text
    assert (await client_of(town.member, page=True).post("/demo/put-away")).status_code == 403
    assert (await page.post("/demo/put-away")).headers["location"] == "/start"
    assert "are put away" in (await page.get("/start")).text
    shown = (await page.get("/channels")).text
    assert f"/channels/{SPORT}" in shown, "a real one stays"
    assert f"/channels/{NEWS}" not in shown
    await ask_for_channels(database, ["daily_news", "not_found_yet", "of_a_newer_edition"])
    assert await requests.get(SYSTEM, "@daily_news") is None
    assert await requests.get(SYSTEM, "@not_found_yet") is None
    assert await requests.get(SYSTEM, "@of_a_newer_edition") is not None
    app.state.services = replace(app.state.services, health=Health(Supervisor(), demo=False))
    assert (await page.post("/demo/put-away")).status_code == 409
