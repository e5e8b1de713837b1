"""Dead is never green (G9): what stops answering is told, whatever the number of channels."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from telegram_assistant.ingest import heartbeat
from telegram_assistant.source import telegram_account
from telegram_simulator.faults import Fault
from tests.metrics import sample

pytestmark = pytest.mark.e2e

# Classes of conftest.py, which cannot be imported.
Town = Any
Store = Any
Capture = Any

READER = 1001


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Minutes as seconds."""
    monkeypatch.setattr(heartbeat, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(heartbeat, "QUIET_SECONDS", 1.0)
    for name, within in (("ACCOUNT", 2.0), ("LISTENER", 4.0), ("UPDATES", 2.0)):
        rule = getattr(heartbeat, name)
        monkeypatch.setattr(heartbeat, name, replace(rule, within=within))


async def troubles(runtime: Any, kind: str) -> list[str]:
    details = await runtime.health.details()
    return [said for said in details["troubles"] if said.startswith(f"{kind} ")]


@pytest.mark.parametrize("channels", [1, 40])
async def test_n1_telegram_that_hangs_is_told_whatever_the_number_of_channels(
    town: Town, store: Store, capture: Capture, channels: int
) -> None:
    watched = [town.open(f"channel_{number}", 3) for number in range(channels)]
    await store.watch(*watched)
    runtime = await capture.start(parser_scheduler_interval_sec=3600)  # no visit is due: silence must show by itself
    await store.captured(*watched)
    assert await troubles(runtime, "account") == []
    hang = Fault("slow", "*", seconds=3600)
    town.sim.faults.add(hang)

    async def told() -> list[str]:
        return await troubles(runtime, "account")

    (said,) = await store.until(told, "the account is told of")
    assert "Ann" in said
    assert "since" in said
    assert (await runtime.health.details())["status"] == "failing"
    town.sim.faults.clear()

    async def over() -> bool:
        return not await told()

    await store.until(over, "it answers again")


async def test_n1_a_method_that_hangs_is_told_while_the_account_answers(
    town: Town, store: Store, capture: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telegram_account, "METHOD", replace(telegram_account.METHOD, within=2.0))
    news = town.open("daily_news", 3)
    await store.watch(news)
    runtime = await capture.start()
    await store.captured(news)
    town.sim.faults.add(Fault("slow", "messages.getHistory", seconds=3600))

    async def told() -> list[str]:
        return await troubles(runtime, "method")

    (said,) = await store.until(told, "the method is told of")
    assert "messages.getHistory" in said
    assert await troubles(runtime, "account") == []


async def test_n23_a_listener_without_a_server_is_not_ok(town: Town, store: Store, capture: Capture) -> None:
    news = town.open("daily_news", 3)
    await store.watch(news)
    runtime = await capture.start(parser_scheduler_interval_sec=3600)
    await store.captured(news)
    before = await runtime.health.details()
    assert before["live"]["status"] == "ok"
    assert before["engines"]["media"]["status"] == "ok"
    town.sim.faults.add(Fault("drop", "*"))
    town.sim.disconnect()

    async def told() -> list[str]:
        return await troubles(runtime, "listener")

    (said,) = await store.until(told, "the listener is told of")
    assert "polling" in said
    live = await store.until(partial(live_failing, runtime), "live updates are failing as a whole")
    assert live["accounts"]["Ann"]["listening"]["status"] == "stale"


async def test_n5_a_listener_that_saves_nothing_is_told_and_goes_on(
    town: Town, store: Store, capture: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("telegram_assistant.ingest.live.AGAIN_SECONDS", 0.2)
    news = town.open("daily_news", 3, members={READER})
    await store.watch(news)
    runtime = await capture.start(parser_scheduler_interval_sec=3600)
    await store.captured(news)
    await store.change(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'no post is saved'; END $$"
    )
    await store.change("CREATE TRIGGER refuse BEFORE INSERT ON posts EXECUTE FUNCTION refuse()")
    failures = sample("live_update_failures_total", account=await account_of(store))

    async def told() -> list[str]:
        town.say(news, "Nobody can save this")
        return await troubles(runtime, "live updates")

    (said,) = await store.until(told, "what is not saved is told of")
    assert "no post is saved" in said

    live = await store.until(partial(live_failing, runtime), "live updates are failing as a whole")
    failed = sample("live_update_failures_total", account=await account_of(store)) - failures
    assert failed >= 2
    assert live["accounts"]["Ann"]["restarts"] == 0, "the others' updates are still heard"
    await store.change("DROP TRIGGER refuse ON posts")
    await store.change("DROP FUNCTION refuse")

    async def over() -> bool:
        town.say(news, "This one can be saved")
        return not await troubles(runtime, "live updates")

    await store.until(over, "it saves again")


async def live_failing(runtime: Any) -> Any:
    live = (await runtime.health.details())["live"]  # on a busy machine the report before may be shown
    return live if live["status"] == "failing" else None


async def account_of(store: Store) -> str:
    ((account_id,),) = await store.rows("SELECT CAST(id AS text) FROM telegram_accounts")
    return str(account_id)
