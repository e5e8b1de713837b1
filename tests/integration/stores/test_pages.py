"""Pages by their address, and the posts that led there."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.ledger import Coverage
from telegram_assistant.domain.media_rules import MediaDecision
from telegram_assistant.domain.post import Post
from telegram_assistant.ingest.saver import Reading, Saver
from telegram_assistant.stores.postgres.pages import Page, Pages

pytestmark = pytest.mark.integration

NOW = datetime(2026, 11, 1, tzinfo=UTC)
A, B = "https://a.example/1", "https://b.example/2"
PAGE = Page(url=A, title="Title", text="Text", description="About", language="en", content_hash="h", etag='"1"')


def post(number: int, words: str = "words") -> Post:
    return Post(channel_id=77, message_id=number, posted_at=NOW, text=words)


@pytest.fixture
async def saver(database: AsyncEngine) -> Saver:
    async with database.begin() as connection:
        await connection.execute(text("INSERT INTO channels (id, title, username) VALUES (77, 'T', 't')"))
    return Saver(database, clock=lambda: NOW, decide_media=lambda _: MediaDecision("pending"))


async def save(saver: Saver, *posts: Post) -> None:
    ids = [one.message_id for one in posts]
    await saver.save(Reading(channel_id=77, posts=posts, proven=Coverage.of_ids(ids)))


async def links(pages: Pages, one: Post) -> list[str]:
    return [page.url for page in (await pages.of_posts([one.id])).get(one.id, [])]


async def test_a_page_is_kept_once_and_the_last_visit_counts(database: AsyncEngine) -> None:
    pages = Pages(database)
    assert await pages.get(A) is None
    await pages.save(PAGE)
    first = await pages.get(A)
    assert first is not None
    assert (first.title, first.text, first.description, first.language) == ("Title", "Text", "About", "en")
    assert (first.etag, first.last_modified) == ('"1"', None)
    await pages.seen_again(A)
    again = await pages.get(A)
    assert again is not None
    assert again.fetched_at > first.fetched_at
    assert again.text == "Text"
    await pages.save(Page(url=A, text="a\x00b"), problem=None)
    changed = await pages.get(A)
    assert changed is not None
    assert (changed.title, changed.text, changed.etag) == ("", "ab", None)
    await pages.save(Page(url=B), problem="404")
    gone = await pages.get(B)
    assert gone is not None
    assert (gone.text, gone.problem) == ("", "404")


async def test_a_page_is_found_by_the_link_that_led_to_it(database: AsyncEngine, saver: Saver) -> None:
    pages, one = Pages(database), post(1)
    await save(saver, one)
    await pages.save(PAGE)
    assert await pages.get("https://short.example/x") is None
    await pages.link(one.id, one.content_hash, [("https://short.example/x", A)], among=["https://short.example/x"])
    found = await pages.get("https://short.example/x")
    assert found is not None
    assert found.url == A


async def test_a_post_has_the_pages_of_its_links_and_no_others(database: AsyncEngine, saver: Saver) -> None:
    pages, one = Pages(database), post(1)
    await save(saver, one)
    await pages.save(PAGE)
    await pages.save(Page(url=B, text="b"))
    assert await pages.link(one.id, one.content_hash, [(A, A), (B, B)], among=[A, B])
    assert await pages.link(one.id, one.content_hash, [(A, A), (B, B)], among=[A, B])
    assert await links(pages, one) == [A, B]
    assert await pages.link(one.id, one.content_hash, [(A, A)], among=[A, B])
    assert await links(pages, one) == [A, B], "what could not be read now stays"
    assert await pages.link(one.id, one.content_hash, [], among=[B])
    assert await links(pages, one) == [B]
    assert await pages.of_posts([]) == {}


async def test_words_that_the_post_no_longer_has_change_nothing(database: AsyncEngine, saver: Saver) -> None:
    pages, before, after = Pages(database), post(1, "before"), post(1, "after")
    await save(saver, before)
    await save(saver, after)
    await pages.save(PAGE)
    await pages.save(Page(url=B, text="b"))
    assert await pages.link(after.id, after.content_hash, [(A, A)], among=[A])
    assert not await pages.link(before.id, before.content_hash, [(B, B)], among=[B])
    assert not await pages.link(post(9).id, post(9).content_hash, [(B, B)], among=[B])
    await pages.unlink([(before.id, before.content_hash), (post(9).id, "")])
    assert await links(pages, after) == [A]
    await pages.unlink([(before.id, before.content_hash), (after.id, after.content_hash)])
    assert await links(pages, after) == []
    assert await pages.get(A) is not None, "the page may belong to others"
