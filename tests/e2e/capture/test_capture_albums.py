"""Albums are whole: across pages and ticks, at the edge of what was asked for, and when items go (SPEC 2.5)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from telegram_assistant.names import ALBUMS_PARSED

pytestmark = pytest.mark.e2e

# Classes of conftest.py, which cannot be imported.
Town = Any
Store = Any
Capture = Any


def ago(**span: float) -> datetime:
    return datetime.now(UTC) - timedelta(**span)


async def albums(store: Store) -> list[tuple[int, int, int]]:
    """Number of items as the group, its members and the announcement say."""
    found = await store.rows(
        "SELECT items_count, announced_items, (SELECT count(*) FROM media_group_items i WHERE i.group_id = g.id)"
        " AS members FROM media_groups g ORDER BY posted_at, grouped_id"
    )
    return [(row.items_count, row.members, row.announced_items) for row in found]


async def test_an_album_over_the_edge_of_a_page_is_told_once(town: Town, store: Store, capture: Capture) -> None:
    news = town.open("daily_news", 96)
    town.album(news, 10, at=ago(minutes=5))
    town.say(news, "After it")
    await store.watch(news)
    await capture.start()
    await store.captured(news)
    await store.published()
    assert await albums(store) == [(10, 10, 10)]
    told = await store.events(ALBUMS_PARSED)
    assert [(event.items_count, event.caption_text, event.album_kind) for event in told] == [(10, "An album", "photo")]
    posts = await store.rows("SELECT id FROM posts WHERE grouped_id IS NOT NULL ORDER BY message_id")
    assert list(told[0].post_ids) == [row.id for row in posts]


async def test_an_album_that_grows_is_told_when_it_is_whole(town: Town, store: Store, capture: Capture) -> None:
    news = town.open("daily_news", 3)
    await store.watch(news)
    await capture.start()
    await store.captured(news)
    first = town.album(news, 2)
    await store.captured(news)
    await store.published()
    assert await store.events(ALBUMS_PARSED) == [], "it may get further items"
    town.album(news, 2, group=first[0].grouped_id)
    await store.captured(news)

    async def told() -> list[Any]:
        return list(await store.events(ALBUMS_PARSED))

    events = await store.until(told, "the album is told")
    assert [event.items_count for event in events] == [4]
    assert await albums(store) == [(4, 4, 4)]


async def test_the_first_visit_does_not_cut_an_album(town: Town, store: Store, capture: Capture) -> None:
    """A day ago somebody was just sending one: half of it is older than what is asked for."""
    news = town.open("daily_news", 20, over=timedelta(hours=2))
    old = town.open("old_news", 0)
    for index in range(20):
        town.say(old, at=ago(hours=30, minutes=-index))
    group = town.album(old, 4, at=ago(hours=24, seconds=20))[0].grouped_id
    town.album(old, 4, at=ago(hours=23, minutes=50), group=group)
    for _ in range(3):
        town.say(old, at=ago(hours=2))
    await store.watch(old, news)
    await capture.start(feature_predictive_polling_enabled=False)  # only then a channel rests until the next tick
    await store.captured(news)

    async def told() -> list[Any]:
        return list(await store.events(ALBUMS_PARSED))

    events = await store.until(told, "the album is told")
    assert [event.items_count for event in events] == [8]
    assert await albums(store) == [(8, 8, 8)]
    ledger = await store.ledger(old)
    assert (ledger.captured, ledger.unknown, ledger.not_requested) == (11, 0, 20)

    async def rests() -> bool:
        return (await store.row(old)).next_visit_at is None

    await store.until(rests, "nothing is left to wait for: the next tick is early enough")


async def test_an_album_that_loses_items_is_told_again_and_goes_with_the_last(
    town: Town, store: Store, capture: Capture
) -> None:
    news = town.open("daily_news", 3, members={1001})
    items = town.album(news, 3, at=ago(minutes=1))
    await store.watch(news)
    await capture.start()
    await store.captured(news)
    town.world.delete(news, [items[1].id])
    await store.captured(news)

    async def told() -> list[Any]:
        return [event for event in await store.events(ALBUMS_PARSED) if event.items_count == 2]

    await store.until(told, "the next visit tells what is left of it")
    assert await albums(store) == [(2, 2, 2)]
    told_all = await store.events(ALBUMS_PARSED)
    assert [event.items_count for event in told_all] == [3, 2]
    assert len({event.idempotency_key for event in told_all}) == 2
    town.world.delete(news, [items[0].id, items[2].id])
    await store.captured(news)
    assert await albums(store) == []


async def test_lesson_20_a_message_that_nobody_can_read_keeps_no_album_back(
    town: Town, store: Store, capture: Capture
) -> None:
    """The unknown id beside it might be an item: the album waits a while, and is told as it is."""
    news = town.open("daily_news", 20)
    town.album(news, 3, at=ago(minutes=5))
    town.say(news, "Of a type that no client knows", at=ago(minutes=4), unknown=True)
    for _ in range(12):
        town.say(news, at=ago(minutes=3))
    await store.watch(news)
    await capture.start()

    async def kept() -> bool:
        return await albums(store) == [(3, 3, 0)]

    await store.until(kept, "the album is stored, and may lack an item")
    await store.change("UPDATE media_groups SET created_at = now() - interval '1 hour'")

    async def told() -> bool:
        return [event.items_count for event in await store.events(ALBUMS_PARSED)] == [3]

    await store.until(told, "it is told")
