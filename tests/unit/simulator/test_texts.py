"""Texts: entities cut the right words, sentences agree, stories are told in other words."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telegram_simulator.draft import CAPTION_LIMIT, POST_LIMIT, Draft, clip, shifted, units
from telegram_simulator.model import Channel, Entity
from telegram_simulator.phrasebook import LANGUAGES, phrasebook, plots
from telegram_simulator.texts import Pen, Story, headline, link_to, new_story, story_of
from telegram_simulator.voices import TOPICS, voice_of

pytestmark = pytest.mark.unit

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)


def seeded(number: int) -> Random:
    return Random(number)


def cut(text: str, entity: Entity) -> str:
    """What Telegram would format: code units, not characters."""
    raw = text.encode("utf-16-le")
    return raw[2 * entity.offset : 2 * (entity.offset + entity.length)].decode("utf-16-le")


def pen(number: int, *, topic: str = "news", language: str = "ru") -> Pen:
    channel = Channel(1000 + number, 1, "x", "some_channel", NOW, language=language, topic=topic)
    return Pen(voice_of(channel), seeded(number), username="some_channel", link_host="https://pages.test")


def story(number: int, topic: str) -> Story:
    return new_story(seeded(number), topic, number, 1, NOW)


@given(st.lists(st.tuples(WORDS, st.sampled_from(["", "bold", "italic", "code"])), min_size=1, max_size=12))
def test_entities_cut_the_pieces_they_were_given(pieces: list[tuple[str, str]]) -> None:
    draft = Draft()
    for text, kind in pieces:
        draft.add(text, kind)
    text, entities = draft.written()
    assert text == "".join(piece for piece, _ in pieces)
    assert [(cut(text, e), e.kind) for e in entities] == [(piece, kind) for piece, kind in pieces if kind]


@given(WORDS, st.lists(WORDS, min_size=1, max_size=20), st.integers(2, 60))
def test_clipped_text_keeps_its_limit_and_its_entities_inside(head: str, words: list[str], limit: int) -> None:
    draft = Draft(limit=10**6)
    draft.add(head)
    for word in words:
        draft.add(word, "bold")
    whole, all_entities = draft.written()
    text, entities = clip(whole, all_entities, limit)
    assert units(text) <= limit
    text.encode("utf-8")  # no half of a surrogate pair is left
    assert all(e.length > 0 and e.offset + e.length <= units(text) for e in entities)
    if units(whole) <= limit:
        assert (text, entities) == (whole, all_entities)
    else:
        assert whole.startswith(text[:-1])


def test_offsets_count_utf16_after_an_emoji() -> None:
    draft = Draft()
    draft.add("🚀 ")
    draft.add("жирно", "bold")
    text, (bold,) = draft.written()
    assert (bold.offset, bold.length) == (3, 5)
    assert text.index("жирно") == 2  # a code point earlier


def test_shifted_entities_still_cut_the_same_words() -> None:
    entities = shifted((Entity("bold", 0, 4),), units("❗️🙂 "))
    assert cut("❗️🙂 word", entities[0]) == "word"


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("topic", TOPICS)
def test_every_story_can_be_told(language: str, topic: str) -> None:
    events = [story_of(kind, seeded(1), 1, 1, NOW) for kind, plot in plots().items() if plot.event]
    for number, told in enumerate([*(story(number, topic) for number in range(40)), *events]):
        text, entities = pen(number, topic=topic, language=language).tell(told, caption=True)
        assert text == text.strip()
        assert units(text) <= CAPTION_LIMIT
        assert not set("{}~|") & set(text)
        for entity in entities:
            words = cut(text, entity)
            assert words == words.strip()
            assert words
            assert entity.kind != "hashtag" or words[0] == "#"
            assert entity.kind != "mention" or words[0] == "@"
            assert entity.kind != "url" or words == link_to(told, "https://pages.test")
            assert entity.kind != "text_url" or entity.url == link_to(told, "https://pages.test")


def test_both_languages_have_the_same_words_and_kinds() -> None:
    ru, en = phrasebook("ru"), phrasebook("en")
    assert ru.kinds.keys() == en.kinds.keys() == plots().keys()
    assert ru.phrases.keys() == en.phrases.keys()
    for kind in plots():
        for book in (ru, en):
            facts = {t.fact: t.words for s in book.kinds[kind].headlines for t in s if t.words}
            for fact, words in facts.items():
                assert len(words) == plots()[kind].words[fact][1], (book.language, kind, fact)
    assert {plot.topic for plot in plots().values()} == set(TOPICS)


@pytest.mark.parametrize(
    "number,expected",
    [(1, "день"), (2, "дня"), (5, "дней"), (11, "дней"), (14, "дней"), (21, "день"), (112, "дней"), (133, "дня")],
)
def test_russian_nouns_agree_with_numbers(number: int, expected: str) -> None:
    assert phrasebook("ru").agree(number, ("день", "дня", "дней")) == expected


def test_numbers_are_written_as_the_language_does() -> None:
    assert phrasebook("ru").number(12400) == "12\N{NO-BREAK SPACE}400"
    assert phrasebook("en").number(12400) == "12,400"
    assert (phrasebook("ru").number(4.7), phrasebook("en").number(4.7)) == ("4,7", "4.7")


def test_a_story_is_told_in_other_words_but_with_the_same_facts() -> None:
    told = next(s for s in (story(n, "city") for n in range(50)) if s.kind == "route")
    texts = {pen(number, topic="city").tell(told)[0] for number in range(12)}
    assert len(texts) == 12
    assert all(f"№ {told.facts['a']}" in text or "№" not in text for text in texts)
    lines = {headline(told, "ru", seeded(number)) for number in range(30)}
    assert len(lines) > 2


def test_a_digest_of_many_stories_is_long_and_keeps_the_limit() -> None:
    lengths = []
    for number in range(30):
        text, entities = pen(number).digest([story(n, TOPICS[n % 7]) for n in range(24)])
        lengths.append(units(text))
        assert all(cut(text, e) for e in entities)
    assert max(lengths) > 3500
    assert max(lengths) <= POST_LIMIT


def test_an_amended_text_is_another_with_its_entities_in_place() -> None:
    writer = pen(5)
    for number in range(40):
        text, entities = writer.tell(story(number, "tech"))
        before = [cut(text, e) for e in entities]
        later, moved = writer.amend(text, entities, POST_LIMIT)
        assert later != text
        assert [cut(later, e) for e in moved] == before
    assert writer.amend("я" * POST_LIMIT, (), POST_LIMIT)[0] != "я" * POST_LIMIT
    assert units(writer.amend("", (), CAPTION_LIMIT)[0]) > 0
