"""What people type: `tga channels …`, `tga parse`, `tga ledger`, `tga backfill`, beside a running `tga ingest`."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from telegram_simulator.faults import Fault
from telegram_simulator.model import Ids

pytestmark = pytest.mark.e2e

# Classes of conftest.py, which cannot be imported.
Town = Any
Store = Any
Machine = Any


async def test_n28_channels_are_added_listed_and_removed(town: Town, store: Store, machine: Machine) -> None:
    news, sport = town.open("daily_news", 7), town.open("sport_today", 3)
    news.title = "News [/b] [red]"
    await machine.start()
    printed = await machine.tga("channels", "add", "@Daily_News", "https://t.me/sport_today", "@nobody_has_this")
    assert "@daily_news: is watched now" in printed
    assert "@sport_today: is watched now" in printed
    assert "@nobody_has_this: not added" in printed
    assert "no channel has this name" in printed
    assert "later" not in printed
    await store.captured(news, sport)
    listed = await machine.json("channels", "list")
    assert {row["username"]: (row["captured"], row["unknown"], row["error"]) for row in listed["channels"]} == {
        "daily_news": (7, 0, None),
        "sport_today": (3, 0, None),
    }
    (wish,) = listed["requests"]
    assert wish["reference"] == "@nobody_has_this"
    assert "USERNAME_NOT_OCCUPIED" in wish["error"]
    shown = await machine.tga("channels", "list")
    assert "News [/b] [red]" in shown, "what a stranger wrote is shown as it is"
    assert "USERNAME_NOT_OCCUPIED" in shown

    await machine.tga("channels", "remove", "@nobody_has_this")
    await machine.tga("channels", "remove", "@sport_today")
    listed = await machine.json("channels", "list")
    assert ([row["username"] for row in listed["channels"]], listed["requests"]) == (["daily_news"], [])
    assert len(await store.texts(sport)) == 3, "what was captured stays"
    town.say(sport, "Nobody reads this")
    await store.ticks(2)
    assert len(await store.texts(sport)) == 3
    assert "is not watched" in await machine.tga("channels", "remove", "@who_is_that", code=1)
    assert "error:" in await machine.tga("channels", "add", "not a channel!", code=1)


async def test_parse_visits_at_once(town: Town, store: Store, machine: Machine) -> None:
    news = town.open("daily_news", 4)
    await store.watch(news)
    await machine.start(parser_scheduler_interval_sec=3600)
    await store.captured(news)
    town.say(news, "Nobody would come for an hour")
    assert "@daily_news: visited, 5 posts, 0 ids unknown" in await machine.tga("parse", "daily_news")
    assert await store.whole(news)
    town.sim.faults.add(Fault("error", "messages.getHistory", code=400, message="CHANNEL_PRIVATE"))
    assert "CHANNEL_PRIVATE" in await machine.tga("parse", "@daily_news", code=1)


async def test_what_is_important_is_visited_first(town: Town, store: Store, machine: Machine) -> None:
    channels = [town.open(f"channel_{number}", 3) for number in range(6)]
    await store.watch(*channels)
    first = await machine.start()
    await store.captured(*channels)
    await machine.tga("channels", "priority", "@channel_4", "10")
    await machine.tga("channels", "priority", "@channel_1", "-5")
    listed = (await machine.json("channels", "list"))["channels"]
    assert [listed[0]["username"], listed[-1]["username"]] == ["channel_4", "channel_1"]
    await first.stop()
    await store.change("UPDATE channels SET next_visit_at = NULL")  # all become due with the next tick
    town.sim.rpc_log.clear()
    await machine.start(parser_max_concurrency=1)
    by_id = {channel.id: channel.username for channel in channels}

    def order() -> list[str]:
        peers = [call.args.split()[0] for call in town.sim.rpc_log if call.method == "messages.getHistory"]
        names = [by_id[int(peer.partition("=")[2])] for peer in peers]
        return list(dict.fromkeys(names)) if len(set(names)) == 6 else []

    visited = await store.until(order, "all were visited")
    assert (visited[0], visited[-1]) == ("channel_4", "channel_1")


@pytest.mark.parametrize("ids", [Ids.SPARSE])
async def test_the_ledger_tells_of_every_id(town: Town, store: Store, machine: Machine) -> None:
    old = town.open("old_news", 40, over=timedelta(days=20))
    for index in range(10):
        town.say(old, at=datetime.now(UTC) - timedelta(hours=10 - index))
    numbers = list(old.messages)
    town.world.delete(old, [numbers[29], numbers[43], numbers[44]])
    await store.watch(old)
    await machine.start()
    await store.until(lambda: store.row(old), "its row")

    async def settled() -> bool:
        # The two deleted ids are left out by the page; the backfill asks for them by id right after the visit.
        return (await store.row(old)).last_success_at is not None and not (await store.ledger(old)).unknown

    await store.until(settled, "the first visit, and what its page left out")
    told = await machine.json("ledger", "@old_news")
    newest = numbers[-1]
    assert told["newest_id"] == newest
    assert told["unknown"] == 0
    assert told["not_requested"] >= numbers[37], "older than a day: nobody asked"
    assert told["captured"] + told["empty"] + told["not_requested"] == newest
    assert (told["proven_up_to"], told["percent"], told["holes"]) == (newest, 100.0, [])
    assert "not requested" in await machine.tga("ledger", "old_news")


async def test_backfill_reads_as_far_as_one_asks(town: Town, store: Store, machine: Machine) -> None:
    old = town.open("old_news", 900, over=timedelta(days=30))
    town.world.delete(old, range(100, 140))
    await store.watch(old)
    first = await machine.start()
    await store.until(lambda: store.row(old), "its row")

    async def visited() -> bool:
        return (await store.row(old)).last_success_at is not None

    await store.until(visited, "the first visit")
    since = datetime.now(UTC) - timedelta(days=10)
    await machine.tga("backfill", "@old_news", "--since", f"{since:%Y-%m-%d}")
    ledger = await store.ledger(old)
    midnight = since.replace(hour=0, minute=0, second=0, microsecond=0)
    oldest = min(message.id for message in old.messages.values() if message.date >= midnight)
    assert (ledger.requested_from, ledger.unknown) == (oldest, 0)
    assert min(await store.texts(old)) == oldest

    # The rest, and the process is killed in the middle: another goes on where it was.
    town.sim.faults.add(Fault("slow", "messages.getHistory", seconds=0.3))
    await store.change("UPDATE channels SET history_from = '2013-01-01Z'")

    async def under_way() -> bool:
        return bool((await store.ledger(old)).captured > ledger.captured + 100)

    await store.until(under_way, "some pages")
    await first.kill()
    captured = (await store.ledger(old)).captured
    assert captured < len(old.messages)
    town.sim.rpc_log.clear()
    await machine.start()
    await machine.tga("backfill", "@old_news", "--all")
    assert await store.whole(old)
    pages = {args for args in town.asked("messages.getHistory", old) if "offset_id" in args}
    assert len(pages) <= 900 // 100, f"what was read before the kill is not read again: {pages}"
    told = await machine.json("ledger", "@old_news")
    assert (told["not_requested"], told["captured"], told["empty"]) == (0, 860, 40)
    assert "either --since" in await machine.tga("backfill", "@old_news", code=1)


async def test_what_a_stranger_called_a_channel_breaks_no_command(town: Town, store: Store, machine: Machine) -> None:
    club = town.open(None, 4, private=True, members={1001}, invite="AbCdEf0123456789")
    club.title = "Club [/b]"
    await store.watch(club)
    await machine.start()
    await store.captured(club)
    reference = str(club.id)
    assert "Club [/b]" in await machine.tga("parse", reference)
    assert "Club [/b]" in await machine.tga("ledger", reference)
    assert "Club [/b]" in await machine.tga("audit", reference)
    assert "Club [/b]" in await machine.tga("backfill", reference, "--all")
    assert "Club [/b]" in await machine.tga("channels", "comments", reference, "off")
    await machine.tga("channels", "remove", reference)
    assert f"tga channels revive {reference}" in await machine.tga("parse", reference, code=1)


async def test_accounts_wait_no_longer_than_they_must(town: Town, store: Store, machine: Machine) -> None:
    news = town.open("daily_news", 4)
    await store.watch(news)
    await machine.start()
    await store.captured(news)
    over, ahead = datetime.now(UTC) - timedelta(hours=1), datetime.now(UTC) + timedelta(days=1)
    floods = {"messages.getHistory": over.isoformat(), "upload.getFile": ahead.isoformat()}
    await store.change(
        "UPDATE telegram_accounts SET name = 'Ann [/x]', floods = CAST(:floods AS jsonb)", floods=json.dumps(floods)
    )
    shown = await machine.tga("accounts", "list")
    assert "Ann [/x]" in shown
    assert f"upload.getFile until {ahead:%Y-%m-%d}" in shown
    assert "getHistory" not in shown, "that one is over"
    refused = await machine.tga("accounts", "remove", "no-such-id", code=1)
    assert "There is no account no-such-id" in refused
    assert "Traceback" not in refused
