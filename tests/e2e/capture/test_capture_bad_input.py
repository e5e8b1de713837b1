"""Bad input: each is clear in the log and in `tga channels list`, and nothing else is disturbed."""

from __future__ import annotations

from typing import Any

import pytest

from telegram_assistant.stores.postgres.accounts import TelegramAccounts
from telegram_assistant.stores.sealed import Sealer
from telegram_simulator.faults import Fault
from telegram_simulator.oddities import post_oddities

pytestmark = pytest.mark.e2e

# Classes of conftest.py, which cannot be imported.
Town = Any
Store = Any
Machine = Any
Program = Any

READER, OTHER = 1001, 1002


async def listed(machine: Machine, name: str) -> Any:
    rows = (await machine.json("channels", "list"))["channels"]
    return next(row for row in rows if name in {row["username"], row["title"]})


async def test_a_message_of_an_unknown_type_is_one_unknown_id(town: Town, store: Store, machine: Machine) -> None:
    news, good = town.open("daily_news", 150), town.open("good_channel", 150)
    numbers = list(news.messages)
    news.messages[numbers[59]].unknown = True
    await store.watch(news, good)
    program = await machine.start()
    await store.captured(good)

    async def the_rest() -> bool:
        return len(await store.texts(news)) == 149

    await store.until(the_rest, "all the other posts")
    row = await listed(machine, "daily_news")
    assert (row["captured"], row["unknown"], row["proven_up_to"], row["status"]) == (149, 1, numbers[59] - 1, "active")
    assert (await machine.json("ledger", "daily_news"))["holes"] == [[numbers[59], numbers[59] + 1]]
    assert "deadbeef" in program.log.read_text(), "the log names the type"
    later = town.say(news, "Life goes on")
    await store.captured_text(news, later.id, "Life goes on")
    assert (await listed(machine, "good_channel"))["error"] is None


async def test_odd_posts_and_files(town: Town, store: Store, machine: Machine) -> None:
    odd, good = town.open("odd_channel", 3), town.open("good_channel", 30)
    messages = post_oddities(town.world, odd, large=60 * 1024 * 1024)
    picture = town.album(good, 1)[0]
    await store.watch(odd, good)
    program = await machine.start()
    await store.captured(odd, good)

    async def files() -> dict[tuple[int, int], Any]:
        found = await store.rows(
            "SELECT p.channel_id, p.message_id, m.status, m.reason, m.name, m.attempts FROM post_media m"
            " JOIN posts p ON p.id = m.post_id WHERE m.status <> 'pending' OR m.attempts > 0"
        )
        return {(row.channel_id, row.message_id): row for row in found} if len(found) == 4 else {}

    rows = await store.until(files, "every file was dealt with")
    assert rows[good.id, picture.id].status == "stored"
    assert rows[odd.id, messages["nul_name"].id].status == "stored"
    assert rows[odd.id, messages["nul_name"].id].name == "report_.._x.txt"
    cut = rows[odd.id, messages["cut_photo"].id]
    assert (cut.status, cut.attempts) == ("pending", 1)
    assert "ended early" in cut.reason
    large = rows[odd.id, messages["large_document"].id]
    assert large.status == "skipped"
    assert "60 MB" in large.reason
    row = await listed(machine, "odd_channel")
    assert row["error"] is None
    assert "1 tried again, 1 not downloaded" in row["files"]
    assert "ended early" in row["files"]
    assert (await listed(machine, "good_channel"))["files"] == ""
    assert "ended early" in program.log.read_text()
    assert "Traceback" not in program.log.read_text()


async def test_a_private_channel_without_and_with_an_account_inside(town: Town, store: Store, machine: Machine) -> None:
    club = town.open(
        None,
        12,
        private=True,
        members={READER},
        invite="AbCdEf0123456789",
    )
    strangers = town.open(None, 5, private=True, members={OTHER}, invite="GhIjKl0123456789")
    strangers.title = "Strangers"
    news = town.open("daily_news", 5)
    await store.watch(club, strangers, news)
    await machine.start()
    await store.captured(club, news)

    async def refused() -> Any:
        return [wish for wish in (await machine.json("channels", "list"))["requests"] if wish["error"]]

    (wish,) = await store.until(refused, "the other cannot be read")
    assert "GhIjKl0123456789" in wish["reference"]
    assert "join" in wish["error"]
    club.members.clear()
    town.say(club, "You do not see this")

    async def thrown_out() -> bool:
        return "CHANNEL_PRIVATE" in ((await listed(machine, "Club"))["error"] or "")

    await store.until(thrown_out, "who is thrown out of a channel sees it in the list")
    town.say(news, "News go on")
    await store.captured(news)


async def test_a_banned_account_is_named_and_another_goes_on(town: Town, store: Store, machine: Machine) -> None:
    news = town.open("daily_news", 5)
    await store.watch(news)
    program = await machine.start()
    await store.captured(news)
    town.world.users[READER].banned = True

    async def red() -> bool:
        return bool((await program.get("/health")).status_code == 503)

    async def named() -> bool:
        return "banned" in str((await program.details())["accounts"])

    await store.until(red, "health is red without an account")
    await store.until(named, "the account is named as banned")
    assert "banned" in await machine.tga("accounts", "list")
    assert "tga login" in (await listed(machine, "daily_news"))["error"]
    assert "account_lost" in program.log.read_text()

    await add_account(store, town)
    town.say(news, "The other account reads on")
    await store.captured(news)
    assert (await listed(machine, "daily_news"))["error"] is None


async def add_account(store: Store, town: Town) -> None:
    accounts = TelegramAccounts(store.database, Sealer("of this test"))
    await accounts.add(telegram_user_id=OTHER, name="Bob", session=town.sim.session(OTHER))


async def test_a_revoked_session_is_named(town: Town, store: Store, machine: Machine) -> None:
    news = town.open("daily_news", 5)
    await store.watch(news)
    program = await machine.start()
    await store.captured(news)
    town.sim.faults.add(Fault("error", "*", code=401, message="SESSION_REVOKED"))

    async def named() -> bool:
        return "SESSION_REVOKED" in await machine.tga("accounts", "list")

    await store.until(named, "the list of accounts says it")
    assert "revoked" in await machine.tga("accounts", "list")
    assert "SESSION_REVOKED" in program.log.read_text()
