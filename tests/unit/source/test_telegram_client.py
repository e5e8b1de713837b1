"""Making a client: what is wrong with its settings is said in a sentence."""

from __future__ import annotations

from typing import Any

import pytest
from telethon.tl import functions, types

from telegram_assistant.config import TelegramServer
from telegram_assistant.errors import Fatal
from telegram_assistant.source.telegram_client import READING, account_of, allowed_method, open_client

pytestmark = pytest.mark.unit

PEER = types.InputPeerChannel(100, 11)
HISTORY = functions.messages.GetHistoryRequest(PEER, 0, None, 0, 100, 0, 0, 0)


def opened(**options: Any) -> Any:
    return open_client(api_id=1, api_hash="hash", **options)


@pytest.mark.parametrize("session", ["garbage", "1garbage", "1" + "A" * 352, "1" + "A" * 351, "1й"])
def test_a_session_that_is_none(session: str) -> None:
    with pytest.raises(Fatal, match="tga login"):
        opened(session=session)


@pytest.mark.parametrize("pem", ["", "garbage", "-----BEGIN RSA PUBLIC KEY-----\nMIIB\n-----END RSA PUBLIC KEY-----\n"])
def test_a_key_that_is_none(pem: str) -> None:
    with pytest.raises(Fatal, match="TELEGRAM_RSA_KEY"):
        opened(rsa_key_pem=pem)


async def test_another_server() -> None:
    client = opened(server=TelegramServer(3, "127.0.0.1", 4430))
    assert (client.session.dc_id, client.session.server_address, client.session.port) == (3, "127.0.0.1", 4430)
    assert client.flood_sleep_threshold == 0


async def test_a_server_by_name_becomes_a_number() -> None:
    assert opened(server=TelegramServer(3, "localhost", 4430)).session.server_address == "127.0.0.1"
    with pytest.raises(Fatal, match=r"no-such-host\.invalid"):
        opened(server=TelegramServer(3, "no-such-host.invalid", 4430))


async def test_only_live_clients_receive_updates() -> None:
    assert not opened().receives_updates
    assert opened(purpose="live").receives_updates


@pytest.mark.parametrize(
    "request_",
    [
        functions.messages.SendMessageRequest(PEER, "hello"),
        functions.messages.ReadHistoryRequest(PEER, 0),
        functions.channels.JoinChannelRequest(types.InputChannel(100, 11)),
        functions.messages.GetMessagesViewsRequest(PEER, [1], increment=True),
        functions.auth.LogOutRequest(),
        functions.InvokeWithTakeoutRequest(1, functions.messages.SendMessageRequest(PEER, "hello")),
        functions.InvokeWithTakeoutRequest(1, functions.contacts.GetSavedRequest()),
        functions.InvokeWithTakeoutRequest(1, functions.InvokeWithTakeoutRequest(1, HISTORY)),
        functions.InvokeWithTakeoutRequest(1, functions.account.DeleteAccountRequest("bored")),
        functions.account.FinishTakeoutSessionRequest(success=True),
    ],
)
async def test_a_method_that_does_more_than_read_is_refused(request_: Any) -> None:
    with pytest.raises(RuntimeError, match="only read"):
        await opened()(request_)


def test_the_list_holds_nothing_that_writes() -> None:
    reading = ("get", "check", "resolve", "export")
    assert {name for name in READING if not name.partition(".")[2].startswith(reading)} == {
        "account.initTakeoutSession",
        "invokeWithTakeout(account.finishTakeoutSession)",
    }
    assert allowed_method(functions.InvokeWithTakeoutRequest(1, HISTORY)) == "invokeWithTakeout(messages.getHistory)"
    assert allowed_method(functions.messages.CheckChatInviteRequest("x")) == "messages.checkChatInvite"


def test_an_account_shows_only_a_part_of_its_phone() -> None:
    account = account_of(types.User(5, first_name="Ann", last_name="Lee", username="Ann_Reads", phone="79991234567"))
    assert (account.id, account.name, account.username, account.phone) == (5, "Ann Lee", "ann_reads", "+79•••••••67")
    assert account_of(types.User(5)).phone is None
