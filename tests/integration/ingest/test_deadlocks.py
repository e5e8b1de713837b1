"""Transactions that meet: rows are taken in one order, and a deadlock with somebody else's is no failure (N33)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.ledger import Coverage
from telegram_assistant.domain.media_rules import MediaDecision
from telegram_assistant.domain.post import Post
from telegram_assistant.ingest.saver import Reading, Saver
from telegram_assistant.stores.postgres.channels import Channels

pytestmark = pytest.mark.integration

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
WAITING = text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()")

Change = Callable[[Channels], Awaitable[object]]


async def watch(database: AsyncEngine, *ids: int) -> None:
    async with database.begin() as connection:
        for channel_id in ids:
            await connection.execute(
                text("INSERT INTO channels (id, title, requested_from) VALUES (:id, 'Some', 1)"), {"id": channel_id}
            )


async def until_somebody_waits(database: AsyncEngine) -> None:
    async with asyncio.timeout(300):
        while True:
            async with database.connect() as connection:
                if (await connection.execute(WAITING)).scalar_one():
                    return
            await asyncio.sleep(0.01)


async def is_free(database: AsyncEngine, channel_id: int) -> bool:
    try:
        async with database.begin() as connection:
            await connection.execute(
                text("SELECT 1 FROM channels WHERE id = :id FOR UPDATE NOWAIT"), {"id": channel_id}
            )
    except DBAPIError:
        return False
    return True


async def test_n33_a_save_that_a_deadlock_ended_is_made_again(database: AsyncEngine) -> None:
    """As in an upgrade: another transaction has the post, and wants the channel that the saver has."""
    await watch(database, 7)
    saver = Saver(database, clock=lambda: NOW, decide_media=lambda _: MediaDecision("pending"))

    def reading(words: str) -> Reading:
        post = Post(channel_id=7, message_id=1, posted_at=NOW, text=words)
        return Reading(channel_id=7, posts=(post,), proven=Coverage.of_spans((1, 2)), newest_id=1)

    await saver.save(reading("first"))
    async with database.connect() as other:
        await other.execute(text("UPDATE posts SET pinned = pinned"))
        saving = asyncio.ensure_future(saver.save(reading("second")))
        await until_somebody_waits(database)
        await other.execute(text("SELECT 1 FROM channels FOR UPDATE"))  # whose transaction ends is PostgreSQL's choice
        await other.commit()
    async with asyncio.timeout(300):
        assert len((await saving).edited) == 1
    async with database.connect() as connection:
        assert (await connection.execute(text("SELECT text, version FROM posts"))).one() == ("second", 2)


@pytest.mark.parametrize(
    "change",
    [
        lambda channels: channels.plan(NOW),
        lambda channels: channels.make_due(NOW),
        lambda channels: channels.look_again(NOW),
    ],
)
async def test_n33_who_changes_many_channels_takes_them_by_their_ids(database: AsyncEngine, change: Change) -> None:
    await watch(database, 3, 2, 1)
    async with database.connect() as other:
        await other.execute(text("SELECT 1 FROM channels WHERE id = 2 FOR UPDATE"))
        changing = asyncio.ensure_future(change(Channels(database)))
        await until_somebody_waits(database)
        assert [await is_free(database, channel_id) for channel_id in (1, 3)] == [False, True]
        await other.rollback()
    async with asyncio.timeout(300):
        await changing
