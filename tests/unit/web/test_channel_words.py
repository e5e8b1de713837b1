"""Why and how long, in words of both languages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from telegram_assistant.domain.polling import explain, observe
from telegram_assistant.domain.silence import report_gap
from telegram_assistant.http.web.page import span_of
from telegram_assistant.http.web.pages.channels import bar_of_silence, reasons
from telegram_assistant.i18n import LANGUAGES, load_texts
from telegram_assistant.ingest.polling import Explained, Why

pytestmark = pytest.mark.unit

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "seconds,expected",
    [
        (-5, ("base.seconds", 0)),
        (119, ("base.seconds", 119)),
        (120, ("base.minutes", 2)),
        (7199, ("base.minutes", 119)),
        (7200, ("base.hours", 2)),
        (172_800, ("base.days", 2)),
    ],
)
def test_spans_are_in_the_largest_fitting_unit(seconds: float, expected: tuple[str, int]) -> None:
    assert span_of(timedelta(seconds=seconds)) == expected


def test_silence_fills_its_bar_and_no_more() -> None:
    half = report_gap(NOW, NOW - timedelta(minutes=30), None)
    assert bar_of_silence(half) == 50.0
    assert bar_of_silence(report_gap(NOW, NOW - timedelta(days=30), None)) == 100.0
    assert bar_of_silence(None) == 0.0


def test_a_rhythm_is_explained_in_both_languages() -> None:
    posted = [NOW - timedelta(days=30) + timedelta(hours=number) for number in range(24 * 30)]
    rhythm = observe(None, posted, NOW)
    decision = explain(rhythm, NOW, 500.0, weight=2.0)
    explained = Explained(why=Why.RHYTHM, at=decision.at, every=300, decision=decision)
    said = reasons(explained)
    assert [key for key, _ in said][:2] == [f"channel.because_{decision.reason.value}", "channel.rate"]
    assert "channel.weight" in dict(said)
    for language in LANGUAGES:
        for key, values in said:
            assert "{" not in load_texts()(language, key, **values)
    assert explained.sentences() == decision.sentences()


@pytest.mark.parametrize("why", [why for why in Why if why is not Why.RHYTHM])
def test_every_other_reason_is_one_sentence(why: Why) -> None:
    explained = Explained(why=why, at=NOW, every=300, failures=3, error="it failed")
    ((key, values),) = reasons(explained)
    assert all(load_texts()(language, key, **values) for language in LANGUAGES)
    assert len(explained.sentences()) == 1
