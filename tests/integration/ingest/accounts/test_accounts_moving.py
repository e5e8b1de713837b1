"""Work moves between accounts: floods, revoked and banned ones, channels that an account may not read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from telegram_assistant.domain.post import Media, MediaKind
from telegram_assistant.domain.retries import Failure
from telegram_assistant.domain.source import SourceError
from telegram_assistant.ingest.accounts import DENIED_SECONDS
from telegram_simulator.faults import Fault
from telegram_simulator.model import File, Kind, Message

pytestmark = pytest.mark.integration

ANN, BOB = 1001, 1002
HISTORY = "messages.getHistory"


def flood(user: int, seconds: float = 600, method: str = HISTORY) -> Fault:
    return Fault("flood", method, user=user, seconds=seconds)


def revoked(user: int) -> Fault:
    return Fault("error", HISTORY, user=user, code=401, message="AUTH_KEY_UNREGISTERED")


async def tried(work: Awaitable[int]) -> int | Failure:
    try:
        return await work
    except SourceError as exc:
        return exc.failure


def shown(report: dict[str, Any], account_id: str) -> dict[str, Any]:
    (found,) = [one for one in report["accounts"] if one["id"] == account_id]
    return dict(found)


async def test_a_flood_on_one_account_moves_work_to_the_other(scene: Any) -> None:
    ann, _bob = await scene.both()
    scene.sim.faults.add(flood(ANN))
    pool, channel = await scene.pool(), await scene.watch(100, {ann: 11})
    assert await scene.newest_id(pool, channel) == 3  # the same visit goes on
    assert (scene.asked(HISTORY, ANN), scene.asked(HISTORY, BOB)) == (1, 1)
    assert await scene.newest_id(pool, channel) == 3
    assert scene.asked(HISTORY, ANN) == 1  # not asked into the flood
    report = await pool.report()
    assert report["status"] == "degraded"
    assert report["error"].startswith("Telegram lets Ann for")
    assert shown(report, ann)["floods"] == {HISTORY: (await scene.account(ann)).floods[HISTORY].isoformat()}
    assert (await scene.account(ann)).floods[HISTORY].timestamp() == scene.clock.ticks() + 600


async def test_a_flood_is_remembered_across_a_restart_until_it_ends(scene: Any) -> None:
    ann, bob = await scene.both()
    scene.sim.faults.add(Fault("flood", HISTORY, user=ANN, seconds=600, times=1))
    channel = await scene.watch(100, {ann: 11, bob: 11})
    for _ in range(2):
        pool = await scene.pool()
        assert await scene.newest_id(pool, channel) == 3
        await pool.close()
    assert scene.asked(HISTORY, ANN) == 1
    scene.clock.advance(seconds=601)
    scene.sim.faults.add(flood(BOB))
    assert await scene.newest_id(await scene.pool(), channel) == 3
    assert scene.asked(HISTORY, ANN) == 2


async def test_a_flood_that_another_process_met_is_seen(scene: Any) -> None:
    ann, bob = await scene.both()
    channel = await scene.watch(100, {ann: 11, bob: 11})
    here, there = await scene.pool(), await scene.pool()
    scene.sim.faults.add(flood(ANN))
    for _ in range(2):
        assert await scene.newest_id(here, channel) == 3
    asked = scene.asked(HISTORY, ANN)
    scene.clock.advance(seconds=6)
    for _ in range(3):
        assert await scene.newest_id(there, channel) == 3
    assert scene.asked(HISTORY, ANN) == asked == 1


async def test_when_all_are_flooded_the_shortest_wait_is_told(scene: Any) -> None:
    ann, bob = await scene.both()
    scene.sim.faults.add(flood(ANN, 900), flood(BOB, 400))
    pool, channel = await scene.pool(), await scene.watch(100, {ann: 11, bob: 11})
    with pytest.raises(SourceError, match="no Telegram account can read @news_daily now") as wait:
        await scene.newest_id(pool, channel)
    assert (wait.value.failure, wait.value.flood_seconds) == (Failure.FLOOD, 400.0)
    scene.clock.advance(seconds=50)
    with pytest.raises(SourceError) as wait:
        await pool.reader(channel)
    assert wait.value.flood_seconds == 350.0
    report = await pool.report()
    assert report["status"] == "failing"
    first = scene.clock.now + timedelta(seconds=350)
    assert report["error"].startswith(
        f"Telegram makes Ann, Bob wait with messages.getHistory until {first.isoformat(timespec='seconds')}"
    )
    scene.clock.advance(seconds=60)
    report = await pool.report()  # minutes are no trouble: Bob's are nearly over
    assert (report["status"], "Ann" in report["error"], "Bob" in report["error"]) == ("degraded", True, False)


async def test_a_short_flood_is_cheaper_than_asking_for_the_username(scene: Any) -> None:
    ann, bob = await scene.both()
    scene.sim.faults.add(flood(ANN, 20))
    pool, channel = await scene.pool(), await scene.watch(100, {ann: 11})
    for _ in range(2):
        with pytest.raises(SourceError) as wait:
            await scene.newest_id(pool, channel)
        assert wait.value.flood_seconds == 20.0
    assert scene.asked("contacts.resolveUsername") == 0
    knowing = await scene.watch(300, {ann: 13, bob: 13})
    assert await scene.newest_id(pool, knowing) == 3  # who knows the channel already takes it at once


async def test_a_revoked_session_is_marked_and_the_other_takes_over(scene: Any) -> None:
    ann, _ = await scene.both()
    pool, channel = await scene.pool(), await scene.watch(100, {ann: 11})
    source = await pool.reader(channel)
    assert await source.last_id_before(scene.clock()) == 3
    scene.sim.faults.add(revoked(ANN))
    assert await source.last_id_before(scene.clock()) == 3  # with the hash of Ann given, read by Bob
    assert scene.asked("messages.getHistory", BOB) == 1
    account = await scene.account(ann)
    assert account.status == "revoked"
    assert "AUTH_KEY_UNREGISTERED" in (account.last_error or "")
    report = await pool.report()
    assert report["status"] == "degraded"  # told, although the other goes on
    assert report["error"].startswith("Ann: ")
    assert (shown(report, ann)["status"], shown(report, ann)["last_error"]) == ("revoked", account.last_error)
    assert await scene.newest_id(await scene.pool(), channel) == 3  # another process knows it from the row
    assert scene.asked(HISTORY, ANN) == 2


async def test_a_banned_account_is_told_from_a_revoked_one(scene: Any) -> None:
    ann, _bob = await scene.both()
    scene.world.users[ANN].banned = True
    pool, channel = await scene.pool(), await scene.watch(100, {ann: 11})
    assert await scene.newest_id(pool, channel) == 3
    account = await scene.account(ann)
    assert account.status == "banned"
    assert "USER_DEACTIVATED_BAN" in (account.last_error or "")


async def test_without_any_account_the_error_says_what_to_do(scene: Any) -> None:
    ann = await scene.log_in(ANN)
    pool, channel = await scene.pool(), await scene.watch(100, {ann: 11})
    scene.sim.faults.add(replace(revoked(ANN), times=1))
    for _ in range(2):
        with pytest.raises(SourceError, match="tga login") as lost:
            await scene.newest_id(pool, channel)
        assert lost.value.failure is Failure.ACCOUNT
    report = await pool.report()
    assert (report["status"], report["error"]) == ("failing", "no Telegram account can be used: run `tga login`")
    # Whoever logs in again is seen without a restart.
    await scene.store.add(telegram_user_id=ANN, name="Ann", session=scene.sim.session(ANN))
    scene.clock.advance(seconds=6)
    assert await scene.newest_id(pool, channel) == 3
    assert (await pool.report())["status"] == "ok"


async def test_an_account_that_is_removed_reads_no_more(scene: Any) -> None:
    ann, bob = await scene.both()
    pool, channel = await scene.pool(), await scene.watch(100, {ann: 11})
    assert await scene.newest_id(pool, channel) == 3
    await scene.store.remove(ann)
    scene.clock.advance(seconds=6)
    assert await scene.newest_id(pool, await scene.channel(100)) == 3
    assert scene.asked(HISTORY, BOB) == 1
    assert await pool.active() == [bob]


async def test_a_private_channel_is_read_by_its_member_only(scene: Any) -> None:
    _ann, bob = await scene.both()
    pool, channel = await scene.pool(), await scene.watch(400, {bob: 14})
    for _ in range(4):
        assert await scene.newest_id(pool, channel) == 3
    assert (scene.asked(HISTORY, ANN), scene.asked(HISTORY, BOB)) == (0, 4)
    scene.sim.faults.add(revoked(BOB))
    for _ in range(2):
        with pytest.raises(SourceError, match=r"Secret \(400\).*AUTH_KEY_UNREGISTERED") as lost:
            await scene.newest_id(pool, channel)
        assert lost.value.failure is Failure.ACCOUNT
    assert scene.asked(HISTORY, ANN) == 0


async def test_a_private_channel_that_nobody_joined_says_so(scene: Any) -> None:
    await scene.log_in(ANN)
    pool = await scene.pool()
    with pytest.raises(SourceError, match=r"none of the Telegram accounts has joined Secret \(400\)") as private:
        await pool.reader(await scene.watch(400))
    assert private.value.failure is Failure.CHANNEL_PRIVATE


async def test_an_account_that_may_not_read_a_channel_leaves_it_to_others(scene: Any) -> None:
    ann, bob = await scene.both()
    banned = Fault("error", HISTORY, channel=100, user=ANN, code=400, message="CHANNEL_PRIVATE")
    scene.sim.faults.add(banned)
    pool = await scene.pool()
    channel, other = await scene.watch(100, {ann: 11, bob: 11}), await scene.watch(300, {ann: 13})
    for _ in range(4):
        assert await scene.newest_id(pool, channel) == 3
    assert scene.sim.faults.count(banned) == 1  # not tried again for a while
    assert await scene.newest_id(pool, other) == 3  # and elsewhere Ann reads
    assert (await scene.account(ann)).status == "active"
    scene.clock.advance(seconds=DENIED_SECONDS)
    for _ in range(2):
        assert await scene.newest_id(pool, channel) == 3
    assert scene.sim.faults.count(banned) == 2
    # When there is nobody else it is asked: it may have joined.
    await scene.store.remove(bob)
    scene.clock.advance(seconds=6)
    with pytest.raises(SourceError, match=r"@news_daily: .*CHANNEL_PRIVATE") as private:
        await scene.newest_id(pool, await scene.channel(100))
    assert private.value.failure is Failure.CHANNEL_PRIVATE
    scene.sim.faults.remove(banned)
    assert await scene.newest_id(pool, await scene.channel(100)) == 3


async def test_work_is_shared_between_accounts(scene: Any) -> None:
    ann, bob = await scene.both()
    pool, channel = await scene.pool(), await scene.watch(100, {ann: 11, bob: 11})
    for _ in range(6):
        assert await scene.newest_id(pool, channel) == 3
    assert (scene.asked(HISTORY, ANN), scene.asked(HISTORY, BOB)) == (3, 3)


async def test_after_silence_another_account_goes_first(scene: Any) -> None:
    ann, bob = await scene.both()
    scene.request_timeout = 0.2
    scene.sim.faults.add(Fault("silence", HISTORY, user=ANN))
    pool, channel = await scene.pool(), await scene.watch(100, {ann: 11, bob: 11})
    outcomes = [await tried(scene.newest_id(pool, channel)) for _ in range(6)]
    assert sorted(outcomes, key=str) == [3, 3, 3, 3, 3, Failure.TRANSIENT]
    assert (await scene.account(ann)).status == "active"


async def test_many_visits_open_an_account_once(scene: Any) -> None:
    ann, bob = await scene.both()
    pool, channel = await scene.pool(), await scene.watch(100, {ann: 11, bob: 11})
    assert scene.opened == []  # nothing before it is needed
    assert await asyncio.gather(*(scene.newest_id(pool, channel) for _ in range(8))) == [3] * 8
    assert sorted(scene.opened) == sorted([(ann, False), (bob, False)])
    assert scene.sim.connections == 2


async def test_a_server_that_restarts_is_connected_to_again(scene: Any) -> None:
    ann = await scene.log_in(ANN)
    pool, channel = await scene.pool(), await scene.watch(100, {ann: 11})
    assert await scene.newest_id(pool, channel) == 3
    await scene.sim.stop()
    await scene.sim.start()
    assert await scene.newest_id(pool, channel) == 3
    assert scene.opened == [(ann, False)]


async def test_a_download_begins_again_with_another_account(scene: Any) -> None:
    ann, bob = await scene.both()
    data = b"%PDF" * 300_000  # three pieces
    file = File(9001, 77, Kind.DOCUMENT, "application/pdf", lambda: data, name="a.pdf")
    scene.world.post(
        scene.world.channels[100], Message(4, datetime.now(scene.world.channels[100].created.tzinfo), "file", file=file)
    )
    pool, channel = await scene.pool(), await scene.watch(100, {ann: 11, bob: 11})
    source = await pool.reader(channel)
    media = (await source.by_ids([4]))[4].media[0]
    first, second = (ANN, BOB) if scene.asked("channels.getMessages", ANN) else (BOB, ANN)
    scene.sim.faults.add(flood(first, method="upload.getFile"))
    assert b"".join([piece async for piece in source.download(4, media)]) == data
    assert (scene.asked("upload.getFile", first), scene.asked("upload.getFile", second)) == (1, 3)
    assert scene.asked("channels.getMessages") == 2  # for a file reference of its own
    missing = Media(kind=MediaKind.DOCUMENT, file_id="1", size=1)
    with pytest.raises(SourceError) as gone:  # of the file, not of the channel: nobody is asked again
        _ = [piece async for piece in source.download(4, missing)]
    assert gone.value.failure is Failure.GONE
    assert scene.asked("contacts.resolveUsername") == 0


async def test_a_closed_pool_gives_nothing_out(scene: Any) -> None:
    ann = await scene.log_in(ANN)
    pool, channel = await scene.pool(), await scene.watch(100, {ann: 11})
    source = await pool.reader(channel)
    await source.last_id_before(scene.clock())
    await pool.close()
    for ask in (pool.reader(channel), source.last_id_before(scene.clock())):
        with pytest.raises(SourceError) as closed:
            await ask
        assert closed.value.failure is Failure.TRANSIENT
