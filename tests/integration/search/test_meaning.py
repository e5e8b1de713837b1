"""Search by words and meaning together, with the real local models and indexes; answers from what it finds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
import pytest_asyncio
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.ai.local.provider import LocalAnswerer, LocalEmbedder, ModelProcess
from telegram_assistant.domain.access import owners_for
from telegram_assistant.domain.models import Answer, Embedded, Entity, EntityKind, Identity, Passage, Sentence
from telegram_assistant.domain.results import Results
from telegram_assistant.errors import Retry
from telegram_assistant.index.edge_vectors import EdgeVectors
from telegram_assistant.index.graph import PostNode
from telegram_assistant.index.ladybug_graph import LadybugGraph
from telegram_assistant.index.vectors import Model, Point
from telegram_assistant.language.lexemes import Lexicon
from telegram_assistant.search.ask import NOT_IN_YOUR_CHANNELS, Asking
from telegram_assistant.search.graph import GraphWalk
from telegram_assistant.search.planning import Meaning
from telegram_assistant.search.service import MANY_CHANNELS, Search
from telegram_assistant.stores.postgres.database import open_database
from telegram_assistant.stores.postgres.search import SearchDocuments
from telegram_assistant.stores.postgres.visible_posts import VisiblePosts
from telegram_assistant.wiring.models import open_search
from telegram_assistant.wiring.runtime import utc_now
from tests.integration.search.archive import NEWS, POSTED, SPORT, SYSTEM, Archive

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="session")]

FOOTBALL = "Футбольный клуб «Спартак» обыграл «Зенит» в финале Кубка России. Вратарь отбил два пенальти."
WEATHER = "Метеорологи обещают в Москве сильный снег и порывы ветра до двадцати метров в секунду."
SPACE = "Ракета, несущая новый спутник связи, стартовала: космодром Восточный, выход на орбиту успешный."
SECRET = "Космический аппарат тайно передал снимки орбиты для нашей частной обсерватории."


@dataclass
class Library:
    """Posts in the full-text index and in the vector index."""

    archive: Archive
    meaning: Meaning

    @property
    def model(self) -> Model:
        return Model(str(self.meaning.embedder.identity), self.meaning.embedder.size)

    async def post(self, number: int, words: str, *, channel: int = NEWS, owner: UUID = SYSTEM, **fields: Any) -> UUID:
        post_id = await self.archive.post(number, words, channel=channel, **fields)
        vector = (await self.meaning.embedder.embed([words])).vectors[0]
        point = Point(
            post_id=post_id,
            vector=vector,
            text_hash="",
            channel_id=channel,
            posted_at=POSTED,
            language=fields.get("language", ""),
            has=fields.get("has", ()),
            tags=fields.get("tags", ()),
            topics=fields.get("topics", ()),
            forwarded="forwarded" in fields.get("marks", ()),
            edited="edited" in fields.get("marks", ()),
        )
        await self.meaning.vectors.open(owner, self.model)
        await self.meaning.vectors.put(owner, self.model, [point])
        return post_id

    def search(self, meaning: Meaning | None = None) -> Search:
        return open_search(
            self.archive.database, clock=utc_now, meaning=meaning or self.meaning, lexicon=self.archive.lexicon
        )


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def models() -> AsyncIterator[ModelProcess]:
    process = ModelProcess()
    yield process
    await process.close()


@pytest_asyncio.fixture(loop_scope="session")
async def database(database_url: str) -> AsyncIterator[AsyncEngine]:
    engine = open_database(database_url)
    yield engine
    await engine.dispose()


@pytest_asyncio.fixture(loop_scope="session")
async def library(
    database: AsyncEngine, lexicon: Lexicon, models: ModelProcess, folder: Path
) -> AsyncIterator[Library]:
    archive = Archive(database, lexicon)
    await archive.channel(NEWS, "daily_news", SYSTEM)
    await archive.channel(SPORT, "sport", SYSTEM)
    vectors = EdgeVectors(folder / "vectors")
    made = Library(archive, Meaning(vectors, LocalEmbedder(models), patience=60))
    await made.post(1, FOOTBALL, channel=SPORT, language="ru", has=("photo",))
    await made.post(2, WEATHER, language="ru")
    await made.post(3, SPACE, language="ru", has=("photo",))
    await archive.documents.count_terms()
    yield made
    await vectors.close()


def numbers(results: Results) -> list[int]:
    return [hit.post.message_id for hit in results.hits]


async def test_a_post_is_found_across_languages(library: Library) -> None:
    results = await library.search().search(SYSTEM, "heavy snowfall and gusts of wind")
    assert numbers(results)[0] == 2
    assert results.hits[0].by_meaning
    assert results.hits[0].by_words, "by what the words are in Russian"
    assert results.without_meaning == ""


async def test_pages_fit_together_while_nearer_posts_come(library: Library) -> None:
    for number in range(10, 26):
        await library.post(number, f"Снег и ветер в городе номер {number}: дороги {'чистят ' * (number % 4)}")
    search = library.search(replace(library.meaning, nearest=12))
    whole = numbers(await search.search(SYSTEM, "сильный снег", limit=100))
    page = await search.search(SYSTEM, "сильный снег", limit=3)
    seen = numbers(page)
    while page.cursor:
        await library.post(100 + len(seen), f"Сильный снег {len(seen)}")
        page = await search.search(SYSTEM, "сильный снег", limit=3, cursor=page.cursor)
        seen += numbers(page)
    assert seen == whole


@pytest.mark.parametrize("nonsense", ["фывапролд", "asdkjhasd", "кряк шмыг тыдыщ", "qwerty zxcvb", "ыыыы"])
async def test_nonsense_finds_nothing(library: Library, nonsense: str) -> None:
    """The nearest post of all was shown as if it were the answer, with a score of 1."""
    await library.post(4, "Спасибо")
    results = await library.search().search(SYSTEM, nonsense)
    assert (results.hits, results.found) == ((), 0)


async def test_what_has_none_of_the_words_comes_apart(library: Library) -> None:
    await library.post(4, "Вратарь и пенальти: как футбольный клуб готовился к финалу кубка страны")
    results = await library.search().search(SYSTEM, "Спартак")
    assert numbers(results)[0] == 1
    assert results.found == 1
    assert all(not hit.by_words for hit in results.hits[1:])
    assert results.related_from == (1 if len(results.hits) > 1 else None)


async def test_words_and_meaning_together(library: Library) -> None:
    results = await library.search().search(SYSTEM, "спартак победил в матче")
    assert numbers(results)[0] == 1
    assert results.hits[0].by_words
    assert results.hits[0].by_meaning


@pytest.mark.parametrize(
    "query",
    [
        "rocket launch channel:@sport",
        "rocket launch -has:photo",
        "rocket launch lang:en",
        "rocket launch -ракета",
        "rocket launch +футбол",
        "rocket launch before:2026-10-01",
        "rocket launch -channel:@daily_news",
    ],
)
async def test_every_filter_holds_for_meaning_too(library: Library, query: str) -> None:
    search = library.search()
    assert numbers(await search.search(SYSTEM, "rocket launch"))[0] == 3
    assert 3 not in numbers(await search.search(SYSTEM, query))


@pytest.mark.parametrize(
    "query",
    [
        "rocket launch tag:космос",
        "rocket launch tag:Космос -tag:спорт",
        "rocket launch topic:science topic:sport",
        "rocket launch lang:ru has:photo",
        "rocket launch is:forwarded -is:edited",
        "rocket launch channel:@daily_news after:2026-10-01 before:2026-12-01",
        "rocket launch OR =стартовала",
    ],
)
async def test_what_fits_the_filters_is_found_by_meaning(library: Library, query: str) -> None:
    """The vector index has no other words for tags, topics and marks than queries have."""
    await library.post(
        9,
        "Аппарат отправился в полёт и вышел на орбиту, сообщает агентство космонавтики",
        language="ru",
        has=("photo",),
        tags=("космос",),
        topics=("science",),
        marks=("forwarded",),
    )
    found = await library.search().search(SYSTEM, query)
    assert {3, 9} & set(numbers(found)), query
    if "OR" not in query and "channel:" not in query and "lang:" not in query:
        assert [hit.by_meaning for hit in found.hits if hit.post.message_id == 9] == [True]


async def test_similar_posts(library: Library) -> None:
    launch = await library.post(4, "Спутник связи выведен на орбиту ракетой-носителем, космодром доволен.")
    again = await library.post(5, SPACE, channel=SPORT)
    search = library.search()
    similar = await search.similar(SYSTEM, launch)
    assert similar[0].post.message_id in (3, 5)
    assert launch not in [hit.post.post_id for hit in similar]
    twins = await search.similar(SYSTEM, again)
    assert 3 not in [hit.post.message_id for hit in twins], "the same story is not a similar one"
    assert await search.similar(SYSTEM, UUID(int=1)) == ()


async def test_tenants_are_apart_in_meaning_too(library: Library) -> None:
    archive = library.archive
    ann, bob = await archive.tenant("ann"), await archive.tenant("bob")
    await archive.channel(7, "of_ann", ann, owner=ann)
    await archive.run(
        "INSERT INTO subscriptions (tenant_id, user_id, channel_id) VALUES (:tenant, :user, :channel)",
        tenant=bob,
        user=archive.users[bob],
        channel=NEWS,
    )
    secret = await library.post(1, SECRET, channel=7, owner=ann)
    await library.post(2, SECRET, channel=7, owner=SYSTEM)  # where it does not belong: the channel still hides it
    search = library.search()
    assert [hit.post.channel_id for hit in (await search.search(ann, "satellite pictures from orbit")).hits] == [7]
    found = (await search.search(bob, "satellite pictures from orbit")).hits
    assert {hit.post.channel_id for hit in found} <= {NEWS}
    assert await search.similar(bob, secret) == ()
    assert numbers(await search.search(await archive.tenant("new"), "satellite")) == []


async def test_with_many_channels_what_is_hidden_stays_hidden(library: Library) -> None:
    """The index is then told what to leave out, not the long list of what may be seen."""
    b = await library.archive.tenant("of_many_channels")
    for number in range(1000, 1000 + MANY_CHANNELS + 5):
        await library.archive.channel(number, f"channel_{number}", b)
    await library.archive.channel(900, "hidden_space", SYSTEM)
    seen = await library.post(50, SPACE, channel=1003)
    hidden = await library.post(51, SPACE, channel=900)
    query = "launch of a communications satellite"
    found = {hit.post.post_id for hit in (await library.search().search(b, query)).hits}
    assert seen in found
    assert hidden not in found
    mine = await library.search().search(SYSTEM, query)
    told = {one.post_id for hit in mine.hits for one in hit.tellers} | {hit.post.post_id for hit in mine.hits}
    assert hidden in told
    assert seen not in told


async def test_an_index_in_other_hands_is_told_and_words_go_on(library: Library, folder: Path) -> None:
    held = EdgeVectors(folder / "vectors")
    search = library.search(replace(library.meaning, vectors=held))
    results = await search.search(SYSTEM, "снег в Москве")
    assert numbers(results) == [2]
    assert "Another process holds the vector index" in results.without_meaning
    with pytest.raises(Retry):
        await search.similar(SYSTEM, results.hits[0].post.post_id)
    await held.close()


class Other:
    """Another model than the posts were embedded by."""

    identity = Identity("remote", "other")
    size = 768

    async def embed(self, texts: Sequence[str]) -> Embedded:
        return Embedded(vectors=tuple((1.0,) * self.size for _ in texts))


async def test_vectors_of_another_model_are_not_compared(library: Library) -> None:
    results = await library.search(replace(library.meaning, embedder=Other())).search(SYSTEM, "снег")
    assert numbers(results) == [2]
    assert "another model" in results.without_meaning


async def test_a_question_is_answered_with_its_sources(library: Library, models: ModelProcess) -> None:
    asking = Asking(library.search(), LocalAnswerer(models))
    answered = await asking.ask(SYSTEM, "Кто обыграл Зенит в финале Кубка России?")
    assert "Спартак" in answered.text
    assert [post.url for post in answered.sources] == ["https://t.me/sport/1"]
    assert all(said.sources == (1,) for said in answered.sentences)


async def test_what_the_posts_do_not_say_is_not_answered(library: Library, models: ModelProcess) -> None:
    asking = Asking(library.search(), LocalAnswerer(models))
    for question in ("Сколько стоит килограмм огурцов на рынке?", "Кто обыграл Зенит? channel:@daily_news", ""):
        answered = await asking.ask(SYSTEM, question)
        assert answered.sentences == ()
        assert answered.text == NOT_IN_YOUR_CHANNELS
        assert answered.sources == ()


async def test_dates_of_a_question_are_those_of_who_asks(library: Library, models: ModelProcess) -> None:
    asking = Asking(library.search(), LocalAnswerer(models))
    question = f"Кто обыграл Зенит в финале Кубка России? after:{POSTED + timedelta(days=1):%Y-%m-%d}"
    assert (await asking.ask(SYSTEM, question)).sentences == ()
    assert (await asking.ask(SYSTEM, question, zone=ZoneInfo("Pacific/Kiritimati"))).sentences, "it is tomorrow there"


async def test_who_asks_what_is_new_is_told_of_the_newest_posts(library: Library, models: ModelProcess) -> None:
    asking = Asking(library.search(), LocalAnswerer(models))
    newest = (await library.search().search(SYSTEM, "")).hits[0].post
    answered = await asking.ask(SYSTEM, "Что нового?")
    assert newest.url in {post.url for post in answered.sources}
    narrow = await asking.ask(SYSTEM, "Что нового? channel:@sport")
    assert {post.channel_id for post in narrow.sources} == {SPORT}


class Inventive:
    """A model that invents sources, as one that a post has talked into it might."""

    identity = Identity("remote", "inventive")

    async def answer(self, question: str, passages: Sequence[Passage]) -> Answer:
        key = passages[0].key
        said = [
            Sentence(text=f"Asked: {question}", sources=(key, "invented", key)),
            Sentence(text="Send your password.", sources=("invented",)),
            Sentence(text="Trust me.", sources=()),
        ]
        return Answer(sentences=tuple(said))


async def test_sentences_without_a_real_source_are_left_out(library: Library) -> None:
    answered = await Asking(library.search(), Inventive()).ask(SYSTEM, "снег в Москве channel:@daily_news")
    assert [(said.text, said.sources) for said in answered.sentences] == [("Asked: снег в Москве", (1,))]
    assert len(answered.sources) == 1


async def test_neighbours_and_forwards(library: Library, folder: Path) -> None:
    archive = library.archive
    hidden = await archive.tenant("hidden")
    await archive.channel(8, "elsewhere", hidden)
    await archive.post(9, "Спартак", channel=8)
    ids = {
        number: (await archive.rows("SELECT id FROM posts WHERE message_id = :n", n=number))[0].id
        for number in (1, 2, 9)
    }
    graph = LadybugGraph(folder / "graph", memory_mb=128)
    spartak = (Entity(EntityKind.ORGANISATION, "Спартак"),)
    await graph.put(
        [
            PostNode(
                tenant_id=SYSTEM,
                post_id=post_id,
                channel_id=channel,
                channel_title="",
                message_id=number,
                posted_at=POSTED,
                entities=spartak,
                forwarded_channel_id=5 if number != 2 else None,
                forwarded_message_id=6 if number != 2 else None,
            )
            for number, channel, post_id in ((1, SPORT, ids[1]), (2, NEWS, ids[2]), (9, 8, ids[9]))
        ]
    )
    walk = GraphWalk(graph, SearchDocuments(archive.database), VisiblePosts(archive.database), owners_for)
    around = await walk.around_post(SYSTEM, ids[1])
    assert [(near.post.message_id, near.shared) for near in around.near] == [(2, ("Спартак",))], "9 is hidden"
    assert around.forwards == ()
    assert [post.message_id for post in (await walk.around_post(hidden, ids[9])).forwards] == []
    assert (await walk.around_post(hidden, ids[1])).near == ()
    await graph.close()
