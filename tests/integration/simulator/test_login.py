"""Signing in: by code, with a password, by QR code, and all the ways it can go wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from telethon import errors
from telethon.tl import functions, types

from telegram_simulator.errors import RpcError
from telegram_simulator.server import Simulator
from telegram_simulator.world import World

pytestmark = pytest.mark.integration

Connect = Callable[..., Awaitable[Any]]
ANN = "+79990000001"


@pytest.fixture
async def stranger(connect: Connect, fresh_session: Callable[[], Any]) -> Any:
    """A connected client that nobody is signed in with."""
    return await connect(fresh_session())


async def test_by_code(sim: Simulator, stranger: Any) -> None:
    sent = await stranger.send_code_request(ANN)
    assert sent.type.length == len(sim.login_codes[ANN]) == 5
    user = await stranger.sign_in(ANN, sim.login_codes[ANN])
    assert user.first_name == "Ann"
    assert await stranger.is_user_authorized()
    assert sim.login_codes == {}
    assert (await stranger.get_entity("quiet")).title == "Quiet"


async def test_a_wrong_code_can_be_tried_again(sim: Simulator, stranger: Any) -> None:
    await stranger.send_code_request(ANN)
    with pytest.raises(errors.PhoneCodeInvalidError):
        await stranger.sign_in(ANN, "wrong")
    with pytest.raises(errors.PhoneCodeExpiredError):
        await stranger(functions.auth.SignInRequest(ANN, "no-such-hash", "12345"))
    with pytest.raises(errors.PhoneCodeHashEmptyError):
        await stranger(functions.auth.SignInRequest(ANN, "", "12345"))
    await stranger.send_code_request(ANN)
    assert (await stranger.sign_in(ANN, sim.login_codes[ANN])).first_name == "Ann"


async def test_a_code_sent_again_replaces_the_first(sim: Simulator, stranger: Any) -> None:
    first = await stranger(functions.auth.SendCodeRequest(ANN, 1, "x", types.CodeSettings()))
    again = await stranger(functions.auth.ResendCodeRequest(ANN, first.phone_code_hash))
    with pytest.raises(errors.PhoneCodeExpiredError):
        await stranger(functions.auth.SignInRequest(ANN, first.phone_code_hash, sim.login_codes[ANN]))
    await stranger(functions.auth.SignInRequest(ANN, again.phone_code_hash, sim.login_codes[ANN]))
    assert (await stranger.get_me()).first_name == "Ann"


async def test_numbers_that_cannot_sign_in(sim: Simulator, world: World, stranger: Any) -> None:
    with pytest.raises(errors.PhoneNumberInvalidError):
        await stranger.send_code_request("+123")
    await stranger.send_code_request("+15550000000")
    with pytest.raises(errors.PhoneNumberUnoccupiedError):
        await stranger.sign_in("+15550000000", sim.login_codes["15550000000"])
    world.users[1001].banned = True
    with pytest.raises(errors.PhoneNumberBannedError):
        await stranger.send_code_request(ANN)


async def test_by_code_and_password(sim: Simulator, world: World, stranger: Any) -> None:
    world.users[1001].password = "очень секретно"
    await stranger.send_code_request(ANN)
    with pytest.raises(errors.SessionPasswordNeededError):
        await stranger.sign_in(ANN, sim.login_codes[ANN])
    assert await stranger.get_me() is None
    with pytest.raises(errors.PasswordHashInvalidError):
        await stranger.sign_in(password="wrong")
    assert (await stranger.sign_in(password="очень секретно")).first_name == "Ann"
    assert (await stranger.get_me()).id == 1001


async def test_a_password_without_a_code_is_no_way_in(stranger: Any) -> None:
    with pytest.raises(errors.AuthKeyUnregisteredError):
        await stranger.sign_in(password="guess")


@pytest.mark.parametrize("form", ["token", "url"])
async def test_by_qr_code(form: str, sim: Simulator, stranger: Any) -> None:
    shown = await stranger.qr_login()
    waiting = asyncio.ensure_future(shown.wait(10))
    await asyncio.sleep(0)
    sim.accept_qr(getattr(shown, form), 1002)
    assert (await waiting).first_name == "Bob"
    assert (await stranger.get_me()).id == 1002
    with pytest.raises(RpcError, match="AUTH_TOKEN_INVALID"):
        sim.accept_qr(shown.token, 1002)


async def test_by_qr_code_scanned_with_another_client_and_a_password(
    world: World, connect: Connect, stranger: Any
) -> None:
    world.users[1001].password = "pw"
    phone = await connect()
    shown = await stranger.qr_login()
    waiting = asyncio.ensure_future(shown.wait(10))
    await asyncio.sleep(0)
    await phone(functions.auth.AcceptLoginTokenRequest(shown.token))
    with pytest.raises(errors.SessionPasswordNeededError):
        await waiting
    assert (await stranger.sign_in(password="pw")).first_name == "Ann"


async def test_a_qr_code_that_nobody_scans_can_be_shown_anew(stranger: Any) -> None:
    shown = await stranger.qr_login()
    first = shown.token
    await shown.recreate()
    assert shown.token != first


async def test_whoever_is_not_signed_in_gets_nothing(stranger: Any) -> None:
    for request in (
        functions.contacts.ResolveUsernameRequest("quiet"),
        functions.updates.GetStateRequest(),
        functions.messages.GetDialogsRequest(None, 0, types.InputPeerEmpty(), 10, 0),
    ):
        with pytest.raises(errors.AuthKeyUnregisteredError):
            await stranger(request)


async def test_logging_out_ends_the_key_and_a_new_session_has_another(sim: Simulator, connect: Connect) -> None:
    text = sim.session()
    client = await connect()
    assert await client.log_out()
    assert sim.session() != text


async def test_an_account_banned_later_can_do_nothing_more(world: World, connect: Connect) -> None:
    client = await connect()
    world.users[1001].banned = True
    with pytest.raises(errors.UserDeactivatedBanError):
        await client(functions.contacts.ResolveUsernameRequest("quiet"))


async def test_a_session_needs_a_user(sim: Simulator) -> None:
    with pytest.raises(ValueError, match="no user 5"):
        sim.session(5)


async def test_a_signed_in_account_without_password_says_so(connect: Connect) -> None:
    client = await connect()
    assert not (await client(functions.account.GetPasswordRequest())).has_password
