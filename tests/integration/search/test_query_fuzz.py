"""Queries put together at random reach PostgreSQL: each gets an answer, and none changes anything."""

from __future__ import annotations

import random

import pytest

from telegram_assistant.search.service import Search
from tests.integration.search.archive import SYSTEM, Archive

pytestmark = pytest.mark.integration

SIGNS = [*"\"'-+=:()|&!<>*\\%_$@#;,. ", "OR", "AND", "''", "\\'", "<->", ":*", "::text", "--", "/*", "\0", "\ud800"]
WORDS = ["нефть", "не", "oil's", "a" * 300, "😀", "e\u0301", "ﬁ", "1e309", "-1", "0x00", "NULL", "$1", ":tenant", "%s"]
FILTERS = ["channel:daily_news", "channel:'x", "tag:a'b", "topic:\\", "lang:ru", "has:photo", "is:deleted", "after:7d"]
FILTERS += ["before:2024-02-30", "after:9999-12-31", "before:0001-01-01", "after:99999999d", 'tag:"', "-channel:sport"]


@pytest.mark.parametrize("seed", range(4))
async def test_every_query_gets_an_answer(search: Search, archive: Archive, seed: int) -> None:
    await archive.post(1, "Цены на нефть растут, говорят в ОПЕК")
    chance = random.Random(seed)
    for _ in range(60):
        pieces = [chance.choice(chance.choice([SIGNS, WORDS, FILTERS])) for _ in range(chance.randint(1, 12))]
        query = chance.choice(["", " "]).join(pieces)
        results = await search.search(SYSTEM, query)
        assert len(results.hits) <= 1, query
    assert len(await archive.rows("SELECT 1 FROM posts")) == 1
