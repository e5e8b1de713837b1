"""What a save costs depends on the ids that it speaks of, not on how much lies between them (N6)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.ledger import Coverage
from telegram_assistant.domain.media_rules import MediaDecision
from telegram_assistant.domain.post import Post
from telegram_assistant.ingest.saver import Reading, Saver
from telegram_assistant.stores.postgres.database import open_database

pytestmark = pytest.mark.integration

CHANNEL, POSTS = 7, 20_000
START = datetime(2026, 1, 5, 12, tzinfo=UTC)
FILL = """
INSERT INTO posts (id, channel_id, message_id, posted_at, text, content_hash, captured_at, counters_at)
SELECT gen_random_uuid(), 7, n, :at, 'filler', 'x', :at, :at FROM generate_series(2, :last - 1) AS n
"""
READ = "SELECT coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) FROM pg_stat_user_tables WHERE relname = 'posts'"


def post(number: int) -> Post:
    return Post(channel_id=CHANNEL, message_id=number, posted_at=START, text=f"post {number}")


@pytest.fixture
async def large(database: AsyncEngine) -> AsyncEngine:
    """A channel with many posts; its first and last are whole ones."""
    async with database.begin() as connection:
        await connection.execute(text("INSERT INTO channels (id, title, requested_from) VALUES (7, 'Seven', 1)"))
        await connection.execute(text(FILL), {"at": START, "last": POSTS})
    everything = Coverage.of_spans((1, POSTS + 1))
    first = Reading(channel_id=CHANNEL, posts=[post(1), post(POSTS)], proven=everything, newest_id=POSTS)
    await _saver(database).save(first)
    async with database.begin() as connection:
        await connection.execute(text("UPDATE channels SET captured = :all"), {"all": POSTS})
        await connection.execute(text("ANALYZE posts"))
    return database


def _saver(database: AsyncEngine) -> Saver:
    return Saver(database, clock=lambda: START, decide_media=lambda _: MediaDecision("pending"))


async def read_by(database: AsyncEngine, url: str, work: Callable[[Saver], Awaitable[Any]]) -> int:
    """How many rows of `posts` this work read: PostgreSQL counts them, and tells when the connection has ended."""

    async def so_far() -> int:
        async with database.connect() as connection:
            await connection.execute(text("SELECT pg_stat_clear_snapshot()"))
            return int((await connection.execute(text(READ))).scalar_one())

    await database.dispose()
    before, own = await so_far(), open_database(url)
    try:
        await work(_saver(own))
    finally:
        await own.dispose()
    return await so_far() - before


async def test_n6_a_deletion_of_two_posts_far_apart_reads_these_two(large: AsyncEngine, database_url: str) -> None:
    async def delete(saver: Saver) -> None:
        assert (await saver.delete(CHANNEL, [1, POSTS])).deleted == [1, POSTS]

    assert await read_by(large, database_url, delete) < 100


async def test_n6_an_audit_of_a_hundred_ids_reads_a_hundred_posts(large: AsyncEngine, database_url: str) -> None:
    """All of them are said to be gone: what is stored is found, and nothing else is looked at."""
    ids = list(range(1, POSTS, POSTS // 100))

    async def audit(saver: Saver) -> None:
        asked = Coverage.of_ids(ids)
        saved = await saver.save(Reading(channel_id=CHANNEL, posts=(), proven=asked, looked_at=asked))
        assert sorted(saved.absent) == ids

    assert len(ids) <= await read_by(large, database_url, audit) < 3 * len(ids)
