"""`post_persistence` (SPEC 4.2): what another producer tells of is saved by the same code, and told of by it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TypeAlias

import pytest

from telegram_assistant.bus.stage import Done, Outcome
from telegram_assistant.domain.events import PostParsed
from telegram_assistant.domain.post import post_id
from telegram_assistant.errors import Reject, Skip
from telegram_assistant.language.inflection import Inflection
from telegram_assistant.language.lexemes import Lexicon
from telegram_assistant.names import POSTS_PARSED
from telegram_assistant.stages.index_entry import EntryReader, TextIndex
from telegram_assistant.stages.post_persistence import save_posts
from telegram_assistant.stores.postgres.channels import Channels
from telegram_assistant.stores.postgres.search import SearchDocuments
from tests.integration.stages.desk import CHANNEL, POSTED, SYSTEM, WEATHER, Desk, post

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="session")]

LEDGER = "SELECT newest_id, cursor_id, captured, coverage::text AS coverage, last_post_at FROM channels WHERE id = 77"

Save: TypeAlias = Callable[[Sequence[PostParsed]], Awaitable[list[Outcome]]]


@pytest.fixture
def save(desk: Desk) -> Save:
    """The stage, in a process that holds none of the embedded indexes."""
    texts = TextIndex(SearchDocuments(desk.database), Lexicon(Inflection()))
    entries = EntryReader(desk.stored_posts, desk.enrichments, desk.pages, desk.pictures)
    return partial(save_posts, texts=texts, entries=entries, saver=desk.saver)


def foreign(number: int = 5, *, channel_id: int = CHANNEL) -> PostParsed:
    """An event that somebody else made: with a hash of its own, and text nobody has cleaned."""
    return PostParsed(
        trace_id="theirs",
        occurred_at=POSTED,
        idempotency_key=f"theirs:{number}",
        tenant_id=SYSTEM,
        channel_id=channel_id,
        post_id=post_id(channel_id, number) if 0 < channel_id < 2**63 and 0 < number < 2**31 else post(99).id,
        version=1,
        telegram_message_id=number,
        telegram_post_url=f"https://t.me/news/{number}",
        text=f"{WEATHER}\x00",
        urls=("https://news.example/1",),
        posted_at=POSTED,
        content_hash="their own",
        has_media=False,
        views=10,
        reactions={"🔥": 3},
        forward_channel_id=3,
        forward_message_id=4,
        reply_to_message_id=2,
        author="Anna",
    )


async def test_a_foreign_event_is_saved_and_told_of_with_our_hash(desk: Desk, save: Save) -> None:
    outcomes = await save([foreign()])
    assert outcomes == [Done(note="saved for another producer")]
    stored = (await desk.stored_posts.read([foreign().post_id]))[foreign().post_id]
    assert (stored.text, stored.urls, stored.forward) == (WEATHER, ("https://news.example/1",), (3, 4))
    assert (stored.replies_to, stored.details["author"]) == (post(2).id, "Anna")
    (ours,) = await desk.told(POSTS_PARSED)
    assert (ours.post_id, ours.content_hash) == (foreign().post_id, stored.content_hash)
    assert ours.content_hash != "their own"
    assert (ours.views, ours.reactions) == (10, {"🔥": 3})


async def test_a_repeat_and_our_own_posts_change_nothing(desk: Desk, save: Save) -> None:
    """G2."""
    await desk.save(post(1, WEATHER))
    events = [foreign(), foreign(), *await desk.told(POSTS_PARSED)]
    for _ in range(2):
        for event in events:
            await save([event])
    (outcome,) = await save([foreign()])
    assert isinstance(outcome, Skip)
    assert not str(outcome)
    assert len(await desk.rows("SELECT 1 FROM posts")) == 2
    assert len(await desk.told(POSTS_PARSED)) == 1


async def test_what_can_never_be_saved_is_rejected_and_does_not_hold_up_the_rest(desk: Desk, save: Save) -> None:
    naive = datetime(2026, 11, 1, 12, tzinfo=UTC).replace(tzinfo=None)
    events = [
        replace(foreign(), post_id=post(99).id),
        foreign(channel_id=12345),
        foreign(0),
        foreign(channel_id=-100),
        replace(foreign(6), posted_at=naive),
        foreign(7),
    ]
    outcomes = await save(events)
    assert [type(outcome) for outcome in outcomes] == [Reject] * 5 + [Done]
    wrong_id, unknown, zero, negative, no_zone = (str(outcome) for outcome in outcomes[:5])
    assert f"post_id must be {foreign().post_id}" in wrong_id
    assert "12345" in unknown
    assert "add the channel first" in unknown
    assert "positive" in zero
    assert "positive" in negative
    assert "no time zone" in no_zone
    assert [row.message_id for row in await desk.rows("SELECT message_id FROM posts")] == [7]


async def test_n15_what_no_message_of_telegram_can_be_is_rejected_and_its_channel_goes_on(
    desk: Desk, save: Save
) -> None:
    """An id that no request can name would become the channel's newest, and nothing would be read after it."""
    await desk.save(post(1, WEATHER))
    (before,) = await desk.rows(LEDGER)
    absurd = [
        foreign(2**31 + 5),
        foreign(2**31),
        foreign(2**80),
        foreign(channel_id=2**63),
        replace(foreign(), grouped_id=2**70),
        replace(foreign(), views=2**31),
        replace(foreign(), reactions={"🔥": -1}),
        replace(foreign(), posted_at=datetime(9999, 1, 1, tzinfo=UTC)),
    ]
    assert [type(outcome) for outcome in await save(absurd)] == [Reject] * len(absurd)
    (after,) = await desk.rows(LEDGER)
    assert after == before


@pytest.mark.parametrize("number", [5, 40_000, 2**31 - 1])
async def test_n15_what_others_tell_is_known_and_says_nothing_of_the_newest_id(
    desk: Desk, save: Save, number: int
) -> None:
    """A large one would be proven empty up to it, and the posts that come would be below the cursor."""
    await desk.save(post(1, WEATHER))
    (before,) = await desk.rows(LEDGER)
    assert await save([foreign(number)]) == [Done(note="saved for another producer")]
    (after,) = await desk.rows(LEDGER)
    assert (after.newest_id, after.cursor_id, after.captured) == (before.newest_id, before.cursor_id, 2)
    ledger = await Channels(desk.database).ledger(CHANNEL)
    assert number in ledger.coverage
    assert (ledger.captured, ledger.empty, ledger.newest_id) == (2, 0, before.newest_id)


async def test_n15_a_post_whose_id_nothing_covers_is_shown_and_no_failure(desk: Desk) -> None:
    """As a former version saved what others told of."""
    await desk.save(post(1, WEATHER))
    await desk.change("UPDATE channels SET coverage = '{}'")
    ledger = await Channels(desk.database).ledger(CHANNEL)
    assert (ledger.captured, ledger.empty) == (1, 0)
