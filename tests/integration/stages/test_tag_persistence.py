"""`tag_persistence` (SPEC 4.6): the table ends the same, in whatever order and however often tags come (G2, G5)."""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

import pytest

from telegram_assistant.bus.stage import Done
from telegram_assistant.domain.events import PostParsed, PostTagged, Trigger
from telegram_assistant.domain.models import Entity, EntityKind
from telegram_assistant.names import POSTS_PARSED
from telegram_assistant.stages.tagging import TAGS, save_tags, tags_hash
from telegram_assistant.wiring.runtime import utc_now
from tests.integration.stages.desk import FOOTBALL, WEATHER, Desk, post

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="session")]


def tagged(event: PostParsed, trigger: Trigger, *tags: str) -> PostTagged:
    return PostTagged(
        trace_id=event.trace_id,
        occurred_at=utc_now(),
        idempotency_key=f"posts.tagged:{event.post_id}:{event.content_hash}:{trigger}",
        tenant_id=event.tenant_id,
        channel_id=event.channel_id,
        post_id=event.post_id,
        content_hash=event.content_hash,
        tags=tags,
        tags_hash=tags_hash(tags),
        topics=("weather",),
        entities=(Entity(EntityKind.PLACE, "Москва"),),
        language="ru",
        provider="local",
        model="m",
        latency_ms=1.0,
        trigger=trigger,
    )


async def save(desk: Desk, events: list[PostTagged], *, together: bool) -> None:
    for some in [events] if together else [[one] for one in events]:
        await save_tags(some, enrichments=desk.enrichments)


async def stored(desk: Desk, event: PostParsed) -> dict[str, Any]:
    (row,) = (await desk.enrichments.of_posts(TAGS, [event.post_id])).values()
    return dict(row.data)


async def test_tags_are_kept_whole_and_a_repeat_changes_nothing(desk: Desk) -> None:
    await desk.save(post(1, WEATHER))
    (event,) = await desk.told(POSTS_PARSED)
    first = tagged(event, Trigger.INITIAL, "погода", "прогноз")
    assert await save_tags([first], enrichments=desk.enrichments) == [Done(note="saved")]
    before = await desk.rows("SELECT kind, provider, content_hash, updated_at FROM post_enrichment")
    assert await save_tags([first, first], enrichments=desk.enrichments) == [Done(note="known, or out of date")] * 2
    assert await desk.rows("SELECT kind, provider, content_hash, updated_at FROM post_enrichment") == before
    assert (before[0].kind, before[0].provider, before[0].content_hash) == ("tags", "local", event.content_hash)
    assert await stored(desk, event) == {
        "tags": ["погода", "прогноз"],
        "tags_hash": tags_hash(["прогноз", "погода"]),
        "topics": ["weather"],
        "entities": [{"kind": "place", "name": "Москва"}],
        "language": "ru",
        "model": "m",
        "trigger": "initial",
        "rank": 0,
    }


async def test_what_knew_more_stays_in_any_order(desk: Desk) -> None:
    """Tags that know what vision saw are not overwritten by a late initial event, nor a person's by either."""
    triggers = [*permutations((Trigger.INITIAL, Trigger.VISION_RETAG, Trigger.MANUAL))]
    cases = list(product([*triggers, *permutations((Trigger.INITIAL, Trigger.VISION_RETAG))], (True, False)))
    await desk.save(*(post(number + 1, WEATHER) for number in range(len(cases))))
    for (order, together), event in zip(cases, await desk.told(POSTS_PARSED), strict=True):
        batch = [tagged(event, trigger, trigger) for trigger in order]
        await save(desk, batch, together=together)
        best = "manual" if Trigger.MANUAL in order else "vision_retag"
        assert (await stored(desk, event))["tags"] == [best]


async def test_tags_of_words_that_the_post_no_longer_has_change_nothing(desk: Desk) -> None:
    """A late event of the older words loses even if it knew more: also in one batch with the newer ones."""
    for number, (newer_first, together) in enumerate(product((True, False), (True, False)), 1):
        await desk.save(post(number, WEATHER))
        (before,) = await desk.told(POSTS_PARSED)
        await desk.save(post(number, FOOTBALL))
        (after,) = await desk.told(POSTS_PARSED)
        older, newer = tagged(before, Trigger.VISION_RETAG, "погода"), tagged(after, Trigger.INITIAL, "футбол")
        await save(desk, [newer, older] if newer_first else [older, newer], together=together)
        assert (await stored(desk, after))["tags"] == ["футбол"]
        row = (await desk.enrichments.of_posts(TAGS, [after.post_id]))[after.post_id]
        assert row.content_hash == after.content_hash


async def test_an_edited_post_begins_anew(desk: Desk) -> None:
    """The rank of older words does not protect their tags."""
    await desk.save(post(1, WEATHER))
    (before,) = await desk.told(POSTS_PARSED)
    await save_tags([tagged(before, Trigger.MANUAL, "погода")], enrichments=desk.enrichments)
    await desk.save(post(1, FOOTBALL))
    (after,) = await desk.told(POSTS_PARSED)
    await save_tags([tagged(after, Trigger.INITIAL, "футбол")], enrichments=desk.enrichments)
    assert (await stored(desk, after))["tags"] == ["футбол"]


async def test_a_post_that_is_gone_is_no_trouble(desk: Desk) -> None:
    await desk.save(post(1, WEATHER))
    (event,) = await desk.told(POSTS_PARSED)
    await desk.change("DELETE FROM posts")
    outcomes = await save_tags([tagged(event, Trigger.INITIAL, "погода")], enrichments=desk.enrichments)
    assert outcomes == [Done(note="known, or out of date")]
    assert await desk.rows("SELECT 1 FROM post_enrichment") == []
