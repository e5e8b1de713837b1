"""Models that are away hold up tags, vectors and the graph. They do not keep a post from being found."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys

import pytest

from tests.e2e.conftest import Starter, Tga

pytestmark = pytest.mark.e2e

FOUND_BY_WORDS = """
SELECT count(*) > 20 AND count(*) = count(d.post_id) FROM posts p LEFT JOIN search_documents d ON d.post_id = p.id
WHERE p.captured_at < now() - interval '5 seconds'
"""
A_LONG_WORD = "SELECT word FROM posts, regexp_split_to_table(text, '[^[:alpha:]]+') word WHERE length(word) > 9 LIMIT 1"


async def search(tga: Tga, query: str) -> list[object]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "telegram_assistant", "search", query, "--json"),
        stdout=asyncio.subprocess.PIPE,
        cwd=tga.data.parent,
        env={**os.environ, "TGA_DATA_DIR": str(tga.data)},
    )
    out, _ = await asyncio.wait_for(process.communicate(), 300)
    assert process.returncode == 0
    hits: list[object] = json.loads(out)["hits"]
    return hits


async def test_posts_are_found_by_their_words(start: Starter) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # taken, and nobody listens
        address = f"http://127.0.0.1:{nobody.getsockname()[1]}/v1"
        tga = await start(OPENAI_BASE_URL=address, AI_TAG_PROVIDER="openai", AI_EMBED_PROVIDER="openai")
        await tga.ready()
        for _ in range(600):
            if await tga.query(FOUND_BY_WORDS):
                break
            await asyncio.sleep(0.5)
        assert await tga.query(FOUND_BY_WORDS)
        assert await tga.query("SELECT count(*) FROM post_steps WHERE stage = 'indexing' AND outcome = 'done'") == 0
        assert await search(tga, await tga.query(A_LONG_WORD))
        assert (await tga.details())["status"] != "ok", "that the models are away is told"
        assert (await tga.stop()).code == 0
