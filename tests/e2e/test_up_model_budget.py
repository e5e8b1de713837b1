"""A day's tokens that are used up hold up tags and what comes after them: posts are found by words, and it is told."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

import pytest

from tests.chaos.provider import Provider
from tests.e2e.conftest import Starter, Tga

pytestmark = pytest.mark.e2e

LIMIT, CALL = 3_500, 880
AT_ONCE = 8  # of both stages that tag
FOUND_BY_WORDS = """
SELECT count(*) > 20 AND count(*) = count(d.post_id) FROM posts p LEFT JOIN search_documents d ON d.post_id = p.id
WHERE p.captured_at < now() - interval '5 seconds'
"""
WAITS = """
SELECT count(*) FROM post_steps WHERE stage = 'tagging' AND outcome = 'waiting' AND note LIKE '%MODEL_TOKENS_PER_DAY%'
"""


async def spend(tga: Tga, **settings: Any) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "telegram_assistant", "spend", "--json"),
        stdout=asyncio.subprocess.PIPE,
        cwd=tga.data.parent,
        env={**os.environ, "TGA_DATA_DIR": str(tga.data), **settings},
    )
    out, _ = await asyncio.wait_for(process.communicate(), 300)
    assert process.returncode == 0
    found: dict[str, Any] = json.loads(out)
    return found


async def test_the_limit_holds_and_is_told(start: Starter) -> None:
    provider = Provider(seed=1)
    await provider.recover()
    settings: dict[str, Any] = {"OPENAI_BASE_URL": provider.url, "AI_TAG_PROVIDER": "openai"}
    settings["MODEL_TOKENS_PER_DAY"] = str(LIMIT)
    tga = await start(**settings)
    await tga.ready()
    for _ in range(600):
        if await tga.query(FOUND_BY_WORDS) and await tga.query(WAITS):
            break
        await asyncio.sleep(0.5)
    assert await tga.query(FOUND_BY_WORDS)
    assert await tga.query(WAITS) > 0
    details = await tga.well()  # somebody wanted it so: no reason to restart anything
    budget = details["models"]["budget"]
    assert (budget["limit"], budget["left"]) == (LIMIT, 0)
    assert "wait until" in budget["trouble"]
    waits = await tga.query(WAITS)
    told = await spend(tga, **settings)
    assert told["today"]["tokens"] == budget["spent"] == CALL * provider.answered["well"]
    assert LIMIT <= budget["spent"] < LIMIT + AT_ONCE * CALL
    assert [(one["ability"], one["tokens"]) for one in told["days"]] == [("tag", budget["spent"])]
    (waiting,) = told["waiting"]
    assert waiting["posts"] >= waits
    assert waiting["tokens"] == CALL * waiting["posts"]
    assert (await tga.stop()).code == 0
    await provider.close()
