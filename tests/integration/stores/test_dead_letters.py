"""Dead letters keep whatever came, so that somebody can read it and try again (G4, LESSONS 16)."""

from __future__ import annotations

import json
from dataclasses import replace
from uuid import UUID

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.access import SYSTEM_TENANT
from telegram_assistant.domain.events import DeadLetter
from telegram_assistant.stores.postgres.pipeline import DeadLetters

pytestmark = pytest.mark.integration

SYSTEM, TENANT = UUID(SYSTEM_TENANT), UUID(int=7)
LETTER = DeadLetter(
    stage="tagging",
    event="posts.parsed",
    key="key-1",
    payload='{"post_id": "x"}',
    reason="it can never work",
    traceback="Traceback …",
    attempts=3,
    trace_id="trace-1",
    tenant_id=None,
)


async def test_a_letter_is_kept_whole(database: AsyncEngine) -> None:
    letters = DeadLetters(database)
    await letters.add([LETTER])
    (found,) = await letters.find()
    assert (found.stage, found.event, found.key, found.payload) == (
        "tagging",
        "posts.parsed",
        "key-1",
        {"post_id": "x"},
    )
    assert (found.reason, found.traceback, found.attempts, found.trace_id) == (
        "it can never work",
        "Traceback …",
        3,
        "trace-1",
    )
    assert (found.tenant_id, found.replayed_at) == (SYSTEM, None)


async def test_the_same_event_is_one_letter_which_opens_again_when_a_replay_failed(database: AsyncEngine) -> None:
    letters = DeadLetters(database)
    await letters.add([LETTER, replace(LETTER, stage="indexing")])
    (first,) = await letters.find(stage="tagging")
    await letters.replayed([first])
    assert await letters.find(stage="tagging") == []
    assert await letters.counts() == {"indexing": 1}
    assert [one.id for one in await letters.find(ids=[first.id])] == [first.id], "it can still be looked at"
    await letters.add([replace(LETTER, reason="and again", attempts=1)])
    (again,) = await letters.find(stage="tagging")
    assert (again.id, again.reason, again.attempts, again.replayed_at) == (first.id, "and again", 1, None)
    assert await letters.counts() == {"indexing": 1, "tagging": 1}


async def test_a_replay_that_failed_before_it_was_noted_stays_open(database: AsyncEngine) -> None:
    """Of many letters the first are handled while the last are still handed over: none may be hidden unsolved."""
    letters = DeadLetters(database)
    await letters.add([LETTER, replace(LETTER, key="key-2")])
    second, first = await letters.find()
    await letters.add([replace(LETTER, reason="and again")])  # by a stage that was quick
    await letters.replayed([first, second])
    (left,) = await letters.find()
    assert (left.id, left.reason) == (first.id, "and again")


async def test_they_are_found_newest_first_and_dropped_for_good(database: AsyncEngine) -> None:
    letters = DeadLetters(database)
    await letters.add([replace(LETTER, key=f"key-{number}") for number in range(5)])
    assert [one.key for one in await letters.find(limit=2)] == ["key-4", "key-3"]
    ids = [one.id for one in await letters.find()]
    assert await letters.drop(ids[:2]) == 2
    assert await letters.drop(ids[:2]) == 0
    assert [one.key for one in await letters.find()] == ["key-2", "key-1", "key-0"]


async def test_a_letter_belongs_to_its_tenant_and_one_of_nobody_to_the_system(database: AsyncEngine) -> None:
    """LESSONS 17: and a tenant that is gone, or was made up, is no reason to lose it."""
    async with database.begin() as connection:
        await connection.execute(text("INSERT INTO tenants (id, name) VALUES (:id, 'seven')"), {"id": TENANT})
    letters = DeadLetters(database)
    await letters.add([replace(LETTER, key="a", tenant_id=TENANT), replace(LETTER, key="b", tenant_id=UUID(int=99))])
    assert {one.key: one.tenant_id for one in await letters.find()} == {"a": TENANT, "b": SYSTEM}


WHATEVER = [
    ("no json", "no json"),
    ("", ""),
    ('{"text": "a\\u0000b"}', {"text": "ab"}),
    ('{"text": "a\x00b"}', {"text": "ab"}),
    (json.dumps({"text": "the letters \\u0000"}), {"text": "the letters \\u0000"}),
    ('{"text": "\ud800"}', {"text": "\ufffd"}),
    ('["\\ud800"]', '["\\ud800"]'),
    ("[1e999999]", "[1e999999]"),
    ("[-1e-999999]", [-0.0]),
    ("[1." + "1" * 20_000 + "]", [1.1111111111111112]),
    ("[" * 100_000, "[" * 100_000),
    ("1" * 2_000_000, "1" * 2_000_000),
]


async def test_whatever_came_is_kept(database: AsyncEngine) -> None:
    """A letter that cannot be written would stop its stage for ever."""
    letters = DeadLetters(database)
    for payload, kept in WHATEVER:
        await letters.add([replace(LETTER, payload=payload, reason="a\x00b\udfff", traceback="\x00")])
        (found,) = await letters.find()
        assert found.payload == kept
        assert found.reason == "ab\ufffd"
