"""A search for words as people type them: misspelt, in the other alphabet, with the other keyboard."""

from __future__ import annotations

import pytest

from telegram_assistant.domain.query import Note, Trouble
from telegram_assistant.domain.results import Results, Sort
from telegram_assistant.search.service import Search
from tests.integration.search.archive import NEWS, SPORT, SYSTEM, Archive

pytestmark = pytest.mark.integration


def numbers(results: Results) -> list[int]:
    return [hit.post.message_id for hit in results.hits]


@pytest.fixture
async def archive(archive: Archive) -> Archive:
    for number in range(1, 4):
        await archive.post(number, f"Глава Центробанка Набиуллина представила доклад, часть {number}")
        await archive.post(10 + number, f"Apple представила новый телефон, событие {number}")
    await archive.post(20, "Кубок по шахматам выиграл школьник")
    await archive.documents.count_terms()
    return archive


@pytest.mark.parametrize(
    "typed, right",
    [
        ("Набиулиной", "Набиуллиной"),
        ("Эппл", "Apple"),
        ("ntktajy", "телефон"),
        ("центрабанка", "центробанка"),
    ],
)
@pytest.mark.usefixtures("archive")
async def test_it_finds_what_the_right_spelling_finds(search: Search, typed: str, right: str) -> None:
    found, wanted = await search.search(SYSTEM, typed), await search.search(SYSTEM, right)
    assert numbers(found) == numbers(wanted) != []
    assert {note.trouble for note in found.notes} == {Trouble.SPELT}
    assert wanted.notes == ()


async def test_a_misspelt_name_weighs_as_much_as_the_right_one(archive: Archive, search: Search) -> None:
    """Posts with the name come before those with its other name, which weighs less."""
    await archive.post(40, "ЦБ подтвердил", when=1)
    await archive.post(41, "Центробанк подтвердил", when=2)
    await archive.documents.count_terms()
    for query in ("Центробанк", "центрабанк"):
        found = numbers(await search.search(SYSTEM, query))
        assert found.index(41) < found.index(40), query


async def test_a_misspelt_word_of_the_dictionary_is_not_taken_for_a_commoner_name_in_the_other_alphabet(
    archive: Archive, search: Search
) -> None:
    for number in (50, 60):
        await archive.post(number, "Биржа закрылась ростом")
    for number in range(51, 57):
        await archive.post(number, f"Новости дня, выпуск {number}. Подписаться: birzha")
    await archive.documents.count_terms()
    found = await search.search(SYSTEM, "биржжа")
    assert Note(Trouble.SPELT, "биржа") in found.notes
    assert {50, 60} <= {*numbers(found)}


async def test_a_word_of_another_tenants_channel_is_never_told(archive: Archive, search: Search) -> None:
    other = await archive.tenant("other")
    await archive.channel(300, "secret", other, owner=other)
    for number in range(1, 4):
        await archive.post(number, "Проект Бармаглот передан заказчику", channel=300)
    await archive.documents.count_terms()
    results = await search.search(SYSTEM, "бармагот")
    assert (results.hits, results.notes) == ((), ())
    assert (await search.search(other, "бармагот")).notes == (Note(Trouble.SPELT, "бармаглот"),)


@pytest.mark.usefixtures("archive")
async def test_what_is_insisted_on_is_meant_as_it_is_written(search: Search) -> None:
    for query in ("+Набиулиной", "=Набиулиной", '"глава Набиулиной"'):
        results = await search.search(SYSTEM, query)
        assert (numbers(results), results.notes) == ([], ()), query


@pytest.mark.usefixtures("archive")
@pytest.mark.parametrize("query", ["!!!", "…", "—  ?"])
async def test_signs_without_a_word_find_nothing_and_it_is_said(search: Search, query: str) -> None:
    results = await search.search(SYSTEM, query)
    assert (results.hits, results.notes) == ((), (Note(Trouble.NO_WORDS),))
    assert (await search.search(SYSTEM, "  ")).hits, "without any query there are the newest posts"


async def test_hashtags_emoji_and_names_are_found_as_such(archive: Archive, search: Search) -> None:
    await archive.post(30, "🔥 Биткоин растёт #Крипта")
    await archive.post(31, "Крипта упала, сообщили Илону Маску")
    await archive.post(32, "Маску надели на праздник 💥", when=1)
    await archive.documents.count_terms()
    wanted = {
        "#крипта": [30],
        "-#крипта крипта": [31],
        "🔥": [30],
        "🔥🔥 OR 💥": [32, 30],
        "🙈": [],
        "Илон Маск": [31],
        '"Илоном Маском"': [31],
    }
    for query, found in wanted.items():
        results = await search.search(SYSTEM, query)
        assert (numbers(results), results.notes) == (found, ()), query


async def test_one_name_finds_posts_with_the_others(archive: Archive, search: Search) -> None:
    await archive.post(40, "ЦБ повысил ставку до рекордной величины")
    await archive.post(41, "Банк России повысил ставку снова", when=1)
    await archive.post(42, "Банки повысили свои ставки, тогда как в России дожди", when=2)
    for number, channel in ((50, NEWS), (51, NEWS), (52, SPORT)):
        await archive.post(number, f"Начался Ледяной кубок (ЛК), день {number}", channel=channel)
    await archive.post(53, "Победитель ЛК назван")
    await archive.documents.count_terms()
    for query in ("ставка ЦБ", "ставка Банка России", "ставка Центробанка"):
        results = await search.search(SYSTEM, query)
        assert {40, 41} <= set(numbers(results)), query
        assert results.notes == ()
        assert all(hit.snippet.spans for hit in results.hits)
    misspelt = await search.search(SYSTEM, "ставка центрабанка")
    assert {40, 41} <= set(numbers(misspelt)), "what it was meant to be has other names, too"
    assert 53 in numbers(await search.search(SYSTEM, "ледяной кубок"))
    assert numbers(await search.search(SYSTEM, "+ЦБ")) == [40]
    assert numbers(await search.search(SYSTEM, '"ЦБ"')) == [40]
    newest = await search.search(SYSTEM, "ставка ЦБ", sort=Sort.NEWEST)
    assert numbers(newest) == [41, 40]
