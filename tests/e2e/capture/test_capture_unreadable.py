"""One message that Telethon cannot parse: looked for once, remembered, and in nobody's way."""

from __future__ import annotations

from typing import Any

import pytest

from telegram_assistant.stores.postgres.channels import Channels
from telegram_simulator.model import Message
from tests.metrics import sample

pytestmark = pytest.mark.e2e

# Classes of conftest.py, which cannot be imported.
Town = Any
Store = Any
Capture = Any

FAR = 1_000_000


def spoil(channel: Any, message_id: int, *, unknown: bool = True) -> None:
    channel.messages[message_id].unknown = unknown
    channel.messages[message_id].changes += 1


def requests(town: Town) -> int:
    reading = {"messages.getHistory", "channels.getMessages"}
    return sum(call.method in reading for call in town.sim.rpc_log)


async def all_but(store: Store, channel: Any, message_id: int) -> bool:
    wanted = {message.id: message.text for message in channel.messages.values() if message.id != message_id}
    return bool(await store.texts(channel) == wanted and (await store.ledger(channel)).unknown == 1)


async def test_n26_an_unreadable_message_is_looked_for_once(town: Town, store: Store, capture: Capture) -> None:
    news = town.open("daily_news", 60)
    spoil(news, 58)  # every visit reads its place again
    await store.watch(news)
    await capture.start()
    await store.until(lambda: all_but(store, news, 58), "all but that one", 120)
    assert [tuple(row) for row in await store.rows("SELECT message_id, tries FROM unreadable_messages")] == [(58, 1)]
    await store.ticks(2)  # a visit or a backfill that was under way is over
    before, visits = requests(town), sample("parser_runs_total", mode="incremental", status="empty")
    await store.ticks(6)
    visits = sample("parser_runs_total", mode="incremental", status="empty") - visits
    assert requests(town) - before <= 4 * (visits + 1)
    assert (await store.row(news)).failures == 0
    assert await Channels(store.database).with_holes(10) == []  # no backfill keeps others waiting for it


async def test_n26_a_long_stretch_of_empty_ids_before_it_is_not_fatal(
    town: Town, store: Store, capture: Capture
) -> None:
    news = town.open("daily_news", 5)
    news.newest_id = FAR
    bad = town.say(news, "cannot be parsed")
    for number in (FAR + 9_000, FAR + 20_000):
        town.world.post(news, Message(number, bad.date, f"Post {number}"))
    spoil(news, bad.id)
    await store.watch(news)
    await capture.start()
    await store.until(lambda: all_but(store, news, bad.id), "all but that one", 120)
    assert (await store.row(news)).failures == 0
    assert list((await store.ledger(news)).gaps) == [(bad.id, bad.id + 1)]


async def test_n26_another_version_of_the_reader_tries_it_at_once(town: Town, store: Store, capture: Capture) -> None:
    news = town.open("daily_news", 20)
    spoil(news, 7)
    await store.watch(news)
    await capture.start()
    await store.until(lambda: all_but(store, news, 7), "all but that one", 120)
    await capture.stop()
    spoil(news, 7, unknown=False)
    await store.change("UPDATE unreadable_messages SET reader = 'telethon 1.0, layer 1'")
    await capture.start()
    await store.captured(news)
    assert await store.rows("SELECT 1 FROM unreadable_messages") == []
