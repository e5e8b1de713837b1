"""Pushes in order, twice, out of order, with gaps, and too many of them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from telethon import errors
from telethon.tl import types

from telegram_assistant.domain.retries import Failure
from telegram_assistant.domain.source import Deleted, Interrupted, LiveUpdate, NewPost, SourceError
from telegram_assistant.source.telegram_updates import Inbox

pytestmark = pytest.mark.unit

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


def post(message_id: int, pts: int, text: str = "", *, edit: bool = False) -> Any:
    made = types.Message(id=message_id, peer_id=types.PeerChannel(100), date=NOON, message=text, post=True)
    return (types.UpdateEditChannelMessage if edit else types.UpdateNewChannelMessage)(made, pts, 1)


def push(*updates: Any) -> Any:
    return types.Updates(list(updates), [], [], NOON, 0)


async def taken(inbox: Inbox) -> list[Any]:
    """What waits in the inbox, told shortly."""
    found: list[LiveUpdate] = []
    with suppress(TimeoutError):
        async with asyncio.timeout(0):  # what is there is told without a wait
            while True:
                found.append(await inbox.next())
    return [(one.post.message_id, one.post.text) if isinstance(one, NewPost) else one for one in found]


async def test_posts_edits_and_deletions() -> None:
    inbox = Inbox()
    inbox.received(push(post(1, 11, "one")))
    inbox.received(push(post(1, 12, "uno", edit=True)))
    inbox.received(types.UpdateShort(types.UpdateDeleteChannelMessages(100, [1, 2], 14, 2), NOON))
    assert await taken(inbox) == [(1, "one"), (1, "uno"), Deleted(100, (1, 2))]


async def test_a_gap_is_told_and_what_comes_late_is_not_taken_for_new() -> None:
    inbox = Inbox()
    inbox.received(push(post(1, 11, "one")))
    inbox.received(push(post(1, 13, "newest", edit=True)))
    inbox.received(push(post(1, 12, "older", edit=True)))
    inbox.received(push(post(2, 14, "two")))
    assert await taken(inbox) == [(1, "one"), Interrupted(100), (1, "newest"), (2, "two")]


async def test_a_push_that_comes_twice_counts_once() -> None:
    inbox = Inbox()
    for _ in range(2):
        inbox.received(push(post(1, 11, "one")))
    assert await taken(inbox) == [(1, "one")]


async def test_within_a_push_the_numbers_tell_the_order() -> None:
    inbox = Inbox()
    inbox.received(push(post(1, 11, "one")))
    inbox.received(push(post(1, 13, "third", edit=True), post(1, 12, "second", edit=True)))
    assert await taken(inbox) == [(1, "one"), (1, "second"), (1, "third")]


async def test_other_changes_of_a_channel_are_no_gap() -> None:
    inbox = Inbox()
    inbox.received(push(post(1, 11, "one")))
    inbox.received(push(types.UpdatePinnedChannelMessages(100, [1], 12, 1, pinned=True)))
    inbox.received(push(types.UpdateChannelWebPage(100, types.WebPageEmpty(1), 13, 1)))
    inbox.received(push(types.UpdateReadChannelInbox(100, 1, 0, 13)))
    inbox.received(push(post(2, 14, "two")))
    assert await taken(inbox) == [(1, "one"), (2, "two")]


async def test_too_long_means_read_again() -> None:
    inbox = Inbox()
    inbox.received(push(types.UpdateChannelTooLong(100, 50)))
    inbox.received(push(post(9, 51, "nine")))
    inbox.received(push(types.UpdateChannelTooLong(200)))
    inbox.received(types.UpdatesTooLong())
    assert await taken(inbox) == [Interrupted(100), (9, "nine"), Interrupted(200), Interrupted(None)]


async def test_what_is_no_channel_is_passed_by() -> None:
    inbox = Inbox()
    private = types.Message(id=1, peer_id=types.PeerUser(5), date=NOON, message="hi")
    inbox.received(
        push(types.UpdateNewMessage(private, 5, 1), types.UpdateUserTyping(5, types.SendMessageTypingAction()))
    )
    inbox.received(types.UpdateShortMessage(1, 5, "hi", 6, 1, NOON))
    assert await taken(inbox) == []


async def test_a_post_that_cannot_be_understood_is_to_be_read_again() -> None:
    inbox = Inbox()
    lost = post(1, 11)
    lost.message.date = None
    inbox.received(push(lost))
    assert await taken(inbox) == [Interrupted(100)]


async def test_more_than_fits_means_that_all_must_be_read_again() -> None:
    inbox = Inbox(size=3)
    for number in range(1, 6):
        inbox.received(push(post(number, 10 + number, str(number))))
    assert await taken(inbox) == [Interrupted(None), (5, "5")]


async def test_a_reconnection_is_an_interruption_and_gaps_show_even_after_it() -> None:
    inbox = Inbox()
    inbox.received(push(post(1, 11, "one")))
    inbox.reconnected(None)
    inbox.received(push(post(3, 13, "three")))
    assert await taken(inbox) == [(1, "one"), Interrupted(None), Interrupted(100), (3, "three")]


async def test_an_account_that_is_refused_after_a_reconnection() -> None:
    inbox = Inbox(size=1)
    inbox.received(push(post(1, 11)))
    inbox.reconnected(errors.SessionRevokedError(None))
    with pytest.raises(SourceError) as caught:
        await inbox.next()
    assert caught.value.failure is Failure.ACCOUNT


@pytest.mark.parametrize("error", [None, ConnectionError("gone")])
async def test_a_connection_that_was_given_up(error: Exception | None) -> None:
    inbox = Inbox()
    connection: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    connection.add_done_callback(inbox.disconnected)
    if error is None:
        connection.set_result(None)
    else:
        connection.set_exception(error)
    with pytest.raises(SourceError) as caught:
        await inbox.next()
    assert caught.value.failure is Failure.TRANSIENT
