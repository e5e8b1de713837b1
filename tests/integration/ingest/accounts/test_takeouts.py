"""Large histories in a takeout session: waited for, used, ended by others, and finished."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import text

from telegram_assistant.domain.accounts import Priority
from telegram_assistant.ingest.accounts import AccountPool
from telegram_assistant.ingest.takeouts import GIVEN_UP, GRACE, Takeouts
from telegram_assistant.stores.postgres.takeouts import AccountTakeouts
from telegram_simulator.faults import Fault

pytestmark = pytest.mark.integration

Scene = Any  # a class of conftest.py, which cannot be imported
ANN, NEWS = 1001, 100
INIT, IN_TAKEOUT, HISTORY = (
    "account.initTakeoutSession",
    "invokeWithTakeout(messages.getHistory)",
    "messages.getHistory",
)
FINISH = "invokeWithTakeout(account.finishTakeoutSession)"


async def started(scene: Scene, *, at_least: int = 3) -> tuple[AccountPool, Takeouts]:
    pool = await scene.pool()
    pool.takeouts = Takeouts(
        AccountTakeouts(scene.database),
        scene.channels,
        pool.roster,
        at_least=at_least,
        clock=scene.clock,
        ticks=scene.clock.ticks,
    )
    return pool, pool.takeouts


@pytest.fixture
async def ann(scene: Scene) -> str:
    """An account, and a channel with three messages of which none is known."""
    account_id: str = await scene.log_in(ANN)
    await scene.watch(NEWS, {account_id: 11})
    async with scene.database.begin() as connection:
        await connection.execute(text("UPDATE channels SET requested_from = 1, newest_id = 3, cursor_id = 3"))
    return account_id


async def read(scene: Scene, pool: AccountPool) -> list[int]:
    """A page of history, as a backfill asks for it."""
    source = await pool.reader(await scene.channel(NEWS), priority=Priority.BACKFILL)
    return (await source.page_after(0)).ids


async def all_is_known(scene: Scene) -> None:
    async with scene.database.begin() as connection:
        await connection.execute(text("UPDATE channels SET coverage = '{[1,4)}'"))


async def test_the_wait_is_kept_over_a_restart_and_then_the_takeout_is_used(scene: Scene, ann: str) -> None:
    scene.sim.takeouts.delay = 86_400
    pool, takeouts = await started(scene)
    for _ in range(3):
        assert await read(scene, pool) == [1, 2, 3], "the usual way meanwhile"
    assert (scene.asked(INIT), scene.asked(HISTORY), scene.asked(IN_TAKEOUT)) == (1, 3, 0)
    report = await takeouts.report()
    assert (report["status"], report["error"]) == ("ok", None)
    assert "from 2026-01-06 12:00:00 UTC on; until then they are read the usual way" in report["note"]
    assert f"tga accounts takeout {ann}" in report["note"]
    assert (await scene.account(ann)).floods == {}, "reading is not held up"
    await pool.close()

    scene.clock.advance(hours=23)
    pool, takeouts = await started(scene)
    assert await read(scene, pool) == [1, 2, 3]
    assert scene.asked(INIT) == 1, "Telegram is not asked before the time"
    scene.clock.advance(hours=1, seconds=1)
    scene.sim.allow_takeout(ANN)  # its own clock did not move
    assert await read(scene, pool) == [1, 2, 3]
    assert (scene.asked(INIT), scene.asked(IN_TAKEOUT)) == (2, 1)
    assert "reads large histories in a takeout session" in (await takeouts.report())["note"]

    pool, takeouts = await started(scene)
    assert await read(scene, pool) == [1, 2, 3]
    assert (scene.asked(INIT), scene.asked(IN_TAKEOUT)) == (2, 2), "the same one after another restart"
    await takeouts.step()
    assert scene.sim.takeouts.open, "it is still needed"
    await all_is_known(scene)
    await takeouts.step()
    assert scene.sim.takeouts.open == {}
    assert (await takeouts.report())["note"] is None
    assert [call.args for call in scene.sim.rpc_log if call.method == FINISH] == ["success=True"]


async def test_only_the_histories_of_channels_are_asked_for(scene: Scene, ann: str) -> None:
    pool, _ = await started(scene)
    await read(scene, pool)
    (asked,) = [call.args for call in scene.sim.rpc_log if call.method == INIT]
    assert {part.partition("=")[0] for part in asked.split() if part.endswith("=True")} == {
        "message_channels",
        "message_megagroups",
    }
    written = {call.method for call in scene.sim.rpc_log if ".get" not in call.method} - {INIT}
    assert written == set(), ann


async def test_small_histories_and_visits_need_none(scene: Scene, ann: str) -> None:
    pool, takeouts = await started(scene, at_least=4)
    assert await read(scene, pool) == [1, 2, 3]
    pool, takeouts = await started(scene)
    await (await pool.reader(await scene.channel(NEWS))).page_after(0)
    off, _ = await started(scene, at_least=0)
    assert await read(scene, off) == [1, 2, 3]
    assert scene.asked(INIT) == 0, ann
    assert (await takeouts.report())["note"] is None


@pytest.mark.parametrize("code", ["TAKEOUT_INVALID", "TAKEOUT_REQUIRED"])
async def test_a_takeout_that_was_ended_is_forgotten_and_the_page_is_read(scene: Scene, ann: str, code: str) -> None:
    pool, _ = await started(scene)
    scene.sim.faults.add(Fault("error", IN_TAKEOUT, code=400, message=code, times=1))
    assert await read(scene, pool) == [1, 2, 3]
    assert (scene.asked(INIT), scene.asked(IN_TAKEOUT), scene.asked(HISTORY)) == (1, 1, 1)
    known = await AccountTakeouts(scene.database).of(ann)
    assert known is not None
    assert (known.id, known.until) == (None, None)
    assert await read(scene, pool) == [1, 2, 3]
    assert (scene.asked(INIT), scene.asked(IN_TAKEOUT)) == (2, 2), "the next slice begins another"


async def test_a_flood_in_a_takeout_leaves_the_usual_way(scene: Scene, ann: str) -> None:
    pool, _ = await started(scene)
    scene.sim.faults.add(Fault("flood", IN_TAKEOUT, seconds=600, times=1))
    for _ in range(2):
        assert await read(scene, pool) == [1, 2, 3]
    assert (scene.asked(IN_TAKEOUT), scene.asked(HISTORY)) == (1, 2)
    assert list((await scene.account(ann)).floods) == [IN_TAKEOUT]
    scene.clock.advance(seconds=601)
    assert await read(scene, pool) == [1, 2, 3]
    assert scene.asked(IN_TAKEOUT) == 2


async def test_what_telegram_refuses_is_asked_for_again_the_next_day(scene: Scene, ann: str) -> None:
    pool, _ = await started(scene)
    scene.sim.faults.add(Fault("error", INIT, code=403, message="NOT_FOR_YOU", times=1))
    for _ in range(2):
        assert await read(scene, pool) == [1, 2, 3]
    assert scene.asked(INIT) == 1
    assert await AccountTakeouts(scene.database).write(ann), "as `tga accounts takeout` does"
    await read(scene, pool)
    assert (scene.asked(INIT), scene.asked(IN_TAKEOUT)) == (2, 1)


async def test_a_history_that_is_not_read_on_keeps_no_takeout_open(scene: Scene, ann: str) -> None:
    pool, takeouts = await started(scene)
    await read(scene, pool)
    scene.clock.advance(seconds=GIVEN_UP + 1)
    await takeouts.step()
    assert scene.sim.takeouts.open == {}, ann
    assert [call.args for call in scene.sim.rpc_log if call.method == FINISH] == [""], "without success"


async def test_the_takeout_of_an_earlier_run_is_finished_when_it_is_not_needed(scene: Scene, ann: str) -> None:
    pool, _ = await started(scene)
    await read(scene, pool)
    await pool.close()
    await all_is_known(scene)
    _, takeouts = await started(scene, at_least=0)
    await takeouts.step()
    assert scene.sim.takeouts.open, "its history may be read on in a moment"
    scene.clock.advance(seconds=GRACE)
    scene.sim.faults.add(Fault("error", FINISH, code=500, message="INTERNAL", times=1))
    await takeouts.step()
    assert scene.sim.takeouts.open, "the next look tries again"
    await takeouts.step()
    assert scene.sim.takeouts.open == {}, ann
