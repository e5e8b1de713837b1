"""The full-text index: what is written, and only when it changed."""

# ruff: noqa: RUF001 - the posts are Russian

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from telegram_assistant.language.documents import make_document
from telegram_assistant.language.plan import Either, Plan
from telegram_assistant.names import INDEXING
from tests.integration.search.archive import NEWS, SPORT, Archive

pytestmark = pytest.mark.integration

ALL = Plan(channels=(NEWS,))


async def test_a_repeat_changes_nothing(archive: Archive) -> None:
    await archive.post(1, "погода в Москве")
    source = archive.source(1, "погода в Москве", tags=("погода",))
    assert await archive.index(source) == {source.post_id}
    before = await archive.rows("SELECT xmin::text, indexed_at FROM search_documents")
    assert await archive.index(source) == set()
    assert await archive.rows("SELECT xmin::text, indexed_at FROM search_documents") == before
    assert await archive.documents.known([source.post_id]) == {source.post_id: (source.digest, True)}


async def test_a_document_of_words_alone_is_completed_only_while_it_is_the_same(archive: Archive) -> None:
    post = await archive.post(1, "погода")
    early = archive.source(1, "погода в Москве")
    await archive.index(early, whole=False)
    assert await archive.documents.known([post]) == {post: (early.digest, False)}
    [before] = await archive.rows("SELECT changed_at FROM search_documents")
    await archive.documents.complete({post: archive.source(1, "погода").digest})
    assert await archive.rows("SELECT changed_at FROM search_documents") == [before]
    await archive.documents.complete({post: early.digest})
    assert await archive.documents.known([post]) == {post: (early.digest, True)}
    [after] = await archive.rows("SELECT changed_at FROM search_documents")
    assert after > before, "who waits for whole documents is told"


async def test_a_document_goes_with_its_post(archive: Archive) -> None:
    post = await archive.post(1, "погода")
    await archive.run("DELETE FROM posts WHERE id = :id", id=post)
    assert await archive.rows("SELECT 1 FROM search_documents") == []


async def test_a_post_that_is_gone_gets_no_document(archive: Archive) -> None:
    await archive.post(1, "погода")
    gone = archive.source(2, "ветер")
    assert await archive.index(archive.source(1, "снег"), gone) == {archive.source(1, "снег").post_id}


async def test_writers_at_the_same_time_do_not_wait_for_each_other_for_ever(archive: Archive) -> None:
    for number in range(1, 21):
        await archive.post(number, f"погода {number}")

    async def write(word: str, *, backwards: bool) -> None:
        sources = [archive.source(number, f"{word} {number}") for number in range(1, 21)]
        documents = [make_document(source, archive.lexicon) for source in sources]
        await archive.documents.put(documents[::-1] if backwards else documents)

    await asyncio.gather(*(write(word, backwards=word < "м") for word in ("снег", "ветер", "дождь", "туман")))
    assert len(await archive.documents.newest(ALL, limit=50)) == 20


async def test_words_are_counted(archive: Archive) -> None:
    for number in range(1, 6):
        await archive.post(number, "погода" if number > 1 else "снега и снегом", has=("photo",))
    await archive.post(6, "погода", marks=("deleted",))
    assert await archive.documents.count_terms() == 5
    counts = await archive.documents.counts(["погода", "снег", "ветер", "has:photo", "=погода"])
    assert counts.total == 5
    assert counts.documents == {"погода": 4, "снег": 1, "has:photo": 5, "=погода": 4}
    assert await archive.documents.words(limit=10) == {"погода": 4}, "a form of one post may be misspelt"
    await asyncio.gather(*(archive.documents.count_terms() for _ in range(3)))
    assert (await archive.documents.counts(["погода"])).documents == {"погода": 4}


async def test_without_documents_there_is_nothing(archive: Archive) -> None:
    assert await archive.documents.count_terms() == 0
    assert await archive.documents.newest(ALL, limit=10) == []
    assert await archive.documents.fitting(ALL, []) == []
    assert await archive.documents.facets([]) == {}


async def test_posts_that_were_indexed_before_there_were_documents_are_found(archive: Archive) -> None:
    old, new, waiting = [await archive.post(number, "погода") for number in (1, 2, 3)]
    await archive.run("DELETE FROM search_documents WHERE post_id = ANY(:ids)", ids=[old, waiting])
    for post, outcome in ((old, "done"), (new, "done"), (waiting, "waiting")):
        await archive.run(
            "INSERT INTO post_steps (post_id, stage, outcome, content_hash, trace_id, duration_ms)"
            " VALUES (:post, :stage, :outcome, '', '', 0)",
            post=post,
            stage=INDEXING,
            outcome=outcome,
        )
    assert await archive.documents.missing(limit=10) == [old]
    await archive.run("UPDATE search_documents SET version = 0")
    assert set(await archive.documents.missing(limit=10)) == {old, new}


async def test_the_newest_months_are_looked_through_first_and_then_the_others(archive: Archive) -> None:
    """For common words: enough newest ones do, and where they are not enough all are found."""
    for number in range(1, 31):
        await archive.post(number, "погода", when=-30 * (number // 3))
    plan = Plan(channels=(NEWS,), ways=((Either("'погода'"),),), expected=100_000.0)
    newest = await archive.documents.newest(plan, limit=4)
    every = await archive.documents.newest(plan, limit=100)
    assert len(every) == 30
    assert every == sorted(every, key=lambda one: one.posted_at, reverse=True)
    assert newest == every[:4]


async def test_long_and_odd_words_are_kept(archive: Archive) -> None:
    words = "a" * 5_000 + " don't l'été \\ ' '' : & | ! <-> 北京市 " + "слово " * 20_000
    await archive.post(1, words)
    [found] = await archive.documents.newest(Plan(channels=(NEWS,), must=(Either("'слово'"),)), limit=5)
    assert found.length == 20_006


KOREA = "Президент Южной Кореи Юн Сок Ёль объявил о введении военного положения, сообщает агентство Ренхап."
THE_SAME = "Военное положение введено в Южной Корее, объявил президент Юн Сок Ёль. Парламент страны заблокирован."
CABLE = "Между Швецией и Финляндией повреждён ещё один телекоммуникационный кабель, пишет газета."


async def stories(archive: Archive) -> dict[tuple[int, int], UUID]:
    rows = await archive.rows(
        "SELECT d.channel_id, p.message_id, d.story_id FROM search_documents d JOIN posts p ON p.id = d.post_id"
    )
    return {(row.channel_id, row.message_id): row.story_id for row in rows}


async def test_a_post_is_given_the_story_of_those_that_tell_the_same(archive: Archive) -> None:
    for channel, words in ((NEWS, KOREA), (SPORT, CABLE)):
        await archive.post(1, words, channel=channel)
    await archive.post(2, THE_SAME, channel=SPORT)
    found = await stories(archive)
    assert found[SPORT, 2] == found[NEWS, 1] != found[SPORT, 1]


async def test_a_story_survives_edits_tags_and_its_first_post(archive: Archive) -> None:
    first = await archive.post(1, KOREA)
    await archive.post(2, THE_SAME, channel=SPORT)
    before = await stories(archive)
    await archive.index(archive.source(2, THE_SAME, channel=SPORT, tags=("корея",)))
    assert await stories(archive) == before
    await archive.index(archive.source(1, CABLE))
    changed = await stories(archive)
    assert changed[NEWS, 1] != changed[SPORT, 2] == before[SPORT, 2]
    await archive.run("DELETE FROM posts WHERE id = :id", id=first)
    await archive.post(3, KOREA)
    assert (await stories(archive))[NEWS, 3] == before[SPORT, 2]


async def test_posts_that_are_indexed_at_the_same_time_are_one_story(archive: Archive) -> None:
    sources = []
    for number in range(1, 9):
        await archive.post(number, "погода", channel=NEWS if number % 2 else SPORT)
        sources.append(archive.source(number, KOREA, channel=NEWS if number % 2 else SPORT))
    await asyncio.gather(*(archive.index(source) for source in sources))
    assert len(set((await stories(archive)).values())) == 1
