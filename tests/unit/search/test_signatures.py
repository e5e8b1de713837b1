"""Near duplicates are found, and posts of one form are told apart."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from telegram_assistant.language.lexemes import pieces
from telegram_assistant.language.signatures import BANDS, bands, likeness, same_story, signature

pytestmark = pytest.mark.unit

NEWS = (
    "Международный уголовный суд выдал ордер на арест премьера и бывшего министра обороны за предполагаемые военные"
    " преступления, сообщили в суде. Решение приняли трое судей единогласно, и страны обязаны исполнить."
)
RETOLD = (
    "Срочно! Международный уголовный суд выдал ордер на арест премьера и бывшего министра обороны за предполагаемые"
    " военные преступления, сообщили в суде. Решение приняли трое судей."
)
OTHER = (
    "Банк России в декабре может повысить ключевую ставку до двадцати трёх процентов, считает председатель правления"
    " банка. Рынок ждёт решения совета директоров, инфляция остаётся выше прогноза регулятора."
)
NOW = datetime(2026, 11, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Post:
    """As far as it matters for stories."""

    channel_id: int
    posted_at: datetime
    signature: bytes


def sign(text: str) -> bytes:
    return signature(list(pieces(text)))


def post(text: str, channel: int, *, days: int = 0) -> Post:
    return Post(channel, NOW + timedelta(days=days), sign(text))


def test_the_same_text_has_the_same_signature_for_ever() -> None:
    assert sign(NEWS) == sign(NEWS.upper())
    assert sign("раз два три четыре пять шесть семь восемь")[:8].hex() == "c53c3f23ec201605"


def test_likeness_is_about_what_texts_share() -> None:
    assert likeness(sign(NEWS), sign(NEWS)) == 1
    assert likeness(sign(NEWS), sign(OTHER)) < 0.1
    assert 0.5 < likeness(sign(NEWS), sign(RETOLD)) < 0.9


def test_near_duplicates_share_a_band() -> None:
    one, other = bands(sign(NEWS)), bands(sign(f"{NEWS} Подробности позже."))
    assert len(one) == BANDS
    assert set(one) & set(other)
    assert not set(one) & set(bands(sign(OTHER)))


def test_short_texts_are_no_stories() -> None:
    assert sign("Доброе утро, друзья") == b""
    assert bands(b"") == []
    assert likeness(b"", b"") == 0


def test_who_tells_the_same() -> None:
    assert same_story(post(NEWS, 1), post(RETOLD, 2, days=1))
    assert not same_story(post(NEWS, 1), post(RETOLD, 2, days=30)), "another time it is another story"
    assert not same_story(post(NEWS, 1), post(RETOLD, 1)), "a channel repeats its own forms"
    assert same_story(post(NEWS, 1), post(NEWS, 1, days=30)), "but not the whole text"
    assert not same_story(post(NEWS, 1), post(OTHER, 2))
