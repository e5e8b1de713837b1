"""The steps of posts: the latest of each stage, and never of words that the post no longer has."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from uuid import uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.events import Step
from telegram_assistant.domain.ledger import Coverage
from telegram_assistant.domain.media_rules import MediaDecision
from telegram_assistant.domain.post import Post
from telegram_assistant.ingest.saver import Reading, Saver
from telegram_assistant.names import INDEXING, TAGGING
from telegram_assistant.stores.postgres.pipeline import LONGEST_NOTE, Steps

pytestmark = pytest.mark.integration

NOW = datetime.now(UTC)


def post(number: int, words: str = "words") -> Post:
    return Post(channel_id=77, message_id=number, posted_at=NOW, text=words)


def step(one: Post, stage: str = TAGGING, **fields: object) -> Step:
    made = Step(
        post_id=one.id,
        stage=stage,
        outcome="done",
        note="three tags",
        trace_id="trace-1",
        content_hash=one.content_hash,
        duration_ms=12.5,
    )
    return replace(made, **fields)  # type: ignore[arg-type]  # fields of their types


@pytest.fixture
async def saver(database: AsyncEngine) -> Saver:
    async with database.begin() as connection:
        await connection.execute(text("INSERT INTO channels (id, title, username) VALUES (77, 'T', 't')"))
    return Saver(database, clock=lambda: datetime.now(UTC), decide_media=lambda _: MediaDecision("pending"))


async def save(saver: Saver, *posts: Post) -> None:
    ids = [one.message_id for one in posts]
    await saver.save(Reading(channel_id=77, posts=posts, proven=Coverage.of_ids(ids)))


async def test_the_latest_step_of_each_stage_is_kept_in_their_order(database: AsyncEngine, saver: Saver) -> None:
    steps, one = Steps(database), post(1)
    await save(saver, one, post(2))
    await steps.record([step(one, outcome="waiting", note="busy")])
    await steps.record([step(one, INDEXING), step(one, "tag_persistence")])
    await steps.record([step(one), step(post(2))])
    found = await steps.of_post(one.id)
    assert [(row.stage, row.outcome, row.note, row.trace_id, row.duration_ms) for row in found][-1] == (
        "tagging",
        "done",
        "three tags",
        "trace-1",
        12.5,
    )
    assert {row.stage for row in found} == {TAGGING, INDEXING, "tag_persistence"}
    assert [row.at for row in found] == sorted(row.at for row in found)


async def test_of_two_words_in_one_batch_the_last_counts_and_strangers_are_passed_over(
    database: AsyncEngine, saver: Saver
) -> None:
    steps, one = Steps(database), post(1)
    await save(saver, one)
    await steps.record([step(one, outcome="waiting"), step(one, post_id=uuid4()), step(one, outcome="dead")])
    assert [row.outcome for row in await steps.of_post(one.id)] == ["dead"]
    await steps.record([])


async def test_a_note_may_be_long_and_hold_anything(database: AsyncEngine, saver: Saver) -> None:
    steps, one = Steps(database), post(1)
    await save(saver, one)
    await steps.record([step(one, note="\x00\ud800" + "ё" * 5000)])
    (row,) = await steps.of_post(one.id)
    assert len(row.note) == LONGEST_NOTE
    assert row.note.startswith("\ufffdё")


async def test_a_step_about_older_words_does_not_hide_the_one_about_the_newer(
    database: AsyncEngine, saver: Saver
) -> None:
    """Events of an edited post come in any order; a trace tells of the post as it is."""
    steps, before, after = Steps(database), post(1, "before"), post(1, "after")
    await save(saver, before)
    await save(saver, after)
    await steps.record([step(before, note="old")])
    assert [row.note for row in await steps.of_post(after.id)] == ["old"], "better than nothing"
    await steps.record([step(after, note="new")])
    await steps.record([step(before, note="late", outcome="skipped")])
    assert [row.note for row in await steps.of_post(after.id)] == ["new"]
    await steps.record([step(after, note="deleted", content_hash="")])  # a deletion speaks of no words
    assert [row.note for row in await steps.of_post(after.id)] == ["deleted"]


async def test_in_one_batch_the_words_that_the_post_has_come_before_older_ones(
    database: AsyncEngine, saver: Saver
) -> None:
    """An event of an older version may be tried again after that of the newer one."""
    steps, old, new = Steps(database), post(1, "old"), post(1, "new")
    await save(saver, old)
    await save(saver, new)
    await steps.record([step(new, outcome="waiting")])
    await steps.record([step(new, note="new"), step(old, note="old")])
    assert [(row.outcome, row.note) for row in await steps.of_post(new.id)] == [("done", "new")]
