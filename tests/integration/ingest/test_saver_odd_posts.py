"""Whatever Telegram's schema can say is saved: one message that PostgreSQL refuses would stop its channel for good."""

from __future__ import annotations

import types as python_types
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from random import Random
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine
from telethon.tl import types

from telegram_assistant.domain.ledger import Coverage
from telegram_assistant.domain.media_rules import MediaDecision
from telegram_assistant.ingest.saver import Reading, Saver
from telegram_assistant.source.telegram_messages import post_of

pytestmark = pytest.mark.integration

CHANNEL = 77
NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
DEEPEST = 5
STRINGS = ("", "\0", "a\0b", "https://example.org/a\0b", "\u202e\ufeffword", "e\u0301" * 50, "😀\0😀", "'; --")
NUMBERS = (0, 1, -1, 7, 2**31 - 1, -(2**31))


# Of the types that a message may hold; this one is only known to type checkers.
NAMES = {**vars(types), "TypeEmojiGameOutcome": types.messages.EmojiGameOutcome}


@cache
def hints_of(constructor: Any) -> dict[str, Any]:
    return get_type_hints(constructor.__init__, NAMES)


class Strange:
    """Builds any object of the schema from the types of its arguments."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)

    def message(self, number: int) -> Any:
        """Of a channel, with an id and a time; the rest is as odd as the schema allows."""
        kind = self.rng.choice((types.Message, types.Message, types.MessageService))
        made = self.make(kind, 0)
        made.id, made.peer_id, made.date = number, types.PeerChannel(CHANNEL), NOW + timedelta(seconds=number)
        return made

    def make(self, wanted: Any, depth: int) -> Any:
        rng, options = self.rng, get_args(wanted)
        if get_origin(wanted) in {Union, python_types.UnionType}:
            if type(None) in options and (depth >= DEEPEST or rng.random() < 0.4):
                return None
            return self.make(rng.choice([one for one in options if one is not type(None)]), depth)
        if get_origin(wanted) is list:
            return [self.make(options[0], depth + 1) for _ in range(rng.randrange(3) if depth < DEEPEST else 0)]
        simple: dict[Any, Callable[[], object]] = {
            str: lambda: rng.choice(STRINGS),
            int: lambda: rng.choice(NUMBERS),
            bool: lambda: rng.random() < 0.5,
            float: lambda: rng.choice((0.0, -1.5, 1e300)),
            bytes: lambda: b"\0\xff",
            datetime: lambda: NOW - timedelta(days=rng.randrange(20_000)),
        }
        if wanted in simple:
            return simple[wanted]()
        hints = {name: hint for name, hint in hints_of(wanted).items() if name != "return"}
        return wanted(**{name: self.make(hint, depth + 1) for name, hint in hints.items()})


@pytest.mark.parametrize("seed", range(10))
async def test_every_message_that_the_schema_allows_is_saved(database: AsyncEngine, seed: int) -> None:
    async with database.begin() as connection:
        await connection.execute(text("INSERT INTO channels (id, title) VALUES (:id, 'News')"), {"id": CHANNEL})
    strange = Strange(seed)
    posts = [post_of(strange.message(number)) for number in range(1, 101)]
    assert None not in posts
    found = [post for post in posts if post is not None]
    saver = Saver(database, clock=lambda: NOW, decide_media=lambda _: MediaDecision("pending"))
    for _ in range(2):
        ids = [post.message_id for post in found]
        await saver.save(Reading(channel_id=CHANNEL, posts=found, proven=Coverage.of_ids(ids), newest_id=max(ids)))
    async with database.connect() as connection:
        rows = await connection.execute(text("SELECT message_id FROM posts ORDER BY message_id"))
        assert [row.message_id for row in rows] == ids
