"""One process at a time works with an account (N11), and one with another key leaves all as it is (N31)."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

import pytest

from telegram_assistant.domain.retries import Failure
from telegram_assistant.domain.source import ReadElsewhere, SourceError
from telegram_assistant.errors import Fatal
from telegram_assistant.ingest.lock import is_gone, new_identity, shown
from telegram_assistant.stores.postgres.accounts import TelegramAccounts, processes
from telegram_assistant.stores.sealed import Sealer
from telegram_simulator.faults import Fault

pytestmark = pytest.mark.integration

ANN, BOB = 1001, 1002


async def shared(*pools: Any) -> list[int]:
    """Let all take turns; how many accounts each has then."""
    for _ in range(3):
        for pool in pools:
            await pool.roster.share()
    return [len(await pool.active()) for pool in pools]


async def test_n11_two_processes_have_one_account_each_and_read_what_it_can_read(scene: Any) -> None:
    ann, bob = await scene.both()
    news, secret = await scene.watch(100, {ann: 11}), await scene.watch(400, {bob: 14})
    one, two = await scene.pool(leases=scene.leases("one")), await scene.pool(leases=scene.leases("two"))
    assert await shared(one, two) == [1, 1]
    (first,) = await one.active()
    mine, other = (news, secret) if first == ann else (secret, news)
    assert await scene.newest_id(one, mine) == 3
    reach = await one.reach()
    assert (reach.knowing, len(reach.elsewhere), len(reach.living)) == ((first,), 1, 2)
    if other.username is None:
        with pytest.raises(ReadElsewhere, match="two"):
            await one.reader(other)
    assert await scene.newest_id(two, other) == 3


async def test_n11_what_is_given_up_is_closed_first(scene: Any) -> None:
    ann, bob = await scene.both()
    news, quiet = await scene.watch(100, {ann: 11}), await scene.watch(300, {bob: 13})
    one = await scene.pool(leases=scene.leases("one"))
    assert await shared(one) == [2]
    for channel in (news, quiet):
        assert await scene.newest_id(one, channel) == 3
    two = await scene.pool(leases=scene.leases("two"))
    assert await shared(one, two) == [1, 1]
    opened = [account["opened"] for account in (await one.report())["accounts"]]
    assert opened == [True, False]
    await one.close()
    assert await shared(two) == [2], "who stops leaves nothing to wait for"


async def test_n11_who_cannot_renew_stops_by_itself_before_another_begins(scene: Any) -> None:
    ann = await scene.log_in(ANN)
    channel = await scene.watch(100, {ann: 11})
    one, two = await scene.pool(leases=scene.leases("one", ttl=2.0)), await scene.pool(leases=scene.leases("two"))
    assert await shared(one, two) == [1, 0]
    source = await one.reader(channel)
    scene.clock.advance(seconds=1.9)  # the pool's own clock: nothing renewed it
    with pytest.raises(ReadElsewhere):
        await source.last_id_before(scene.clock())
    assert await one.active() == []
    async with asyncio.timeout(300):
        while not await two.active():
            await two.roster.share()
            await asyncio.sleep(0.1)
    assert await scene.newest_id(two, channel) == 3


async def test_n11_the_leases_of_a_dead_process_of_this_machine_are_not_waited_for(scene: Any) -> None:
    ended = await asyncio.create_subprocess_exec(sys.executable, "-c", "")
    await ended.wait()
    here = new_identity("here")
    dead = here.replace(f"/{os.getpid()}/", f"/{ended.pid}/")
    assert (is_gone(dead), is_gone(here), shown(dead)) == (True, False, "here")
    assert is_gone(f"{here}0"), "a process of an earlier day that had our number"
    assert not is_gone("elsewhere/another-boot:1/1/abcd")
    assert not is_gone("of a former version")
    await scene.log_in(ANN)
    leases = scene.leases(dead)
    assert len((await leases.beat()).mine) == 1
    heir = await scene.pool(leases=type(leases)(scene.database, "heir", ttl=30.0, is_gone=is_gone))
    assert await shared(heir) == [1]
    assert await processes(scene.database) == ["heir"]


async def test_n11_the_session_of_the_settings_is_asked_for_by_one_process(scene: Any) -> None:
    session = scene.sim.session(ANN)
    one, two = await asyncio.gather(
        *(scene.pool(session=session, leases=scene.leases(owner)) for owner in ("one", "two"))
    )
    scene.clock.advance(seconds=6)
    assert sorted(await shared(one, two)) == [0, 1]
    assert [name for name, _ in scene.opened].count("TELEGRAM_SESSION") == 1


async def test_n11_a_duplicated_key_ends_the_account_in_plain_words(scene: Any) -> None:
    ann = await scene.log_in(ANN)
    channel = await scene.watch(100, {ann: 11})
    pool = await scene.pool(leases=scene.leases("one"))
    await shared(pool)
    scene.sim.faults.add(Fault("error", "*", user=ANN, code=406, message="AUTH_KEY_DUPLICATED"))
    with pytest.raises(SourceError, match="used from two places at once") as lost:
        await scene.newest_id(pool, channel)
    assert lost.value.failure is Failure.ACCOUNT
    assert (await scene.account(ann)).status == "revoked"
    assert "tga login" in ((await scene.account(ann)).last_error or "")


async def test_n31_a_second_process_with_another_key_refuses_and_changes_nothing(scene: Any) -> None:
    session = scene.sim.session(ANN)
    first = await scene.pool(session=session, leases=scene.leases("one"))
    await shared(first)
    ((account, *_),) = (await scene.store.all(),)
    opened = len(scene.opened)
    other = TelegramAccounts(scene.database, Sealer("another key"))
    with pytest.raises(Fatal, match="encrypted with another key: set TGA_SECRET_KEY"):
        await scene.pool(store=other, session=session, leases=scene.leases("two"))
    assert await scene.account(account.id) == account, "neither sealed anew nor ended"
    assert len(scene.opened) == opened, "nor was the session opened"
    assert scene.store.session(account) == session


async def test_n31_nor_where_another_account_can_be_opened(scene: Any) -> None:
    """A key of its own, an account of its own, and the session of a third party's account in its settings."""
    session = scene.sim.session(ANN)
    account = await scene.store.add(telegram_user_id=ANN, name="Ann", session=session)
    other = TelegramAccounts(scene.database, Sealer("another key"))
    await other.add(telegram_user_id=BOB, name="Bob", session=scene.sim.session(BOB))
    with pytest.raises(Fatal, match="stored already"):
        await scene.pool(store=other, session=session, leases=scene.leases("two"))
    assert await scene.account(account.id) == account
    assert scene.opened == []
