"""The events that PostgreSQL writes are those that the stages read."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.bus.streams import decode, encode
from telegram_assistant.domain.access import SYSTEM_TENANT
from telegram_assistant.domain.events import SCHEMA_VERSION, PostDeleted, PostParsed
from telegram_assistant.domain.ledger import Coverage
from telegram_assistant.domain.media_rules import MediaDecision
from telegram_assistant.domain.post import Counters, Forward, Media, MediaKind, Post, ReplyTo, post_url
from telegram_assistant.domain.text import Link
from telegram_assistant.ingest.saver import Reading, Saver
from telegram_assistant.names import POSTS_DELETED, POSTS_PARSED
from telegram_assistant.stores.postgres import outbox
from telegram_assistant.stores.postgres.database import raw_transaction

pytestmark = pytest.mark.integration

START = datetime(2026, 1, 5, 12, tzinfo=UTC)
TENANT = "00000000-0000-0000-0000-000000000077"
NASTY = 'Quote " backslash \\ tab \t line\u2028 \x01\x7f ё 👨\u200d👩\u200d👧 </script>'


def test_no_field_of_the_event_is_forgotten() -> None:
    later = {"media_sha256_list"}  # known when the files are here
    assert set(outbox.POST_FIELDS) == {field.name for field in fields(PostParsed)} - later


async def published(database: AsyncEngine, *posts: Post) -> tuple[list[PostParsed], outbox.Pending]:
    saver = Saver(database, clock=lambda: START, decide_media=lambda _: MediaDecision("pending"))
    ids = [post.message_id for post in posts]
    await saver.save(Reading(channel_id=posts[0].channel_id, posts=posts, proven=Coverage.of_ids(ids)))
    async with raw_transaction(database) as connection:
        (batch,) = [one for one in await outbox.take(connection, most=9, events=1000) if one.event == POSTS_PARSED]
        events = decode(PostParsed, encode(await outbox.events_of(connection, batch)))
    return events, batch


async def add_channel(database: AsyncEngine, channel_id: int, **columns: Any) -> None:
    async with database.begin() as connection:
        await connection.execute(
            text(
                "INSERT INTO channels (id, title, username, tenant_id)"
                " VALUES (:id, 'T', :username, CAST(:tenant AS uuid))"
            ),
            {"id": channel_id, "username": None, "tenant": None} | columns,
        )


async def test_a_post_with_everything(database: AsyncEngine) -> None:
    await add_channel(database, 77, username="daily_news")
    post = Post(
        channel_id=77,
        message_id=5,
        posted_at=START - timedelta(hours=1, microseconds=250),
        text=NASTY,
        links=(Link("https://a.example/?q=\"'", "a"), Link("https://ж.example", "b")),
        media=(Media(kind=MediaKind.PHOTO, file_id="photo:1"),),
        grouped_id=2**62,
        forward=Forward(channel_id=2**40, message_id=9, name="x"),
        reply_to=ReplyTo(message_id=3),
        author='A "B" \\',
        edited_at=START,
        counters=Counters.counted(views=10, forwards=2, replies=1, reactions={"🔥": 3, 'custom:"1': 1}),
    )
    (event,), batch = await published(database, post)
    assert event == PostParsed(
        trace_id=batch.trace_id,
        occurred_at=batch.created_at,
        idempotency_key=f"posts.parsed:{post.id}:1",
        schema_version=SCHEMA_VERSION,
        tenant_id=event.tenant_id,
        channel_id=77,
        post_id=post.id,
        version=1,
        telegram_message_id=5,
        telegram_post_url=post_url("daily_news", 77, 5),
        text=NASTY,
        urls=post.urls,
        posted_at=post.posted_at,
        content_hash=post.content_hash,
        has_media=True,
        grouped_id=2**62,
        views=10,
        forwards=2,
        replies=1,
        reactions={"🔥": 3, 'custom:"1': 1},
        forward_channel_id=2**40,
        forward_message_id=9,
        reply_to_message_id=3,
        author='A "B" \\',
        edited_at=START,
    )
    assert str(event.tenant_id) == SYSTEM_TENANT


async def test_a_post_with_nothing_of_a_private_channel(database: AsyncEngine) -> None:
    async with database.begin() as connection:
        await connection.execute(text("INSERT INTO tenants (id, name) VALUES (:id, 'Seven')"), {"id": TENANT})
    await add_channel(database, 78, tenant=TENANT)
    (event,), _ = await published(database, Post(channel_id=78, message_id=6, posted_at=START))
    assert (str(event.tenant_id), event.telegram_post_url) == (TENANT, post_url(None, 78, 6))
    assert (event.text, event.urls, event.reactions, event.has_media) == ("", (), {}, False)
    assert (event.views, event.grouped_id, event.forward_channel_id, event.author, event.edited_at) == (None,) * 5


async def test_events_come_in_the_order_of_the_posts(database: AsyncEngine) -> None:
    await add_channel(database, 79, username="x")
    posts = [Post(channel_id=79, message_id=number, posted_at=START) for number in (300, 2, 31)]
    events, _ = await published(database, *posts)
    assert [event.telegram_message_id for event in events] == [2, 31, 300]


@pytest.mark.parametrize("retention", ["keep", "mirror"])
async def test_a_deletion_knows_its_tenant_even_when_the_row_is_gone(database: AsyncEngine, retention: str) -> None:
    """G7: it has to leave the indexes of the tenant whose private channel it was in."""
    async with database.begin() as connection:
        await connection.execute(text("INSERT INTO tenants (id, name) VALUES (:id, 'Seven')"), {"id": TENANT})
    await add_channel(database, 78, tenant=TENANT)
    await add_channel(database, 79, username="x")
    saver = Saver(database, clock=lambda: START, decide_media=lambda _: MediaDecision("pending"), retention=retention)
    private, public = (Post(channel_id=number, message_id=6, posted_at=START) for number in (78, 79))
    for post in (private, public):
        await saver.save(Reading(channel_id=post.channel_id, posts=[post], proven=Coverage.of_ids([6])))
        await saver.delete(post.channel_id, [6])
    async with raw_transaction(database) as connection:
        batches = [one for one in await outbox.take(connection, most=9, events=1000) if one.event == POSTS_DELETED]
        events = [event for batch in batches for event in await outbox.events_of(connection, batch)]
    found = decode(PostDeleted, encode(events))
    assert {event.post_id: str(event.tenant_id) for event in found} == {private.id: TENANT, public.id: SYSTEM_TENANT}


async def test_a_deletion_that_is_told_again_finds_its_tenant_in_the_tables(database: AsyncEngine) -> None:
    async with database.begin() as connection:
        await connection.execute(text("INSERT INTO tenants (id, name) VALUES (:id, 'Seven')"), {"id": TENANT})
    await add_channel(database, 78, tenant=TENANT)
    _, parsed = await published(database, Post(channel_id=78, message_id=6, posted_at=START))
    async with raw_transaction(database) as connection:
        again = replace(parsed, event=POSTS_DELETED, tenant_id=None)
        (event,) = decode(PostDeleted, encode(await outbox.events_of(connection, again)))
    assert str(event.tenant_id) == TENANT
