"""What models get of a post: bounded, visible, and only its words."""

# ruff: noqa: RUF001 - the posts are Russian
from __future__ import annotations

import pytest

from telegram_assistant.language.clean import pieces_of, plain, sentences_of, visible, words_of

pytestmark = pytest.mark.unit


def test_what_no_eye_sees_goes() -> None:
    hidden = "при\u200bвет\u202e мир\ufeff\x00\U000e0041\U000e0042 \u2066дом\u2069"
    assert visible(hidden) == "привет мир дом"


def test_invisible_characters_do_not_eat_the_limit() -> None:
    assert visible("\u200b" * 5 + "words", limit=5) == "words"
    assert len(visible("\u200b" * 10_000_000 + "x" * 10_000_000, limit=100)) <= 100


def test_lone_surrogates_become_readable() -> None:
    assert visible("a\ud800b").encode() == "a\ufffdb".encode() or visible("a\ud800b") == "ab"


def test_addresses_names_marks_and_emoji_are_no_words() -> None:
    post = (
        "**Курс** [доллара](https://cbr.ru/?a=1) вырос 🔥🔥 пишет @banksta, см. https://t.me/x и a@site.ru или rbc.ru/n"
    )
    assert words_of(plain(post)) == ["Курс", "доллара", "вырос", "пишет", "см", "и", "или"]


def test_a_hashtag_is_its_word() -> None:
    assert words_of(plain("#биткоин растёт")) == ["биткоин", "растёт"]


@pytest.mark.parametrize(
    "signature", ["👉 Топор Live. Подписаться", "🔴 Подписаться | Прислать новость", "Subscribe to us"]
)
def test_the_channels_signature_is_not_the_posts(signature: str) -> None:
    assert plain(f"Новость дня.\n\n{signature}") == "Новость дня."


def test_a_post_that_only_speaks_of_subscribing_is_kept() -> None:
    assert "Подписаться" in plain("Подписаться на газету стало дороже")


def test_words_keep_hyphens_and_apostrophes() -> None:
    assert words_of("Ростов-на-Дону, don't -- 5G") == ["Ростов-на-Дону", "don't", "5G"]


def test_sentences_end_at_stops_and_lines() -> None:
    text = "Цена 3.5 млн руб. за штуку. Это много! «Да», — сказал он.\nКонец"
    assert sentences_of(text) == ["Цена 3.5 млн руб. за штуку.", "Это много!", "«Да», — сказал он.", "Конец"]


def test_pieces_are_whole_sentences_and_bounded() -> None:
    text = "Первое предложение. Второе предложение. " + "Слово" * 100
    pieces = pieces_of(text, 50)
    assert pieces[0] == "Первое предложение. Второе предложение."
    assert max(map(len, pieces)) <= 100
    assert pieces_of("", 50) == []


def test_remains_of_a_web_page_are_no_words() -> None:
    copied = (
        '<p>Рост&nbsp;цен</p> <img src="https://example.org/a.png?utm_source=x" alt="рис"> 2 < 3 <a href="/x">тут</a>'
    )
    assert words_of(plain(copied)) == ["Рост", "цен", "2", "3", "тут"]
