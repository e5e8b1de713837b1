"""What a page proves, and how one message that nobody can parse is found and passed by."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from telethon.tl import types

from telegram_assistant.domain.retries import Failure
from telegram_assistant.source.telegram_errors import UnreadableAnswer
from telegram_assistant.source.telegram_pages import read_ids, read_page

pytestmark = pytest.mark.unit

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


class History:
    """A channel in memory; answers as Telegram does, filled up with older messages at the end or not."""

    def __init__(self, ids: Sequence[int], *, bad: Sequence[int] = (), gone: Sequence[int] = (), fill: bool) -> None:
        self.ids, self.bad, self.gone, self.fill = sorted(ids), set(bad), set(gone), fill
        self.asked: list[Any] = []

    async def after(self, after_id: int, limit: int, also_that: bool) -> Any:
        self.asked.append(after_id)
        page = [i for i in self.ids if i > after_id][:limit]
        if self.fill and also_that and len(page) < limit:
            page = [i for i in self.ids if i == after_id] + page
        return self._answer(page)

    async def below(self, after_id: int, below: int) -> Any:
        self.asked.append((after_id, below))
        return self._answer([i for i in self.ids if i > after_id][:1] if self._first(after_id) < below else [])

    def _first(self, after_id: int) -> int:
        return min((i for i in self.ids if i > after_id), default=2**31)

    async def by_ids(self, ids: Sequence[int]) -> Any:
        self.asked.append(list(ids))
        return self._answer(ids)

    def _answer(self, ids: Sequence[int]) -> Any:
        if self.bad.intersection(ids):
            raise UnreadableAnswer(Failure.FATAL, "constructor unknown")
        messages = [self._message(i) for i in reversed(ids)]
        return types.messages.ChannelMessages(1, len(self.ids), messages, [], [], [])

    def _message(self, message_id: int) -> Any:
        if message_id in self.gone or message_id not in self.ids:
            return types.MessageEmpty(message_id, None)
        return types.Message(id=message_id, peer_id=types.PeerChannel(100), date=NOON, message="text")


async def read_all(history: History, limit: int = 10) -> tuple[list[int], list[int]]:
    posts: list[int] = []
    unreadable: list[int] = []
    after = 0
    while True:
        page = await read_page(history.after, history.below, after, limit)
        posts += [post.message_id for post in page.posts]
        unreadable += page.unreadable
        after = max([after, *posts, *unreadable])
        if page.reached_end:
            return posts, unreadable


@pytest.mark.parametrize("fill", [True, False])
@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 35])
async def test_every_message_once_and_then_the_end(count: int, fill: bool) -> None:
    ids = range(3, 3 + 3 * count, 3)
    assert await read_all(History(ids, fill=fill)) == (list(ids), [])


async def test_older_messages_show_the_end_at_once() -> None:
    history = History([5, 6, 7], fill=True)
    page = await read_page(history.after, history.below, 5, 10)
    assert ([post.message_id for post in page.posts], page.reached_end) == ([6, 7], True)


async def test_a_short_page_alone_is_no_end() -> None:
    history = History([5, 6, 7], fill=False)
    page = await read_page(history.after, history.below, 5, 10)
    assert ([post.message_id for post in page.posts], page.reached_end) == ([6, 7], False)


async def test_a_page_of_nothing_but_gone_messages_is_no_end() -> None:
    history = History(range(1, 31), gone=range(1, 21), fill=False)
    page = await read_page(history.after, history.below, 0, 10)
    assert ([post.message_id for post in page.posts], page.reached_end) == (list(range(21, 31)), False)
    assert history.asked == [0, 10, 20]


@pytest.mark.parametrize("fill", [True, False])
@pytest.mark.parametrize("bad", [[1], [17], [40], [39, 40], [16, 17, 18], [1, 40]])
async def test_bad_messages_are_found_and_the_rest_is_read(bad: list[int], fill: bool) -> None:
    posts, unreadable = await read_all(History(range(1, 41), bad=bad, fill=fill))
    assert unreadable == bad
    assert posts == [i for i in range(1, 41) if i not in bad]


async def test_n26_a_bad_message_far_above_the_last_is_found_in_few_requests() -> None:
    history = History([1, 1_000_095, 1_000_099], bad=[1_000_095], fill=False)
    page = await read_page(history.after, history.below, 1, 100)
    assert (page.posts, page.unreadable, page.reached_end, page.complete) == ((), (1_000_095,), False, True)
    assert len(history.asked) <= 60
    page = await read_page(history.after, history.below, 1_000_095, 100)
    assert [post.message_id for post in page.posts] == [1_000_099]


async def test_n26_where_ids_are_dense_a_bad_message_costs_a_dozen_requests() -> None:
    history = History(range(1, 201), bad=[77], fill=False)
    page = await read_page(history.after, history.below, 0, 100)
    assert ([post.message_id for post in page.posts], page.unreadable) == (list(range(1, 77)), (77,))
    assert page.complete
    assert len(history.asked) <= 12


async def test_when_nothing_can_be_parsed_nothing_is_called_a_bad_message() -> None:
    async def garbled(*_asked: object) -> Any:
        raise UnreadableAnswer(Failure.FATAL, "constructor unknown")

    with pytest.raises(UnreadableAnswer):
        await read_page(garbled, garbled, 0, 20)


async def test_by_ids_an_unreadable_one_costs_a_few_requests_more() -> None:
    history = History(range(1, 101), bad=[33], fill=False)
    told = await read_ids(history.by_ids, range(1, 101))
    assert told.unreadable == [33]
    assert len(told.found) == 99
    assert len(history.asked) <= 15


@pytest.mark.parametrize("limit", [0, 101])
async def test_a_page_has_its_limits(limit: int) -> None:
    history = History([], fill=False)
    with pytest.raises(ValueError, match="1 to 100"):
        await read_page(history.after, history.below, 0, limit)
