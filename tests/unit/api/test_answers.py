"""Answers are made from our values: names that differ, what is left out, and what is worked out."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest

from telegram_assistant.domain.alerting import Action, Delivery, Notice, NoticeState, Topic
from telegram_assistant.domain.channel import Advice
from telegram_assistant.domain.ledger import Coverage, LedgerState
from telegram_assistant.http.answers import page_of
from telegram_assistant.http.api.alerts import DeliveryOut, NoticeOut, WatchedPostOut
from telegram_assistant.http.api.channel_details import MOST_HOLES, LedgerAnswer
from telegram_assistant.http.api.channels import RequestAnswer
from telegram_assistant.http.api.media import EvictedAnswer, MeasuredAnswer
from telegram_assistant.http.api.trends import StepOut
from telegram_assistant.services.problems import Problem
from telegram_assistant.services.upkeep import known_stage
from telegram_assistant.stores.postgres.media import Evicted
from telegram_assistant.stores.postgres.storage import Measured
from telegram_assistant.stores.postgres.trends import TrendPost
from telegram_assistant.stores.postgres.watched_channels import Request
from telegram_assistant.stores.postgres.watched_posts import WatchedPost

pytestmark = pytest.mark.unit

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
ONE, TWO = UUID(int=1), UUID(int=2)


def test_a_notice_says_whom_it_is_for_and_keeps_to_itself_what_is_left() -> None:
    notice = Notice(
        id=ONE,
        tenant_id=TWO,
        user_id=None,
        topic=Topic.CHANNEL,
        key="channel:7",
        state=NoticeState.OPEN,
        content={"code": "holes", "left": 3},
        since=NOW,
        opened_at=NOW,
        resolved_at=None,
        read_at=None,
    )
    told = NoticeOut.model_validate(notice).model_dump(mode="json")
    assert (told["for_all"], told["content"], told["state"]) == (True, {"code": "holes"}, "open")


def test_a_delivery_names_its_place_and_topic() -> None:
    sent = Delivery(
        id=ONE,
        channel_id=TWO,
        tenant_id=ONE,
        dedup_key="channel:7",
        action=Action.RESOLVE,
        content={"topic": "channel"},
        state="dead",
        attempts=6,
        due_at=NOW,
        created_at=NOW,
        delivered_at=None,
        error="gone",
    )
    told = DeliveryOut.model_validate(sent)
    assert (told.place_id, told.topic, told.key, told.action) == (TWO, "channel", "channel:7", Action.RESOLVE)


def test_names_that_differ() -> None:
    watched = WatchedPostOut.model_validate(WatchedPost(ONE, "News", "https://t.me/news/1", False, NOW))
    assert (watched.channel, watched.watched_since) == ("News", NOW)
    assert MeasuredAnswer.model_validate(Measured(NOW, "media", 10, 3)).count == 3
    evicted = Evicted("a" * 64, 12, NOW, ONE, "pending", "photo", None, "News")
    told = EvictedAnswer.model_validate(evicted)
    assert (told.bytes, told.post_id, told.on_its_way) == (12, str(ONE), True)


def test_a_step_of_a_trend_names_its_source() -> None:
    post = TrendPost(
        post_id=ONE,
        channel_id=7,
        channel_title="News",
        channel_username="news",
        message_id=5,
        posted_at=NOW,
        text="words",
        views=None,
        source_id=TWO,
        forwarded=True,
        origin="Agency",
    )
    told = StepOut.model_validate(post)
    assert (told.channel, told.url, told.copy_of, told.forwarded_from) == (
        "News",
        "https://t.me/news/5",
        TWO,
        "Agency",
    )


def test_holes_are_named_up_to_a_number_and_the_others_counted() -> None:
    odd = Coverage.of_ids(range(1, 2 * MOST_HOLES + 11, 2))
    state = LedgerState(newest_id=2 * MOST_HOLES + 10, requested_from=1, coverage=odd, captured=MOST_HOLES)
    told = LedgerAnswer.model_validate(state)
    assert (len(told.holes), told.holes[0], told.more_holes) == (MOST_HOLES, (2, 2), 5)


@pytest.mark.parametrize(
    "channel_id, error, state, advice",
    [
        (7, None, "watched", Advice.NOTHING),
        (None, None, "requested", Advice.NOTHING),
        (None, "the channel is private", "failed", Advice.JOIN),
    ],
)
def test_a_wish_says_how_far_it_is(channel_id: int | None, error: str | None, state: str, advice: Advice) -> None:
    request = Request(1, ONE, TWO, "@news", channel_id, error, 2)
    told = RequestAnswer.model_validate(request)
    assert (told.state, told.error, request.advice) == (state, error, advice)
    assert bool(told.what_to_do) == (advice is not Advice.NOTHING)


def test_a_page_says_whether_there_is_another() -> None:
    assert page_of([1, 2, 3], 2, str, lambda last: f"after {last}").model_dump() == {
        "items": ["1", "2"],
        "next": "after 2",
    }
    assert page_of([1, 2], 2, str, str).next is None


def test_an_empty_name_is_no_stage() -> None:
    """It must not mean all of them: what is chosen may be dropped for good."""
    assert known_stage(None) is None
    with pytest.raises(Problem):
        known_stage("")
