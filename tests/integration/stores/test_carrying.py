"""The first start with an account takes real channels over from the demo, and leaves what was made up behind."""

from __future__ import annotations

from uuid import uuid4

import asyncpg
import pytest

from telegram_assistant.stores.postgres.carrying import carry_over

pytestmark = pytest.mark.integration

CHANNELS = (
    "INSERT INTO channels (id, title, username, access_hash, coverage, newest_id) VALUES"
    " (1, 'Real', 'real', '{\"preview\": 0}', '{[1,3)}', 2), (2, 'Made up', 'made_up', '{\"a\": 5}', '{[1,3)}', 2)"
)
POSTS = (
    "INSERT INTO posts (id, channel_id, message_id, posted_at, text, content_hash)"
    " SELECT gen_random_uuid(), c, m, now(), 'text', 'x' FROM unnest(ARRAY[1, 2]) AS c, unnest(ARRAY[1, 2]) AS m"
)


def at(url: str, name: str) -> str:
    """The same server, another database."""
    address, _, options = url.partition("?")
    return f"{address.rpartition('/')[0]}/{name}" + (f"?{options}" if options else "")


async def run(url: str, *statements: str) -> list[asyncpg.Record]:
    connection = await asyncpg.connect(url)
    try:
        found: list[asyncpg.Record] = []
        for statement in statements:
            found = await connection.fetch(statement)
        return found
    finally:
        await connection.close()


async def test_real_channels_come_along_once(database_url: str) -> None:
    demo = database_url.partition("?")[0].rpartition("/")[2]
    real = f"t_{uuid4().hex}"
    url = at(database_url, real)
    await run(at(database_url, "postgres"), f"CREATE DATABASE {real}")
    try:
        assert not await carry_over(url, "t_no_such_demo")
        assert not await carry_over(url, demo), "a demo without a real channel is left alone"
        await run(database_url, "UPDATE users SET password_hash = 'x'")
        assert await carry_over(url, demo), "people who chose a password need no new link"
        await run(at(database_url, "postgres"), f"DROP DATABASE {real}", f"CREATE DATABASE {real}")
        await run(database_url, "UPDATE users SET password_hash = NULL", CHANNELS, POSTS)
        assert await carry_over(url, demo)
        [channel] = await run(url, "SELECT id, coverage::text FROM channels")
        assert tuple(channel) == (1, "{[1,3)}")
        assert [row["channel_id"] for row in await run(url, "SELECT DISTINCT channel_id FROM posts")] == [1]
        assert len(await run(database_url, "SELECT 1 FROM posts")) == 4, "the demo keeps its own"
        await run(url, "DELETE FROM posts")
        assert not await carry_over(url, demo), "what is in use is never replaced"
    finally:
        await run(at(database_url, "postgres"), f"DROP DATABASE {real}")
