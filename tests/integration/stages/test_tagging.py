"""`tagging` and `retagging` (SPEC 4.4, 4.5) with the real local models."""

from __future__ import annotations

from dataclasses import replace
from uuid import uuid4

import pytest

from telegram_assistant.bus.stage import Done
from telegram_assistant.bus.streams import Publisher
from telegram_assistant.domain.events import Trigger
from telegram_assistant.domain.models import Classification, Identity, Ocr, Seen, Tagged, Usage
from telegram_assistant.errors import Reject, Retry, Skip
from telegram_assistant.names import MEDIA_SETTLED, POSTS_PARSED, POSTS_RETAG
from telegram_assistant.stages.tagging import Tagging, ask_retag, retag_posts, tag_posts, tags_hash
from telegram_assistant.wiring.runtime import utc_now
from tests.integration.stages.desk import (
    FOOTBALL,
    WEATHER,
    Desk,
    analyzed,
    asked,
    drawing,
    events_of,
    photo,
    post,
)

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="session")]

WRITTEN = Seen(
    classification=Classification.DOCUMENT,
    ocr=Ocr(text=FOOTBALL, engine="tesseract", confidence=0.9),
    provider="local",
    model="test",
)


class Faulty:
    """A model that is away, or that cannot read one text."""

    identity = Identity("remote", "model-1", "prompt-1")

    def __init__(self, failures: dict[str, Exception]) -> None:
        self.failures = failures

    async def tag(self, text: str, seen: str = "") -> Tagged:
        if text in self.failures:
            raise self.failures[text]
        return Tagged(
            tags=("погода",), usage=Usage(tokens_in=100, tokens_out=10, cost=0.5, latency_ms=7), language=seen[:2]
        )


async def test_a_post_is_tagged_and_goes_on_with_its_links_and_trace(desk: Desk, tagging: Tagging) -> None:
    await desk.save(post(1, WEATHER))
    (event,) = await desk.told(POSTS_PARSED)
    (outcome,) = await tag_posts([event], tagging=tagging)
    (tagged,) = events_of([outcome])
    assert 3 <= len(tagged.tags) <= 5
    assert "weather" in tagged.topics
    assert {entity.name for entity in tagged.entities} >= {"Москва", "МГУ"}
    assert (tagged.language, tagged.provider, tagged.trigger) == ("ru", "local", Trigger.INITIAL)
    assert tagged.tags_hash == tags_hash(tagged.tags) == tags_hash(tagged.tags[::-1])
    assert (tagged.trace_id, tagged.content_hash) == (event.trace_id, event.content_hash)
    assert isinstance(outcome, Done)
    assert outcome.note == ", ".join(tagged.tags)


async def test_one_with_few_words_goes_on_without_tags_and_without_a_model(desk: Desk, tagging: Tagging) -> None:
    before = asked("tag")
    await desk.save(post(1, "Коротко."), post(2))
    outcomes = await tag_posts(await desk.told(POSTS_PARSED), tagging=tagging)
    assert [tagged.tags for tagged in events_of(outcomes)] == [(), ()]
    assert asked("tag") == before


async def test_the_same_event_twice_gives_the_same_tags_under_the_same_key(desk: Desk, tagging: Tagging) -> None:
    """G2."""
    await desk.save(post(1, WEATHER))
    (event,) = await desk.told(POSTS_PARSED)
    one, other = events_of(await tag_posts([event, event], tagging=tagging))
    assert (one.idempotency_key, one.tags, one.topics, one.entities) == (
        other.idempotency_key,
        other.tags,
        other.topics,
        other.entities,
    )


async def test_spec_8_a_post_is_tagged_again_when_somebody_asks_for_it(desk: Desk, tagging: Tagging) -> None:
    one, gone = post(1, WEATHER), post(2, FOOTBALL)
    await desk.save(one, gone)
    await desk.delete(gone)
    asked_for = [one.id, gone.id, uuid4()]
    for _ in range(2):
        assert await ask_retag(Publisher(desk.redis), desk.stored_posts, asked_for, utc_now) == [one.id]
    retags = await desk.told(POSTS_RETAG)
    told = events_of(await retag_posts(retags, tagging=tagging, stored_posts=desk.stored_posts, pictures=desk.pictures))
    assert [tagged.trigger for tagged in told] == [Trigger.MANUAL, Trigger.MANUAL]
    assert len({tagged.idempotency_key for tagged in told}) == 2, "each time it is asked for"
    assert 3 <= len(told[0].tags) <= 5
    await desk.save(post(1, FOOTBALL))
    (stale, *_) = await retag_posts(retags, tagging=tagging, stored_posts=desk.stored_posts, pictures=desk.pictures)
    assert isinstance(stale, Skip), "an edit brings the post again by itself"


async def test_an_edited_post_comes_again_and_one_that_only_counts_higher_does_not(desk: Desk) -> None:
    """G5."""
    await desk.save(post(1, WEATHER))
    (first,) = await desk.told(POSTS_PARSED)
    await desk.save(post(1, WEATHER, pinned=True))
    assert await desk.told(POSTS_PARSED) == []
    await desk.save(post(1, FOOTBALL))
    (edited,) = await desk.told(POSTS_PARSED)
    assert (edited.text, edited.trace_id == first.trace_id) == (FOOTBALL, False)
    assert edited.idempotency_key != first.idempotency_key


async def test_lesson_19_a_model_that_is_away_means_later_and_one_bad_post_is_alone(desk: Desk) -> None:
    tagger = Faulty({WEATHER: Retry("busy", after=7.0), FOOTBALL: Reject("cannot read this")})
    tagging = Tagging(tagger, desk.budgets, utc_now, min_chars=10)
    await desk.save(post(1, WEATHER), post(2, FOOTBALL), post(3, "Ещё один пост для модели"))
    away, refused, done = await tag_posts(await desk.told(POSTS_PARSED), tagging=tagging)
    assert isinstance(away, Retry)
    assert away.after == 7.0
    assert isinstance(refused, Reject)
    assert isinstance(done, Done)


async def test_retagging_knows_what_vision_read(desk: Desk, tagging: Tagging) -> None:
    one = photo(1, WEATHER)
    await desk.save(one)
    sha256 = await desk.store(one, drawing(1))
    await desk.pictures.put(sha256, WRITTEN, identity=Identity("local", "test"))
    (initial,) = events_of(await tag_posts(await desk.told(POSTS_PARSED), tagging=tagging))
    events = [analyzed(event) for event in await desk.told(MEDIA_SETTLED)]
    (again,) = events_of(
        await retag_posts(events, tagging=tagging, stored_posts=desk.stored_posts, pictures=desk.pictures)
    )
    assert again.trigger is Trigger.VISION_RETAG
    assert again.content_hash == initial.content_hash
    assert again.idempotency_key != initial.idempotency_key
    names = {entity.name for entity in again.entities}
    assert "Спартак" in names
    assert "Спартак" not in {entity.name for entity in initial.entities}


async def test_retagging_leaves_alone_what_vision_added_nothing_to(desk: Desk, tagging: Tagging) -> None:
    """Nothing read; the post is gone; the post says something else by now (G5)."""
    wordless, gone, edited = photo(1, WEATHER), photo(2, WEATHER), photo(3, WEATHER)
    await desk.save(wordless, gone, edited)
    for number, one in enumerate((wordless, gone, edited)):
        sha256 = await desk.store(one, drawing(number))
        seen = replace(WRITTEN, ocr=None) if one is wordless else WRITTEN
        await desk.pictures.put(sha256, seen, identity=Identity("local", "test"))
    events = [analyzed(event) for event in await desk.told(MEDIA_SETTLED)]
    await desk.delete(gone)
    await desk.save(photo(3, FOOTBALL))
    strange = replace(events[0], post_id=uuid4())
    before = asked("tag")
    outcomes = await retag_posts(
        [*events, strange], tagging=tagging, stored_posts=desk.stored_posts, pictures=desk.pictures
    )
    assert [type(outcome) for outcome in outcomes] == [Skip] * 4
    reasons = [str(outcome) for outcome in outcomes]
    assert reasons == [
        "vision added no words",
        "the post is gone",
        "the post was edited meanwhile, and comes again",
        "the post is gone",
    ]
    assert asked("tag") == before
