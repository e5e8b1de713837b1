"""Signing in by QR code and by phone, and what people are told when it fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from telegram_assistant.config import TelegramServer
from telegram_assistant.domain.source import SourceError
from telegram_assistant.source.telegram_account import TelegramAccount
from telegram_assistant.source.telegram_client import open_client
from telegram_assistant.source.telegram_login import Ask, LoginError, login_by_phone, login_by_qr
from telegram_simulator import accounts
from telegram_simulator.faults import Fault
from telegram_simulator.server import Simulator
from telegram_simulator.world import World
from tests.integration.source.conftest import NEWS, READER

pytestmark = pytest.mark.integration

ANN = "+79990000001"


async def no_password(prompt: str) -> str:
    raise AssertionError(f"nobody should be asked: {prompt}")


@pytest.fixture
def opened(sim: Simulator) -> Callable[..., Any]:
    def make(**options: Any) -> Any:
        server = TelegramServer.parse(sim.address)
        return open_client(api_id=1, api_hash="hash", server=server, rsa_key_pem=sim.public_key_pem, **options)

    return make


@pytest.fixture
def stranger(opened: Callable[..., Any]) -> Any:
    return opened(purpose="login")


def typed(text: str) -> Ask:
    async def answer(_prompt: str) -> str:
        return text

    return answer


@pytest.fixture
def code(sim: Simulator) -> Ask:
    async def answer(_prompt: str) -> str:
        return f" {sim.login_codes[ANN]} "

    return answer


async def test_by_phone_and_the_session_opens_the_account(stranger: Any, opened: Callable[..., Any], code: Ask) -> None:
    logged_in = await login_by_phone(stranger, ANN, code, no_password)
    assert (logged_in.account.id, logged_in.account.name) == (READER, "Ann")
    assert logged_in.session not in repr(logged_in)
    async with TelegramAccount(opened(session=logged_in.session), "ann") as source:
        assert (await source.channel(NEWS).page_after(0)).reached_end


async def test_a_wrong_code_and_a_wrong_password_can_be_corrected(world: World, stranger: Any, code: Ask) -> None:
    world.users[READER].password = " my secret "
    prompts: list[str] = []
    codes, passwords = iter(["00", "", ""]), iter(["no", " my secret "])

    async def ask_code(prompt: str) -> str:
        prompts.append(prompt)
        return next(codes) or await code("")

    async def ask_password(prompt: str) -> str:
        prompts.append(prompt)
        return next(passwords)

    logged_in = await login_by_phone(stranger, ANN, ask_code, ask_password)
    assert logged_in.account.id == READER
    assert prompts == [
        "Code that Telegram sent you",
        "That is not right. Code that Telegram sent you",
        "Two-step verification password",
        "That is not right. Two-step verification password",
    ]


async def test_too_many_wrong_codes(stranger: Any) -> None:
    with pytest.raises(LoginError, match="code was wrong 3 times"):
        await login_by_phone(stranger, ANN, typed("00000x"), no_password)


async def test_too_many_wrong_passwords(world: World, stranger: Any, code: Ask) -> None:
    world.users[READER].password = "secret"
    with pytest.raises(LoginError, match="password was wrong 3 times"):
        await login_by_phone(stranger, ANN, code, typed("no"))


@pytest.mark.parametrize(
    "phone, said", [("+79998887766", "sign up"), ("12", "country code"), ("+79990000002", "banned")]
)
async def test_numbers_that_cannot_sign_in(sim: Simulator, world: World, stranger: Any, phone: str, said: str) -> None:
    world.users[1002].banned = True

    async def code(_prompt: str) -> str:
        return next(iter(sim.login_codes.values()))

    with pytest.raises(LoginError, match=said):
        await login_by_phone(stranger, phone, code, no_password)
    assert not stranger.is_connected()


async def test_a_flood_says_how_long(sim: Simulator, stranger: Any) -> None:
    sim.faults.add(Fault("flood", "auth.sendCode", seconds=3600))
    with pytest.raises(SourceError, match="wait 3600 s"):
        await login_by_phone(stranger, ANN, typed(""), no_password)


async def test_by_qr(sim: Simulator, stranger: Any) -> None:
    shown: list[str] = []

    def show(address: str) -> None:
        shown.append(address)
        asyncio.get_running_loop().call_soon(sim.accept_qr, address, READER)

    logged_in = await login_by_qr(stranger, show, no_password)
    assert logged_in.account.id == READER
    assert len(shown) == 1
    assert shown[0].startswith("tg://login?token=")


async def test_by_qr_with_a_password(sim: Simulator, world: World, stranger: Any) -> None:
    world.users[READER].password = "secret"

    def show(address: str) -> None:
        asyncio.get_running_loop().call_soon(sim.accept_qr, address, READER)

    assert (await login_by_qr(stranger, show, typed("secret"))).account.id == READER


async def test_a_qr_code_that_expires_is_shown_again(
    sim: Simulator, stranger: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounts, "TOKEN_LIFE", timedelta(0))
    shown: list[str] = []

    def show(address: str) -> None:
        monkeypatch.undo()
        shown.append(address)
        if len(shown) == 2:
            asyncio.get_running_loop().call_soon(sim.accept_qr, address, READER)

    assert (await login_by_qr(stranger, show, no_password)).account.id == READER
    assert len(set(shown)) == 2


async def test_a_qr_code_that_nobody_scans(stranger: Any) -> None:
    with pytest.raises(LoginError, match="was not scanned"):
        await login_by_qr(stranger, lambda _: None, no_password, patience=0.5)
    assert not stranger.is_connected()


async def test_a_server_that_is_not_there(sim: Simulator, stranger: Any) -> None:
    await sim.stop()
    stranger._sender._delay = 0.01  # noqa: SLF001 - not half a second for a server that is gone
    with pytest.raises(SourceError, match="signing in"):
        await login_by_phone(stranger, ANN, typed(""), no_password)
