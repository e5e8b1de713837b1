"""A search for words as people type them: misspelt, in the other alphabet, with the other keyboard."""

from __future__ import annotations

import pytest

from telegram_assistant.domain.query import Note, Trouble
from telegram_assistant.domain.results import Results
from telegram_assistant.search.service import Search
from tests.integration.search.archive import SYSTEM, Archive

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
@pytest.mark.parametrize("query", ["🔥🔥🔥", "!!!", "…", "—  ?"])
async def test_signs_without_a_word_find_nothing_and_it_is_said(search: Search, query: str) -> None:
    results = await search.search(SYSTEM, query)
    assert (results.hits, results.notes) == ((), (Note(Trouble.NO_WORDS),))
    assert (await search.search(SYSTEM, "  ")).hits, "without any query there are the newest posts"
