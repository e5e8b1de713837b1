"""Every error of the library becomes one of ours, with the kind that says what to do."""

from __future__ import annotations

import asyncio
import struct

import pytest
from telethon import errors
from telethon.tl.types import RpcError

from telegram_assistant.domain.retries import Failure
from telegram_assistant.domain.source import SourceError
from telegram_assistant.source.telegram_errors import (
    FileElsewhere,
    NoSuchMessage,
    UnreadableAnswer,
    rpc_code,
    source_error,
    translated,
)

pytestmark = pytest.mark.unit


def of(code: int, message: str) -> SourceError:
    """What an error that Telegram sends becomes."""
    return source_error(errors.rpc_message_to_error(RpcError(code, message), None), "messages.getHistory")


@pytest.mark.parametrize(
    "code, message, failure",
    [
        (401, "AUTH_KEY_UNREGISTERED", Failure.ACCOUNT),
        (401, "SESSION_REVOKED", Failure.ACCOUNT),
        (401, "USER_DEACTIVATED", Failure.ACCOUNT),
        (401, "USER_DEACTIVATED_BAN", Failure.ACCOUNT),
        (401, "SOMETHING_NEW", Failure.ACCOUNT),
        (406, "AUTH_KEY_DUPLICATED", Failure.ACCOUNT),
        (420, "FROZEN_METHOD_INVALID", Failure.ACCOUNT),
        (400, "CHANNEL_PRIVATE", Failure.CHANNEL_PRIVATE),
        (406, "CHANNEL_PRIVATE", Failure.CHANNEL_PRIVATE),
        (403, "SOMETHING_FORBIDDEN", Failure.CHANNEL_PRIVATE),
        (400, "USERNAME_NOT_OCCUPIED", Failure.GONE),
        (400, "USERNAME_INVALID", Failure.GONE),
        (400, "CHANNEL_INVALID", Failure.GONE),
        (400, "INVITE_HASH_EXPIRED", Failure.GONE),
        (400, "FILE_REFERENCE_EXPIRED", Failure.REFERENCE_EXPIRED),
        (400, "FILE_REFERENCE_3_EXPIRED", Failure.REFERENCE_EXPIRED),
        (500, "INTERNAL", Failure.TRANSIENT),
        (500, "RPC_CALL_FAIL", Failure.TRANSIENT),
        (-503, "Timeout", Failure.TRANSIENT),
        (-500, "No workers running", Failure.TRANSIENT),
        (502, "BAD_GATEWAY", Failure.TRANSIENT),
        (400, "LIMIT_INVALID", Failure.FATAL),
        (400, "SOMETHING_NEW", Failure.FATAL),
    ],
)
def test_errors_of_telegram(code: int, message: str, failure: Failure) -> None:
    error = of(code, message)
    assert error.failure is failure
    assert error.flood_seconds is None
    assert str(error).startswith("messages.getHistory: ")
    assert message.upper() in str(error).upper()


@pytest.mark.parametrize(
    "message, seconds",
    [("FLOOD_WAIT_37", 37), ("FLOOD_PREMIUM_WAIT_5", 5), ("SLOWMODE_WAIT_9", 9), ("FLOOD", 60)],
)
def test_floods_name_their_seconds(message: str, seconds: float) -> None:
    error = of(420, message)
    assert (error.failure, error.flood_seconds) == (Failure.FLOOD, seconds)
    assert f"{seconds} s" in str(error)


def test_a_file_in_another_data_centre() -> None:
    error = of(303, "FILE_MIGRATE_4")
    assert isinstance(error, FileElsewhere)
    assert error.dc_id == 4


def test_a_message_that_is_not_there() -> None:
    assert isinstance(of(400, "MSG_ID_INVALID"), NoSuchMessage)


def test_people_are_told_what_to_do() -> None:
    assert "tga login" in str(of(401, "SESSION_REVOKED"))
    assert "banned" in str(of(401, "USER_DEACTIVATED_BAN"))
    assert "access hash" in str(of(400, "CHANNEL_INVALID"))


@pytest.mark.parametrize(
    "raised, failure",
    [
        (TimeoutError(), Failure.TRANSIENT),
        (ConnectionError("Cannot send requests while disconnected"), Failure.TRANSIENT),
        (OSError(113, "No route to host"), Failure.TRANSIENT),
        (asyncio.IncompleteReadError(b"", 4), Failure.TRANSIENT),
        (errors.InvalidBufferError(struct.pack("<i", -429)), Failure.TRANSIENT),
        (errors.SecurityError(), Failure.TRANSIENT),
        (errors.AuthKeyNotFound(), Failure.ACCOUNT),
        (TypeError("ours"), Failure.FATAL),
    ],
)
def test_other_errors(raised: Exception, failure: Failure) -> None:
    with pytest.raises(SourceError) as caught, translated("connecting"):
        raise raised
    assert caught.value.failure is failure
    assert caught.value.__cause__ is raised
    assert str(caught.value).startswith("connecting")


def test_an_answer_that_cannot_be_parsed_does_not_fill_the_log() -> None:
    with pytest.raises(UnreadableAnswer) as caught, translated("messages.getHistory"):
        raise errors.TypeNotFoundError(0xDEAD, b"somebody's message" * 1000)
    assert caught.value.failure is Failure.FATAL
    assert "0000dead" in str(caught.value)
    assert "somebody" not in repr(caught.value.__cause__)


def test_our_own_errors_and_mistakes_pass() -> None:
    for error in (SourceError(Failure.GONE, "gone"), RuntimeError("a mistake")):
        with pytest.raises(type(error)) as caught, translated("anything"):
            raise error
        assert caught.value is error


async def test_a_request_that_the_library_cancels_is_no_cancellation() -> None:
    answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(answer.cancel)
    with pytest.raises(SourceError, match="closed"), translated("messages.getHistory"):
        await answer


async def test_a_real_cancellation_passes() -> None:
    started = asyncio.Event()

    async def wait() -> None:
        with translated("messages.getHistory"):
            started.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(wait())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_codes() -> None:
    assert rpc_code(errors.ChannelPrivateError(None)) == "CHANNEL_PRIVATE"
    assert rpc_code(errors.ServerError(None, "INTERNAL", 500)) == "INTERNAL"
