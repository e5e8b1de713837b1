"""Usernames and access hashes: asked for once, kept, and renewed when Telegram takes them no more."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from telegram_assistant.domain.access import SYSTEM_USER
from telegram_assistant.domain.channel import ChannelRef, parse_ref
from telegram_assistant.domain.retries import Failure
from telegram_assistant.domain.source import SourceError
from telegram_assistant.ingest.accounts import SYSTEM
from telegram_assistant.ingest.requests import MISSING_SECONDS, ChannelRequests
from telegram_assistant.stores.postgres.watched_channels import Requests
from telegram_simulator.faults import Fault
from telegram_simulator.model import Channel

pytestmark = pytest.mark.integration

ANN, BOB = 1001, 1002
HISTORY = "messages.getHistory"
RESOLVE = "contacts.resolveUsername"
START = datetime(2024, 1, 1, tzinfo=UTC)


async def test_a_username_is_resolved_once_and_not_again_after_a_restart(scene: Any) -> None:
    ann = await scene.log_in(ANN)
    pool, channel = await scene.pool(), await scene.watch(100)
    assert await asyncio.gather(*(scene.newest_id(pool, channel) for _ in range(5))) == [3] * 5
    assert await scene.newest_id(pool, channel) == 3
    assert scene.asked(RESOLVE) == 1
    assert (await scene.channel(100)).access_hash == {ann: 11}
    await pool.close()
    assert await scene.newest_id(await scene.pool(), await scene.channel(100)) == 3
    assert scene.asked(RESOLVE) == 1


async def test_whoever_knows_the_channel_is_preferred(scene: Any) -> None:
    _ann, bob = await scene.both()
    pool, channel = await scene.pool(), await scene.watch(100, {bob: 11})
    for _ in range(4):
        assert await scene.newest_id(pool, channel) == 3
    assert (scene.asked(RESOLVE), scene.asked(HISTORY, BOB)) == (0, 4)


async def test_a_stale_hash_is_renewed_once(scene: Any) -> None:
    ann = await scene.log_in(ANN)
    pool, channel = await scene.pool(), await scene.watch(100, {ann: 999})
    assert await scene.newest_id(pool, channel) == 3
    assert scene.asked(RESOLVE) == 1
    assert (await scene.channel(100)).access_hash == {ann: 11}


async def test_a_channel_that_is_gone_is_told_after_one_more_question(scene: Any) -> None:
    ann, bob = await scene.both()
    pool, channel = await scene.pool(), await scene.watch(100, {ann: 11, bob: 11})
    scene.sim.faults.add(Fault("error", HISTORY, code=400, message="CHANNEL_INVALID"))
    with pytest.raises(SourceError, match="CHANNEL_INVALID") as gone:
        await scene.newest_id(pool, channel)
    assert gone.value.failure is Failure.GONE
    assert scene.asked(RESOLVE) == 2  # once by each account
    assert scene.asked(HISTORY) == 4


async def test_a_stale_hash_of_a_private_channel_is_kept_because_nothing_better_can_be_had(scene: Any) -> None:
    ann, bob = await scene.both()
    pool, channel = await scene.pool(), await scene.watch(400, {ann: 999, bob: 14})
    for _ in range(2):
        assert await scene.newest_id(pool, channel) == 3  # Bob's is good
    await scene.store.remove(bob)
    with pytest.raises(SourceError, match="CHANNEL_INVALID"):
        await scene.newest_id(await scene.pool(), await scene.channel(400))
    assert (await scene.channel(400)).access_hash == {ann: 999}


async def test_a_name_that_went_to_another_channel_is_not_read(scene: Any) -> None:
    await scene.log_in(ANN)
    pool, channel = await scene.pool(), await scene.watch(100)
    scene.world.rename(scene.world.channels[100], None)
    scene.world.rename(scene.world.channels[300], "news_daily")
    with pytest.raises(SourceError, match="@news_daily is the name of another channel now: Quiet") as gone:
        await pool.reader(channel)
    assert gone.value.failure is Failure.GONE
    assert scene.asked(HISTORY) == 0


async def test_adding_a_channel_asks_once(scene: Any) -> None:
    ann = await scene.log_in(ANN)
    pool = await scene.pool()
    found = await asyncio.gather(*(pool.resolve(parse_ref("https://t.me/News_Daily/5")) for _ in range(3)))
    assert {(account, info.id, info.title, info.access_hash) for account, info in found} == {(ann, 100, "News", 11)}
    assert scene.asked(RESOLVE) == 1


async def test_channels_are_shared_out_when_they_are_added(scene: Any) -> None:
    ann, bob = await scene.both()
    pool = await scene.pool()
    found = [(await pool.resolve(ChannelRef(username=name)))[0] for name in ("news_daily", "quiet")]
    assert sorted(found) == sorted([ann, bob])


async def test_a_channel_that_we_have_is_not_asked_for_at_all(scene: Any) -> None:
    ann, bob = await scene.both()
    pool = await scene.pool()
    await scene.watch(100, {bob: 11})
    await scene.watch(400, {bob: 14})
    account, info = await pool.resolve(ChannelRef(username="news_daily"))
    assert (account, info.id, info.username, info.is_private) == (bob, 100, "news_daily", False)
    account, info = await pool.resolve(ChannelRef(channel_id=400))
    assert (account, info.id, info.access_hash, info.is_private) == (bob, 400, 14, True)
    assert scene.opened == []
    await scene.store.remove(bob)
    scene.clock.advance(seconds=6)
    assert (await pool.resolve(ChannelRef(username="news_daily")))[0] == ann  # whose hash is not known yet


async def test_a_wrong_username_is_told_and_not_asked_for_again_for_a_while(scene: Any) -> None:
    await scene.both()
    pool = await scene.pool()
    for _ in range(3):
        with pytest.raises(SourceError, match=r"@no_such_name.*no channel has this name") as gone:
            await pool.resolve(ChannelRef(username="no_such_name"))
        assert gone.value.failure is Failure.GONE
    assert scene.asked(RESOLVE) == 1
    scene.world.add_channel(Channel(600, 16, "New", "no_such_name", scene.world.channels[100].created))
    scene.clock.advance(seconds=MISSING_SECONDS)
    assert (await pool.resolve(ChannelRef(username="no_such_name")))[1].id == 600


async def test_an_invite_is_understood_by_the_account_that_joined(scene: Any) -> None:
    _ann, bob = await scene.both()
    pool = await scene.pool()
    account, info = await pool.resolve(parse_ref("https://t.me/+come-in-here"))
    assert (account, info.id, info.is_private) == (bob, 400, True)


async def test_n17_a_private_channel_is_known_to_the_tenant_of_its_account_alone(scene: Any) -> None:
    """Who asks for another's gets the words that it gets for a number which no channel has."""
    other = await scene.tenant("other")
    await scene.log_in(ANN)
    session = scene.sim.session(BOB)
    bob = (await scene.store.add(telegram_user_id=BOB, name="Bob", session=session, tenant_id=other)).id
    await scene.watch(400, {bob: 14}, tenant=other)
    pool = await scene.pool()
    told = []
    for number in (400, 999):
        with pytest.raises(SourceError) as refused:
            await pool.resolve(ChannelRef(channel_id=number), SYSTEM)
        told.append((refused.value.failure, str(refused.value).replace(str(number), "N")))
    assert told[0] == told[1]
    with pytest.raises(SourceError, match="join it in Telegram first"):
        await pool.resolve(parse_ref("https://t.me/+come-in-here"), SYSTEM)
    assert scene.asked(RESOLVE, BOB) == 0
    for ref in (ChannelRef(channel_id=400), parse_ref("https://t.me/+come-in-here")):
        account, info = await pool.resolve(ref, other)
        assert (account, info.id) == (bob, 400)


async def test_an_invite_that_nobody_took_says_what_to_do(scene: Any) -> None:
    await scene.log_in(ANN)
    pool = await scene.pool()
    with pytest.raises(SourceError, match="join it in Telegram first") as private:
        await pool.resolve(parse_ref("https://t.me/+come-in-here"))
    assert private.value.failure is Failure.CHANNEL_PRIVATE


async def test_resolving_moves_on_when_an_account_must_wait_or_fails(scene: Any) -> None:
    ann, bob = await scene.both()
    pool = await scene.pool()
    scene.sim.faults.add(Fault("flood", RESOLVE, user=ANN, seconds=90_000))
    for name in ("news_daily", "quiet"):
        assert (await pool.resolve(ChannelRef(username=name)))[0] == bob
    assert scene.asked(RESOLVE, ANN) == 1
    scene.sim.faults.add(Fault("error", RESOLVE, user=BOB, code=401, message="SESSION_REVOKED"))
    with pytest.raises(SourceError) as wait:
        await pool.resolve(ChannelRef(username="another"))
    assert (wait.value.failure, wait.value.flood_seconds) == (Failure.FLOOD, 90_000.0)
    assert (await scene.account(bob)).status == "revoked"
    assert (await scene.account(ann)).status == "active"
    assert await scene.newest_id(pool, await scene.watch(300, {ann: 13})) == 3  # reading goes on


async def test_without_accounts_adding_says_what_to_do(scene: Any) -> None:
    pool = await scene.pool()
    with pytest.raises(SourceError, match="tga login") as none:
        await pool.resolve(ChannelRef(username="news_daily"))
    assert none.value.failure is Failure.ACCOUNT
    assert (await pool.report())["status"] == "failing"


async def test_300_names_are_found_through_floods_and_none_is_asked_for_twice(scene: Any) -> None:
    """A flood ends the questions of its account at once: the others wait for it without being asked."""
    await scene.both()
    for number in range(300):
        scene.world.add_channel(Channel(1000 + number, number + 1, f"Channel {number}", f"channel{number:03}", START))
    requests = Requests(scene.database)
    for number in range(300):
        await requests.add(SYSTEM, UUID(SYSTEM_USER), f"@channel{number:03}")
    await requests.add(SYSTEM, UUID(SYSTEM_USER), "@not_there")
    job = ChannelRequests(requests, await scene.pool(), clock=scene.clock, due=asyncio.Event())
    floods = 0
    for step in range(200):
        if step % 7 == 3 and floods < 8:
            scene.sim.faults.add(*(Fault("flood", RESOLVE, user=one, seconds=300, times=1) for one in (ANN, BOB)))
            floods += 2
        if not await job.step():
            scene.clock.advance(seconds=60)
        waiting = await requests.open()
        if ["no channel has this name" in (one.last_error or "") for one in waiting] == [True]:
            break
    assert [one.reference for one in waiting] == ["@not_there"]
    assert len(await scene.channels.all()) == 300
    assert floods == 8
    assert scene.asked(RESOLVE) <= 300 + 2 + floods  # each once, the missing one by each account, and those refused
