"""Reading on: pages that come quickly are one reading, and nothing that was read is lost by what comes after it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from telegram_assistant.domain.ledger import Coverage
from telegram_assistant.domain.post import Post
from telegram_assistant.domain.retries import Failure
from telegram_assistant.domain.source import PAGE_LIMIT, Page, Source, SourceError
from telegram_assistant.ingest.pages import PAGES_TOGETHER, Stretch, read_on

pytestmark = pytest.mark.unit

CHANNEL = 77
START = datetime(2026, 1, 5, 12, tzinfo=UTC)


class Shelf:
    """A source whose messages are numbered; `before` is awaited before the page after an id is given."""

    channel_id = CHANNEL
    pages_prove = True
    ids_at_once = PAGE_LIMIT

    def __init__(self, newest: int, *, unreadable: frozenset[int] = frozenset()) -> None:
        self.newest = newest
        self.unreadable = unreadable
        self.before: dict[int, Callable[[], Any]] = {}
        self.asked: list[int] = []

    async def page_after(
        self,
        after_id: int,
        limit: int = PAGE_LIMIT,
        *,
        unreadable: Collection[int] = (),  # noqa: ARG002 - tries all
    ) -> Page:
        self.asked.append(after_id)
        if after_id in self.before:
            await self.before[after_id]()
        last = min(self.newest, after_id + limit)
        ids = range(after_id + 1, last + 1)
        return Page(
            tuple(post(number) for number in ids if number not in self.unreadable),
            last == self.newest,
            tuple(number for number in ids if number in self.unreadable),
        )


def post(number: int) -> Post:
    return Post(channel_id=CHANNEL, message_id=number, posted_at=START + timedelta(minutes=number), text=f"{number}")


class Clock:
    """Each look at it is a second later."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


async def nothing() -> None:
    pass


def reading(shelf: Shelf, after_id: int = 0, **options: Any) -> AsyncGenerator[Stretch, None]:
    chosen: dict[str, Any] = {"newest_id": 0, "clock": Clock(), "before_page": nothing} | options
    return read_on(cast("Source", shelf), after_id, **chosen)


def ids(stretch: Stretch) -> list[int]:
    return [post.message_id for post in stretch.reading.posts]


async def test_pages_that_come_at_once_are_one_reading() -> None:
    newest = PAGE_LIMIT * PAGES_TOGETHER + 250
    stretches = [stretch async for stretch in reading(Shelf(newest))]
    assert [stretch.pages for stretch in stretches] == [PAGES_TOGETHER, 3]
    assert [number for stretch in stretches for number in ids(stretch)] == list(range(1, newest + 1))
    first, second = (stretch.reading for stretch in stretches)
    assert first.proven == Coverage.of_spans((1, PAGE_LIMIT * PAGES_TOGETHER + 1))
    assert second.proven == Coverage.of_spans((PAGE_LIMIT * PAGES_TOGETHER + 1, newest + 1))
    assert (first.cursor_id, second.cursor_id) == (PAGE_LIMIT * PAGES_TOGETHER, newest)
    assert (first.newest_id, second.newest_id) == (PAGE_LIMIT * PAGES_TOGETHER, newest)
    assert (first.reached_end, second.reached_end) == (False, True)


async def test_the_moment_of_a_reading_is_that_of_its_first_page() -> None:
    """What was seen to change since then is newer than what it holds."""
    (stretch,) = [stretch async for stretch in reading(Shelf(250))]
    assert stretch.pages == 3
    assert stretch.reading.asked_at == START + timedelta(seconds=1)


async def test_what_was_read_does_not_wait_for_a_slow_page() -> None:
    shelf, slow = Shelf(450), asyncio.Event()
    shelf.before[200] = slow.wait
    async with aclosing(reading(shelf)) as stretches:
        assert ids(await anext(stretches)) == list(range(1, 201))
        slow.set()
        assert ids(await anext(stretches)) == list(range(201, 451))


async def test_the_next_page_is_on_its_way_while_something_is_saved() -> None:
    shelf, given = Shelf(PAGE_LIMIT * PAGES_TOGETHER + 1), asyncio.Event()

    async def give() -> None:
        given.set()

    shelf.before[PAGE_LIMIT * PAGES_TOGETHER] = give
    async with aclosing(reading(shelf)) as stretches:
        await anext(stretches)
        await given.wait()
        assert ids(await anext(stretches)) == [PAGE_LIMIT * PAGES_TOGETHER + 1]


async def test_what_was_read_before_a_failure_comes_before_it() -> None:
    async def fail() -> None:
        raise SourceError(Failure.FLOOD, "wait", flood_seconds=9)

    shelf = Shelf(450)
    shelf.before[200] = fail
    async with aclosing(reading(shelf)) as stretches:
        assert ids(await anext(stretches)) == list(range(1, 201))
        with pytest.raises(SourceError, match="wait"):
            await anext(stretches)


async def test_who_stops_reading_leaves_no_request_behind() -> None:
    """Saving failed, or we are stopping: the page on its way is given up."""
    shelf, given_up = Shelf(450), asyncio.Event()

    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            given_up.set()

    shelf.before[200] = hang
    async with aclosing(reading(shelf)) as stretches:
        await anext(stretches)
    assert given_up.is_set()


async def test_an_unreadable_message_stays_unknown() -> None:
    (stretch,) = [stretch async for stretch in reading(Shelf(150, unreadable=frozenset({7, 120})))]
    assert stretch.unreadable == (7, 120)
    assert stretch.reading.proven == Coverage.of_spans((1, 7), (8, 120), (121, 151))
    assert stretch.reading.cursor_id == 150


async def test_a_hole_is_read_only_as_far_as_it_goes() -> None:
    shelf = Shelf(5000)
    stretches = [stretch async for stretch in reading(shelf, 1000, newest_id=5000, until=1150)]
    assert shelf.asked == [1000, 1100]
    assert [number for stretch in stretches for number in ids(stretch)] == list(range(1001, 1201))


async def test_the_end_proves_up_to_what_was_known() -> None:
    """The newest posts were deleted: the answer ends below them."""
    (stretch,) = [stretch async for stretch in reading(Shelf(120), newest_id=130)]
    assert stretch.reading.proven == Coverage.of_spans((1, 131))


async def test_the_lease_is_looked_at_before_every_page() -> None:
    looks = 0

    async def look() -> None:
        nonlocal looks
        looks += 1

    (stretch,) = [stretch async for stretch in reading(Shelf(350), before_page=look)]
    assert looks == stretch.pages == 4
