"""`vision_analysis` (SPEC 4.3): every picture of a post, once per file, whoever posted it and whenever it arrives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from telegram_assistant.ai.spend import FREE, ModelBudget, ModelLimits, paid
from telegram_assistant.ai.vision.ocr import find_trained_data
from telegram_assistant.ai.vision.policy import NsfwAction, Policy, load_policy
from telegram_assistant.bus.stage import Done, Outcome
from telegram_assistant.domain.models import Classification, Describer, Identity, Ocr, Picture, Seen
from telegram_assistant.domain.post import Media, MediaKind, Post
from telegram_assistant.errors import Reject, Retry, Skip
from telegram_assistant.names import MEDIA_SETTLED, POSTS_PARSED
from telegram_assistant.stages.vision_analysis import VISION, Vision, analyse_posts
from telegram_assistant.wiring.runtime import utc_now
from tests.integration.stages.desk import FOOTBALL, SYSTEM, WEATHER, Desk, clouds, drawing, events_of, photo, post
from tests.pipeline_state import used_since

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="session")]

Local = Any  # of conftest.py, which cannot be imported
OTHER_TENANT = UUID(int=7)
PAINTER = Identity("remote", "painter", "1")
READS_ENGLISH = "eng" in getattr(find_trained_data(), "languages", ())


@dataclass
class Painter:
    """A model elsewhere, as far as it answers at all."""

    failure: Exception | None = None
    budget: ModelBudget | None = None
    identity: Identity = PAINTER
    pictures: list[str] = field(default_factory=list)

    async def describe(self, picture: Picture) -> Seen:
        async with paid(self.budget, PAINTER, "describe", FREE, 1_500) as spending:
            self.pictures.append(picture.sha256)
            if self.failure is not None:
                raise self.failure
            spending.add(900, 100)
        return Seen(
            classification=Classification.PHOTO,
            description="clouds",
            ocr=Ocr(text="", engine="painter", confidence=1.0),
            provider="remote",
            model="painter",
            usage=spending.usage(),
        )


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = utc_now()

    def __call__(self) -> datetime:
        return self.now


@dataclass
class Eyes:
    """The stage with all that it needs."""

    desk: Desk
    local: Local
    clock: Clock = field(default_factory=Clock)

    def vision(self, remote: Describer | None = None, policy: Policy | None = None, tokens: int = 250_000) -> Vision:
        limits = ModelLimits(vision_per_day=tokens)
        budget = ModelBudget(self.desk.budgets, self.desk.usage, limits, clock=self.clock, chance=lambda: 0.0)
        if isinstance(remote, Painter):
            remote.budget = budget
        return Vision(
            local=self.local.vision,
            remote=remote,
            pictures=self.desk.pictures,
            store=self.desk.media,
            policy=policy or load_policy(),
            budgets=self.desk.budgets,
            clock=self.clock,
        )

    async def look(self, events: Sequence[Any], vision: Vision) -> list[Outcome]:
        return await analyse_posts(
            events, vision=vision, stored_posts=self.desk.stored_posts, enrichments=self.desk.enrichments
        )

    async def findings(self, one: Post) -> list[dict[str, Any]]:
        rows = await self.desk.enrichments.of_posts(VISION, [one.id])
        return list(rows[one.id].data["pictures"])


@pytest.fixture
def eyes(desk: Desk, local: Local) -> Eyes:
    return Eyes(desk, local)


async def test_a_post_waits_for_its_files_and_is_told_with_the_last(eyes: Eyes) -> None:
    desk, one = eyes.desk, photo(1, WEATHER, files=2)
    await desk.save(one)
    vision = eyes.vision()
    (early,) = await eyes.look(await desk.told(POSTS_PARSED), vision)
    assert isinstance(early, Skip)
    assert "2 of its files are still on their way" in str(early)
    first = await desk.store(one, drawing(1))
    (still,) = await eyes.look(await desk.told(MEDIA_SETTLED), vision)
    assert isinstance(still, Skip)
    assert "1 of its files" in str(still)
    second = await desk.store(one, drawing(2), position=1)
    (settled,) = await desk.told(MEDIA_SETTLED)
    (analyzed,) = events_of(await eyes.look([settled], vision))
    assert (analyzed.post_id, analyzed.content_hash) == (one.id, one.content_hash)
    assert (analyzed.pictures, analyzed.left_out) == (2, 0)
    assert [(found["sha256"], found["seen"]) for found in await eyes.findings(one)] == [(first, True), (second, True)]
    known = await desk.pictures.by_hash([first, second], eyes.local.vision.identity)
    assert set(known) == {first, second}
    assert all(seen.dominant_colors for seen in known.values())


async def test_a_file_that_comes_before_any_stage_is_on_the_way_of_its_post(eyes: Eyes) -> None:
    """A slow worker reads both events, and the post has one trace all the same, also after an edit."""
    desk = eyes.desk
    for one in (photo(1, WEATHER), photo(1, "Завтра гроза, и это уже точно.")):
        await desk.save(one)
        (parsed,) = await desk.told(POSTS_PARSED)
        await desk.store(one, drawing(1))
        (settled,) = await desk.told(MEDIA_SETTLED)
        assert settled.trace_id == parsed.trace_id


@pytest.mark.skipif(not READS_ENGLISH, reason="no eng.traineddata: scripts/tessdata could not fetch it here")
async def test_words_on_a_picture_are_read(eyes: Eyes) -> None:
    one = photo(1)
    await eyes.desk.save(one)
    sha256 = await eyes.desk.store(one, drawing(1, words=["The central bank kept", "its key rate on Friday"]))
    await eyes.look(await eyes.desk.told(MEDIA_SETTLED), eyes.vision())
    assert "central bank" in (await eyes.desk.pictures.by_hash([sha256]))[sha256].words


async def test_a_file_that_never_came_is_left_out_with_its_reason_and_the_post_is_told(eyes: Eyes) -> None:
    """LESSONS 19, 20."""
    desk = eyes.desk
    skipped, failed, mixed = photo(1), photo(2), photo(3, files=2)
    await desk.save(skipped, failed, mixed)
    await desk.skip(skipped, "larger than 15 MB")
    await desk.fail(failed, "Telegram has no such file any more")
    await desk.store(mixed, drawing(3))
    await desk.fail(mixed, "gone", position=1)
    outcomes = await eyes.look(await desk.told(MEDIA_SETTLED), eyes.vision())
    told = {event.post_id: (event.pictures, event.left_out) for event in events_of(outcomes)}
    assert told == {skipped.id: (0, 1), failed.id: (0, 1), mixed.id: (1, 1)}
    assert [(found["rule"], found["reason"]) for found in await eyes.findings(skipped)] == [
        ("skipped", "larger than 15 MB")
    ]
    assert [(found["rule"], found["reason"]) for found in await eyes.findings(failed)] == [
        ("failed", "Telegram has no such file any more")
    ]
    notes = [outcome.note for outcome in outcomes if isinstance(outcome, Done)]
    assert "0 seen; photo: larger than 15 MB" in notes


async def test_what_has_no_files_or_is_gone_or_out_of_date_is_passed_over(eyes: Eyes) -> None:
    desk = eyes.desk
    plain, gone, edited = post(1, WEATHER), photo(2), photo(3, WEATHER)
    await desk.save(plain, gone, edited)
    events = await desk.told(POSTS_PARSED)
    await desk.store(edited, drawing(1))
    await desk.delete(gone)
    await desk.save(photo(3, FOOTBALL))
    outcomes = await eyes.look(events, eyes.vision())
    assert [type(outcome) for outcome in outcomes] == [Skip] * 3
    assert [str(outcome) for outcome in outcomes] == [
        "",  # none of its business: no step is kept
        "the post is gone",
        "the post was edited meanwhile, and comes again",
    ]
    assert await desk.rows("SELECT 1 FROM post_enrichment") == []


async def test_a_picture_of_two_posts_and_two_tenants_is_looked_at_once_even_at_the_same_time(eyes: Eyes) -> None:
    """G2: by its SHA-256. A model that costs is not asked twice."""
    desk, painter = eyes.desk, Painter()
    await desk.change("INSERT INTO tenants (id, name) VALUES (:id, 'other')", id=OTHER_TENANT)
    await desk.open_channel(78, username=None, tenant=OTHER_TENANT)
    posts = photo(1), photo(2), photo(1, channel_id=78)
    for one in posts:
        await desk.save(one)
        await desk.store(one, clouds(1))
    vision = eyes.vision(painter)
    events = await desk.told(MEDIA_SETTLED)
    told = events_of(await eyes.look(events, vision))
    assert [event.pictures for event in told] == [1, 1, 1]
    assert {event.tenant_id for event in told} == {SYSTEM, OTHER_TENANT}
    assert len(painter.pictures) == 1
    again = events_of(await eyes.look([*events, events[0]], vision))
    assert [event.idempotency_key for event in again[:3]] == [event.idempotency_key for event in told]
    assert len(painter.pictures) == 1
    assert len(await desk.rows("SELECT 1 FROM picture_results")) == 1
    assert len(await desk.rows("SELECT 1 FROM post_enrichment WHERE kind = 'vision'")) == 3


async def test_the_same_picture_in_another_size_shares_the_result_and_another_one_does_not(eyes: Eyes) -> None:
    desk, painter = eyes.desk, Painter()
    vision = eyes.vision(painter)
    for number, content in enumerate((clouds(1), clouds(1, (240, 160)), clouds(2)), 1):
        one = photo(number)
        await desk.save(one)
        await desk.store(one, content)
        assert len(events_of(await eyes.look(await desk.told(MEDIA_SETTLED), vision))) == 1
    assert len(painter.pictures) == 2
    rows = await desk.rows("SELECT shared FROM picture_results ORDER BY created_at")
    assert [row.shared for row in rows] == [False, True, False]
    (used,) = await used_since(desk.database, SYSTEM, datetime.min.replace(tzinfo=utc_now().tzinfo))
    assert (used.calls, used.tokens) == (2, 2000)


async def test_an_edit_that_keeps_the_picture_does_not_look_again(eyes: Eyes) -> None:
    """G5: through again, but only where the content changed."""
    desk, painter, one = eyes.desk, Painter(), photo(1, WEATHER)
    vision = eyes.vision(painter)
    await desk.save(one)
    await desk.store(one, clouds(1))
    await eyes.look(await desk.told(MEDIA_SETTLED), vision)
    edited = photo(1, FOOTBALL)
    await desk.save(edited)
    await desk.adopt()
    (event,) = events_of(await eyes.look(await desk.told(MEDIA_SETTLED), vision))
    assert event.content_hash == edited.content_hash != one.content_hash
    assert len(painter.pictures) == 1
    (row,) = await desk.rows("SELECT content_hash FROM post_enrichment WHERE kind = 'vision'")
    assert row.content_hash == edited.content_hash


async def test_the_policy_says_no_and_why(eyes: Eyes) -> None:
    desk = eyes.desk
    policy = replace(load_policy(), skip_channels=frozenset({"news"}))
    painter, one, video = Painter(), photo(1), post(2, media=(Media(kind=MediaKind.VIDEO, file_id="v"),))
    await desk.save(one, video)
    await desk.store(one, clouds(1))
    await desk.store(video, b"moving", mime="video/mp4")
    events = await desk.told(MEDIA_SETTLED)
    (first, _) = events_of(await eyes.look(events, eyes.vision(painter, policy)))
    assert (first.pictures, first.left_out) == (0, 1)
    (found,) = await eyes.findings(one)
    assert (found["seen"], found["rule"], found["reason"]) == (False, "skip_channels", "pictures of @news are skipped")
    (second,) = events_of(await eyes.look([events[1]], eyes.vision(painter)))
    assert second.left_out == 1
    assert (await eyes.findings(video))[0]["rule"] == "types"
    assert painter.pictures == []


async def test_of_an_album_the_first_pictures_are_looked_at(eyes: Eyes) -> None:
    desk = eyes.desk
    items = [photo(number, grouped_id=900) for number in (1, 2, 3)]
    await desk.save(*items, upto=3)
    for number, one in enumerate(items):
        await desk.store(one, drawing(number))
    policy = replace(load_policy(), per_album=2)
    outcomes = await eyes.look(await desk.told(MEDIA_SETTLED), eyes.vision(policy=policy))
    assert [(event.pictures, event.left_out) for event in events_of(outcomes)] == [(1, 0), (1, 0), (0, 1)]
    assert {event.grouped_id for event in events_of(outcomes)} == {900}
    assert (await eyes.findings(items[2]))[0]["rule"] == "per_album"


async def test_without_budget_a_post_waits_for_the_next_day_and_says_so(eyes: Eyes) -> None:
    """It fails closed: no result stands for a refusal (G4). What costs nothing goes on."""
    desk, painter = eyes.desk, Painter()
    one, plain = photo(1), photo(2)
    await desk.save(one, plain)
    await desk.store(one, clouds(1))
    await desk.skip(plain, "too large")
    vision = eyes.vision(painter, tokens=2000)
    first = photo(3)
    await desk.save(first)
    await desk.store(first, clouds(3))
    events = await desk.told(MEDIA_SETTLED)
    (paid,) = await eyes.look(events[2:], vision)
    assert isinstance(paid, Done)
    refused, free = await eyes.look(events[:2], vision)
    assert isinstance(refused, Retry)
    assert "1000 of 2000" in str(refused)
    midnight = (eyes.clock.now + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    assert refused.after == pytest.approx((midnight - eyes.clock.now).total_seconds())
    assert isinstance(free, Done)
    assert await desk.enrichments.of_posts(VISION, [one.id]) == {}
    eyes.clock.now = midnight + timedelta(seconds=1)
    (later,) = events_of(await eyes.look(events[:1], vision))
    assert later.pictures == 1


async def test_a_model_that_is_away_means_later_and_what_it_cannot_see_is_left_out(eyes: Eyes) -> None:
    """LESSONS 19."""
    desk, one = eyes.desk, photo(1)
    await desk.save(one)
    await desk.store(one, clouds(1))
    events = await desk.told(MEDIA_SETTLED)
    (away,) = await eyes.look(events, eyes.vision(Painter(Retry("the server is away"))))
    assert isinstance(away, Retry)
    assert await desk.enrichments.of_posts(VISION, [one.id]) == {}
    (told,) = events_of(await eyes.look(events, eyes.vision(Painter(Reject("it refuses this picture")))))
    assert (told.pictures, told.left_out) == (0, 1)
    (found,) = await eyes.findings(one)
    assert (found["seen"], found["rule"], found["reason"]) == (False, "content", "it refuses this picture")
    (well,) = events_of(await eyes.look(events, eyes.vision(Painter())))
    assert well.pictures == 1
    assert (await eyes.findings(one))[0]["seen"] is True


async def test_spec_4_3_a_result_says_how_many_tokens_it_took(eyes: Eyes) -> None:
    desk, one = eyes.desk, photo(1)
    await desk.save(one)
    sha256 = await desk.store(one, clouds(1))
    painter = Painter()
    await eyes.look(await desk.told(MEDIA_SETTLED), eyes.vision(painter))
    [(kept,)] = await desk.rows("SELECT data->>'tokens_used' FROM picture_results")
    seen = (await desk.pictures.by_hash([sha256], painter.identity))[sha256]
    assert int(kept) == seen.tokens_used == seen.usage.tokens_in + seen.usage.tokens_out > 0


async def test_what_only_calls_itself_a_picture_is_left_out(eyes: Eyes) -> None:
    """G6."""
    one = photo(1)
    await eyes.desk.save(one)
    await eyes.desk.store(one, b"<svg onload=alert(1)>" * 50)
    (told,) = events_of(await eyes.look(await eyes.desk.told(MEDIA_SETTLED), eyes.vision()))
    assert (told.pictures, told.left_out) == (0, 1)
    assert (await eyes.findings(one))[0]["rule"] == "content"


async def test_what_is_not_for_all_eyes_stays_here_and_is_measured_once(eyes: Eyes) -> None:
    desk, painter = eyes.desk, Painter()
    policy = replace(load_policy(), nsfw_action=NsfwAction.LOCAL, nsfw_threshold=0.0)
    vision = eyes.vision(painter, policy)
    made = []
    for number in (1, 2):
        one = photo(number)
        await desk.save(one)
        await desk.store(one, clouds(1))
        await eyes.look(await desk.told(MEDIA_SETTLED), vision)
        made += await desk.rows("SELECT identity, created_at FROM picture_results")
        assert (await eyes.findings(one))[0]["rule"] == "nsfw"
    assert painter.pictures == []
    assert made[0] == made[1]
    assert made[0].identity == str(eyes.local.vision.identity)
