"""Findings about posts: one per kind, about the words that the post has now, and the one that knew most."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.ledger import Coverage
from telegram_assistant.domain.media_rules import MediaDecision
from telegram_assistant.domain.post import Post
from telegram_assistant.ingest.saver import Reading, Saver
from telegram_assistant.stores.postgres.enrichment import Enrichment, Enrichments

pytestmark = pytest.mark.integration

NOW = datetime(2026, 11, 1, tzinfo=UTC)


def post(number: int, words: str = "words") -> Post:
    return Post(channel_id=77, message_id=number, posted_at=NOW, text=words)


def found(one: Post, rank: int | None = None, **data: object) -> Enrichment:
    return Enrichment(one.id, one.content_hash, {**data, **({} if rank is None else {"rank": rank})}, "local")


@pytest.fixture
async def saver(database: AsyncEngine) -> Saver:
    async with database.begin() as connection:
        await connection.execute(text("INSERT INTO channels (id, title, username) VALUES (77, 'T', 't')"))
    return Saver(database, clock=lambda: NOW, decide_media=lambda _: MediaDecision("pending"))


async def save(saver: Saver, *posts: Post) -> None:
    ids = [one.message_id for one in posts]
    await saver.save(Reading(channel_id=77, posts=posts, proven=Coverage.of_ids(ids)))


async def test_what_is_saved_comes_back_by_kind(database: AsyncEngine, saver: Saver) -> None:
    enrichments, one, other = Enrichments(database), post(1), post(2)
    await save(saver, one, other)
    assert await enrichments.save("tags", [found(one, tags=["ё", "b"]), found(other, tags=[])]) == {one.id, other.id}
    assert await enrichments.save("vision", [found(one, pictures=[{"seen": True}])]) == {one.id}
    rows = await enrichments.of_posts("tags", [one.id, other.id, uuid4()])
    assert {id_: row.data for id_, row in rows.items()} == {one.id: {"tags": ["ё", "b"]}, other.id: {"tags": []}}
    assert rows[one.id] == Enrichment(one.id, one.content_hash, {"tags": ["ё", "b"]}, "local")
    assert (await enrichments.of_posts("album", [one.id])) == {}
    assert await enrichments.save("tags", []) == set()


async def test_only_what_changed_is_told(database: AsyncEngine, saver: Saver) -> None:
    enrichments, one, other = Enrichments(database), post(1), post(2)
    await save(saver, one, other)
    await enrichments.save("tags", [found(one, tags=["a"]), found(other, tags=["a"])])
    assert await enrichments.save("tags", [found(one, tags=["a"]), found(other, tags=["b"])]) == {other.id}


async def test_the_higher_rank_stays_and_of_equals_the_last(database: AsyncEngine, saver: Saver) -> None:
    enrichments, one = Enrichments(database), post(1)
    await save(saver, one)
    await enrichments.save("tags", [found(one, 1, tags=["first"]), found(one, 1, tags=["last"]), found(one, 0)])
    assert (await enrichments.of_posts("tags", [one.id]))[one.id].data["tags"] == ["last"]
    assert await enrichments.save("tags", [found(one, 0, tags=["lower"])]) == set()
    assert await enrichments.save("tags", [found(one, tags=["none"])]) == set()
    assert await enrichments.save("tags", [found(one, 2, tags=["higher"])]) == {one.id}


async def test_what_is_about_older_words_is_left_out_also_beside_the_newer(database: AsyncEngine, saver: Saver) -> None:
    enrichments, before, after = Enrichments(database), post(1, "before"), post(1, "after")
    await save(saver, before)
    await save(saver, after)
    batch = [found(before, 2, tags=["old"]), found(after, 0, tags=["new"]), found(before, 2, tags=["old"])]
    assert await enrichments.save("tags", batch) == {after.id}
    assert (await enrichments.of_posts("tags", [after.id]))[after.id].data["tags"] == ["new"]
    assert await enrichments.save("tags", [found(before, 2, tags=["old"])]) == set()
    assert await enrichments.save("tags", [found(post(9), tags=["of nobody"])]) == set()


async def test_findings_may_hold_anything(database: AsyncEngine, saver: Saver) -> None:
    enrichments, one = Enrichments(database), post(1)
    await save(saver, one)
    await enrichments.save("vision", [found(one, reason="a\x00b", code='\\u0000 "\\')])
    assert (await enrichments.of_posts("vision", [one.id]))[one.id].data == {"reason": "ab", "code": '\\u0000 "\\'}
