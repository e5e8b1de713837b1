"""PostgreSQL is the truth: what else was lost under a running or stopped `tga up` comes back by itself, and is told."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from telegram_assistant.stores.redis import open_redis
from tests.chaos.provider import Provider
from tests.e2e.conftest import Starter, Tga
from tests.pipeline_state import held

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1500)]

WAITING = "SELECT count(*) FROM post_steps WHERE stage = 'tagging' AND outcome = 'waiting'"
UNINDEXED = """
SELECT count(*) FROM posts p WHERE p.deleted_at IS NULL AND p.captured_at < $1 AND NOT EXISTS (
  SELECT FROM post_steps s WHERE s.post_id = p.id AND s.stage = 'indexing' AND s.outcome = 'done'
  AND s.content_hash = p.content_hash)
"""


async def until(what: str, true: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(1200):
        if await true():
            return
        await asyncio.sleep(0.5)
    pytest.fail(f"never: {what}")


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    """A model server that is away at first."""
    made = Provider(1)
    await made.rise()
    await made.fall()
    yield made
    await made.close()


async def empty_redis(tga: Tga) -> None:
    where = json.loads((tga.data / "keys" / "running.json").read_text(encoding="utf-8"))
    redis = open_redis(where["redis_url"])
    await redis.flushall()
    await redis.aclose()


async def test_n12_posts_that_wait_for_a_model_survive_flushall(start: Starter, provider: Provider) -> None:
    tga = await start(OPENAI_BASE_URL=provider.url, AI_TAG_PROVIDER="openai")
    await tga.ready()

    async def many_wait() -> bool:
        return int(await tga.query(WAITING)) > 20

    await until("posts wait for their tags", many_wait)
    await asyncio.sleep(12)  # the mark is there, and Redis was seen with it
    moment = await tga.query("SELECT now()")
    await empty_redis(tga)
    await provider.recover()

    async def all_indexed() -> bool:
        return int(await tga.query(UNINDEXED, moment)) == 0

    await until("every post that waited is indexed", all_indexed)
    assert (await tga.stop()).code == 0


async def test_n14_indexes_deleted_while_stopped_are_rebuilt_and_told_of(start: Starter) -> None:
    tga = await start()
    await tga.ready()

    async def many_captured() -> bool:
        return int(await tga.query("SELECT count(*) FROM posts")) > 20

    async def all_indexed() -> bool:
        return int(await tga.query(UNINDEXED, moment)) == 0

    await until("there are posts", many_captured)
    moment = await tga.query("SELECT now()")

    await until("the first posts are indexed", all_indexed)
    assert (await tga.stop()).code == 0
    before = await held(tga.data)
    for name in ("vectors", "graph"):
        shutil.rmtree(tga.data / name)
    tga = await (await start(tga.data)).ready()

    async def whole_again() -> bool:
        """Told in the log: a small index is whole again before anyone can look at the page."""
        return "indexes_compared" in tga.err() and (await tga.details())["indexes"]["status"] == "ok"

    await until("both are told of as rebuilt, then as whole", whole_again)
    assert "vectors and graph vanished" in tga.err()
    await until("what was on its way at the stop is indexed too", all_indexed)
    assert (await tga.stop()).code == 0
    after = await held(tga.data)
    assert before.vectors.keys() <= after.vectors.keys()
    assert before.nodes.keys() <= after.nodes.keys()
