"""Posts of one event are one story: in other words, in any order of arrival, and after an edit."""

# ruff: noqa: RUF001 - the posts are Russian

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from telegram_assistant.language.inflection import Inflection
from telegram_assistant.language.lexemes import Lexicon, pieces
from telegram_assistant.language.signatures import signature
from telegram_assistant.language.stories import EVEN, Rarity, Telling, gather, likeness, outline_of, place, typical

NOW = datetime(2024, 12, 3, 16, tzinfo=UTC)
LEXICON = Lexicon(Inflection())
MARTIAL_LAW = "Президент Южной Кореи Юн Сок Ёль объявил о введении военного положения, сообщает агентство Ренхап."
THE_SAME = (
    "⚡️Военное положение введено в Южной Корее. Об этом в экстренном обращении объявил президент страны Юн Сок Ёль. "
    "Парламент заблокирован, у здания собираются люди."
)
CABLE = "Между Швецией и Финляндией повреждён ещё один телекоммуникационный кабель, пишет Helsingin Sanomat."
RATES = "Курс доллара на сегодня: {} рублей. Курс евро: {} рублей. Данные Центробанка на утро."


def told(number: int, text: str, channel: int = 0, hours: float = 0, rarity: Rarity = EVEN) -> Telling:
    return Telling(
        post_id=UUID(int=number),
        channel_id=channel or number,
        posted_at=NOW + timedelta(hours=hours),
        signature=signature(list(pieces(text))),
        outline=outline_of(LEXICON.telling(text), rarity),
    )


def placed(*posts: Telling) -> list[UUID | None]:
    found: list[Telling] = []
    for post in posts:
        found.append(replace(post, story_id=place(post, found)))
    return [post.story_id for post in found]


def test_the_same_event_in_other_words_is_one_story() -> None:
    first, other, again = placed(told(1, MARTIAL_LAW), told(2, CABLE), told(3, THE_SAME, hours=1))
    assert first == again
    assert first != other


@pytest.mark.parametrize("hours", [-1, 40])
def test_a_post_that_comes_late_joins_and_one_of_another_day_does_not(hours: float) -> None:
    first, late = placed(told(1, MARTIAL_LAW), told(2, THE_SAME, hours=hours))
    assert (first == late) == (hours < 36)


def test_numbers_that_contradict_each_other_part_stories() -> None:
    assert not likeness(told(1, RATES.format("105", "110")), told(2, RATES.format("108", "113")))
    assert likeness(told(1, RATES.format("105", "110")), told(2, RATES.format("105", "110")))


def test_a_channel_that_repeats_its_forms_tells_new_stories() -> None:
    form = "Гость эфира сегодня: {}. Говорим про {}. Включайте вечером, вопросы ведущему присылайте заранее."
    words = form.format("историк Павел Кузнецов", "архивы"), form.format("экономист Ольга Белова", "налоги")
    one, other = told(1, words[0], channel=5), told(2, words[1], channel=5)
    assert not likeness(one, other)
    assert not likeness(one, replace(other, signature=b""))


def test_a_few_words_make_no_story() -> None:
    assert placed(told(1, "Доброе утро!"), told(2, "Доброе утро!")) == [None, None]


def test_an_edit_keeps_the_story_and_another_text_leaves_it() -> None:
    first = replace(told(1, MARTIAL_LAW), story_id=UUID(int=70))
    second = replace(told(2, THE_SAME), story_id=UUID(int=70))
    both = [first, second]
    assert place(told(1, MARTIAL_LAW + " Подробности позже."), both, first) == UUID(int=70)
    assert place(told(1, CABLE), both, first) not in {UUID(int=70), None}


def test_an_edited_post_that_is_alone_keeps_its_story() -> None:
    first = replace(told(1, MARTIAL_LAW), story_id=UUID(int=70))
    assert place(told(1, MARTIAL_LAW + " Подробности позже."), [first], first) == UUID(int=70)


def test_stories_under_one_headline_are_gathered_and_others_are_not() -> None:
    vote = "Парламент Южной Кореи проголосовал за отмену военного положения, которое объявил президент."
    korea = [told(1, MARTIAL_LAW), told(2, THE_SAME)]
    events = gather([[told(3, CABLE)], [told(4, vote)], korea, [told(5, RATES.format("105", "110"))]])
    assert [[post.post_id.int for story in event for post in story] for event in events] == [[1, 2, 4], [3], [5]]


def test_stories_that_name_the_same_rare_things_are_one_event() -> None:
    """The strike and the speech about it begin otherwise, and both name the missile; two fires share no name."""
    texts = (
        "Россия впервые нанесла удар ракетой «Орешник» по заводу Южмаш, пишут украинские издания.",
        "Путин выступил вечером с обращением: это было испытание, сказал он. Орешник попал по цели, Южмаш разрушен.",
        "Пожар начался в доме на улице Ленина, спасатели работают на месте.",
        "Большой пожар утром на складе в Твери, горит крыша, люди вышли сами.",
    )
    names = {"орешник", "южмаш", "ленин", "тверь"}
    common = {word: 2_000 for text in texts for word in LEXICON.telling(text) if word not in names}
    events = gather([[told(number, text, rarity=Rarity(20_000, common))] for number, text in enumerate(texts, 1)])
    assert [[post.post_id.int for story in event for post in story] for event in events] == [[1, 2], [3], [4]]


def test_the_most_typical_post_comes_first() -> None:
    asides = "Вот это поворот, такого мы точно давно не видели, следим дальше за всем вместе."
    posts = [told(1, asides), told(2, MARTIAL_LAW), told(3, THE_SAME)]
    assert [post.post_id.int for post in typical(posts)][-1] == 1
