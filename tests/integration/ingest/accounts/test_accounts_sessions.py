"""Sessions: from TELEGRAM_SESSION or the database, sealed, never in a log; and the connection for live updates."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from sqlalchemy import text

from telegram_assistant.domain.retries import Failure
from telegram_assistant.domain.source import Interrupted, NewPost, SourceError
from telegram_assistant.errors import Fatal
from telegram_assistant.ingest.roster import GIVEN_AGAIN_SECONDS
from telegram_assistant.log import configure_logging
from telegram_assistant.stores.postgres.accounts import TelegramAccounts
from telegram_assistant.stores.sealed import Sealer
from telegram_simulator.faults import Fault
from telegram_simulator.model import Message

pytestmark = pytest.mark.integration

ANN, BOB = 1001, 1002
HISTORY = "messages.getHistory"


@pytest.fixture
def logs() -> Iterator[io.StringIO]:
    """Everything that is logged, at the finest level."""
    root = logging.getLogger()
    handlers, level, before = root.handlers[:], root.level, structlog.get_config()
    stream = io.StringIO()
    configure_logging(json=True, level="DEBUG", stream=stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.configure(**before)


async def test_the_session_of_the_settings_becomes_an_account_like_any_other(scene: Any) -> None:
    session = scene.sim.session(ANN)
    pool = await scene.pool(session=session)
    (account,) = await scene.store.all()
    assert (account.telegram_user_id, account.name, account.status) == (ANN, "Ann", "active")
    assert scene.store.session(account) == session
    assert await scene.newest_id(pool, await scene.watch(100)) == 3
    assert (await scene.channel(100)).access_hash == {account.id: 11}
    scene.sim.rpc_log.clear()
    scene.opened.clear()
    again = await scene.pool(session=session)
    assert await again.active() == [account.id]
    assert scene.opened == []  # whose it is stands in the row


async def test_a_new_session_in_the_settings_replaces_the_old_one(scene: Any) -> None:
    ann = await scene.log_in(ANN)
    old = await scene.account(ann)
    scene.sim.log_out(ANN)
    new = scene.sim.session(ANN)
    assert new != scene.store.session(old)
    pool = await scene.pool(session=new)
    assert await pool.active() == [ann]
    assert scene.store.session(await scene.account(ann)) == new
    assert await scene.newest_id(pool, await scene.watch(100, {ann: 11})) == 3


async def test_a_late_error_of_an_old_session_says_nothing_about_the_new_one(scene: Any) -> None:
    ann = await scene.log_in(ANN)
    pool, channel = await scene.pool(), await scene.watch(100, {ann: 11})
    reader = await pool.reader(channel)
    await reader.last_id_before(scene.clock())
    old = pool.roster.seats[ann].reading
    await scene.log_in(ANN)  # sealed anew, so it counts as another session
    scene.clock.advance(seconds=6)
    assert await scene.newest_id(pool, channel) == 3
    await pool.failed(old, SourceError(Failure.ACCOUNT, "logged out"))
    assert (await scene.account(ann)).status == "active"
    assert await pool.active() == [ann]


async def test_a_session_of_the_settings_that_is_revoked_is_told(scene: Any) -> None:
    scene.world.users[ANN].banned = True
    pool = await scene.pool(session=scene.sim.session(ANN))
    with pytest.raises(SourceError, match="USER_DEACTIVATED_BAN") as lost:
        await pool.reader(await scene.watch(100))
    assert lost.value.failure is Failure.ACCOUNT
    report = await pool.report()
    assert report["status"] == "failing"
    (shown,) = report["accounts"]
    assert (shown["name"], shown["status"]) == ("TELEGRAM_SESSION", "banned")
    asked = scene.asked("users.getUsers")
    scene.clock.advance(seconds=GIVEN_AGAIN_SECONDS)
    assert await pool.active() == []
    assert scene.asked("users.getUsers") == asked  # a verdict stands


async def test_a_session_of_the_settings_is_tried_again_when_telegram_could_not_be_reached(scene: Any) -> None:
    session = scene.sim.session(ANN)
    fault = Fault("error", "users.getUsers", code=500, message="INTERNAL")
    scene.sim.faults.add(fault)
    pool = await scene.pool(session=session)
    channel = await scene.watch(100)
    with pytest.raises(SourceError) as away:
        await pool.reader(channel)
    assert away.value.failure is Failure.TRANSIENT
    assert [one["status"] for one in (await pool.report())["accounts"]] == ["unreachable"]
    scene.sim.faults.remove(fault)
    scene.clock.advance(seconds=GIVEN_AGAIN_SECONDS)
    assert await scene.newest_id(pool, channel) == 3


async def test_what_is_no_session_stops_the_start(scene: Any) -> None:
    with pytest.raises(Fatal, match=r"TELEGRAM_SESSION: .*not a Telethon string session") as fatal:
        await scene.pool(session="1not-a-session")
    assert "1not-a-session" not in str(fatal.value)


async def test_another_key_stops_the_start_and_says_what_to_do(scene: Any) -> None:
    await scene.both()
    with pytest.raises(Fatal, match="another key: set TGA_SECRET_KEY"):
        await scene.pool(store=TelegramAccounts(scene.database, Sealer("another")))


async def test_one_session_that_opens_is_enough(scene: Any) -> None:
    ann, bob = await scene.both()
    other = TelegramAccounts(scene.database, Sealer("another"))
    await other.add(telegram_user_id=ANN, name="Ann", session=scene.sim.session(ANN))
    pool = await scene.pool()
    assert await scene.newest_id(pool, await scene.watch(100, {ann: 11})) == 3
    assert await pool.active() == [bob]
    shown = {one["id"]: (one["status"], one["last_error"]) for one in (await pool.report())["accounts"]}
    assert shown[ann][0] == "unusable"
    assert "TGA_SECRET_KEY" in shown[ann][1]
    assert (await scene.account(ann)).status == "active"  # nothing is wrong with the account


async def test_no_session_shows_in_the_database_in_the_logs_or_in_health(scene: Any, logs: io.StringIO) -> None:
    sessions = [scene.sim.session(ANN), scene.sim.session(BOB)]
    await scene.log_in(BOB)
    pool = await scene.pool(session=sessions[0])
    channel = await scene.watch(100)
    for fault in (
        Fault("flood", HISTORY, user=ANN, seconds=600, times=1),
        Fault("drop", HISTORY, user=BOB, times=1),
        Fault("error", HISTORY, user=BOB, code=401, message="AUTH_KEY_UNREGISTERED", skip=1, times=1),
    ):
        scene.sim.faults.add(fault)
    assert await scene.newest_id(pool, channel) == 3
    with pytest.raises(SourceError):
        await scene.newest_id(pool, channel)
    with pytest.raises(Fatal):
        await scene.pool(store=TelegramAccounts(scene.database, Sealer("another")))
    async with scene.database.connect() as connection:
        rows = await connection.execute(text("SELECT telegram_accounts::text, session FROM telegram_accounts"))
        stored = b"".join(row[0].encode() + row.session for row in rows)
    said = logs.getvalue() + str(await pool.report())
    assert "account_lost" in said
    assert "flood" in said
    for session in sessions:
        for part in (session, session[20:60]):
            assert part not in said
            assert part.encode() not in stored
            assert part.encode().hex().encode() not in stored


async def test_live_updates_have_a_connection_of_their_own(scene: Any) -> None:
    ann = await scene.log_in(ANN)
    pool = await scene.pool()
    updates = pool.updates(ann)
    assert await anext(updates) == Interrupted(None)
    news = scene.world.channels[100]
    scene.world.post(news, Message(4, news.created, "Fresh"))
    update = await anext(updates)
    assert isinstance(update, NewPost)
    assert (update.post.channel_id, update.post.text) == (100, "Fresh")
    assert await scene.newest_id(pool, await scene.watch(100, {ann: 11})) == 4
    assert scene.opened == [(ann, True), (ann, False)]

    second = pool.updates(ann)  # a job that starts again
    assert await anext(second) == Interrupted(None)
    with pytest.raises(SourceError) as closed:
        await anext(updates)
    assert closed.value.failure is Failure.TRANSIENT
    await second.aclose()


async def test_an_account_that_is_lost_while_listening_is_marked(scene: Any) -> None:
    ann = await scene.log_in(ANN)
    pool = await scene.pool()
    scene.sim.faults.add(Fault("error", "users.getUsers", code=401, message="SESSION_REVOKED"))
    with pytest.raises(SourceError) as lost:
        await anext(pool.updates(ann))
    assert lost.value.failure is Failure.ACCOUNT
    assert (await scene.account(ann)).status == "revoked"
    with pytest.raises(SourceError, match="tga login"):
        await anext(pool.updates(ann))
