"""The full-text index follows the post: what can be found of it, after edits, late results and deletions (G2, G5)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

import pytest
import pytest_asyncio

from telegram_assistant.domain.events import PostEnriched, PostParsed, Trigger
from telegram_assistant.domain.models import Classification, Identity, Ocr, Seen
from telegram_assistant.domain.post import Forward, Poll, Post
from telegram_assistant.domain.results import Origin, Results
from telegram_assistant.language.documents import VERSION, WORDS_ONLY
from telegram_assistant.language.inflection import Inflection
from telegram_assistant.language.lexemes import Lexicon
from telegram_assistant.names import INDEXING, POSTS_DELETED, POSTS_PARSED
from telegram_assistant.search.service import Search
from telegram_assistant.stages.index_entry import Entry, EntryReader, SearchUpkeep, TextIndex
from telegram_assistant.stages.indexing import Indexes, index_posts, unindex_posts
from telegram_assistant.stages.post_persistence import save_posts
from telegram_assistant.stores.postgres.pages import Page
from telegram_assistant.stores.postgres.search import SearchDocuments
from telegram_assistant.wiring.models import open_search
from telegram_assistant.wiring.runtime import utc_now
from tests.integration.stages.desk import CHANNEL, FOOTBALL, SYSTEM, WEATHER, Desk, drawing, photo, post

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="session")]

LETTER = Seen(
    classification=Classification.DOCUMENT,
    description="Фото: бумага на столе",
    ocr=Ocr(text="Квитанция за электричество", engine="tesseract", confidence=0.9),
    provider="local",
    model="test",
)
LEXICON = Lexicon(Inflection())


@dataclass
class Library:
    """Posts that go through indexing, and a search over them."""

    desk: Desk
    indexes: Indexes
    search: Search

    def event(self, one: Post, **fields: object) -> PostEnriched:
        known: dict[str, object] = {
            "tags": ("метеоролог", "прогноз"),
            "topics": ("weather",),
            "language": "ru",
            "pages": (),
        }
        return PostEnriched(
            trace_id="t",
            occurred_at=utc_now(),
            idempotency_key=f"{one.id}",
            tenant_id=SYSTEM,
            channel_id=one.channel_id,
            post_id=one.id,
            content_hash=one.content_hash,
            tags_hash="",
            entities=(),
            provider="local",
            model="m",
            latency_ms=1,
            trigger=Trigger.INITIAL,
            **known | fields,  # type: ignore[arg-type]  # by name
        )

    async def through(self, one: Post, **fields: object) -> None:
        await self.desk.save(one)
        await index_posts([self.event(one, **fields)], indexes=self.indexes)

    async def found(self, query: str) -> list[int]:
        return [hit.post.message_id for hit in (await self.results(query)).hits]

    async def results(self, query: str) -> Results:
        return await self.search.search(SYSTEM, query)

    async def tell_of_words(self, events: Sequence[PostParsed] = ()) -> Sequence[PostParsed]:
        """As far as a post comes while the models are away: these, or those that ingest told of since."""
        events = events or await self.desk.told(POSTS_PARSED)
        indexes = self.indexes
        await save_posts(events, texts=indexes.texts, entries=indexes.entries, saver=self.desk.saver)
        return events

    async def unindex(self) -> None:
        await unindex_posts(await self.desk.told(POSTS_DELETED), indexes=self.indexes)


@pytest_asyncio.fixture(loop_scope="session")
async def library(desk: Desk, indexes: Indexes) -> Library:
    await desk.change(
        "INSERT INTO subscriptions (tenant_id, user_id, channel_id) SELECT tenant_id, id, :channel FROM users",
        channel=CHANNEL,
    )
    return Library(desk, indexes, open_search(desk.database, clock=utc_now, lexicon=LEXICON))


async def test_a_post_is_found_by_its_words_tags_and_filters(library: Library) -> None:
    await library.through(post(1, WEATHER, forward=Forward(channel_id=5)))
    poll = Poll(question="Кто выиграет чемпионат?", answers=("Динамо", "Авангард"))
    await library.through(post(2, poll=poll), tags=(), topics=(), language="")
    assert await library.found("погоды") == [1]
    assert await library.found("метеорологу") == [1]
    assert await library.found("tag:прогноз topic:weather lang:ru is:forwarded") == [1]
    await library.through(post(3, "Скидка по промокоду на прогноз погоды, успейте купить."), topics=("ads",))
    assert await library.found("погоды") == [3, 1]
    assert (await library.found("погоды is:ad"), await library.found("погоды -is:ad")) == ([3], [1])
    assert await library.found("авангард") == [2]
    assert await library.found("футбол") == []


async def test_a_post_is_found_by_its_words_before_any_model_saw_it(library: Library) -> None:
    """A model that is slow or away must not keep a post from being found."""
    one = post(1, WEATHER)
    await library.desk.save(one)
    await library.tell_of_words()
    assert await library.found("погода") == [1]
    assert await library.found("tag:прогноз") == []
    await library.desk.save(post(1, FOOTBALL, edited_at=utc_now()))
    await library.tell_of_words()
    assert await library.found("погода") == []
    assert await library.found("спартак") == [1]
    assert [row.version for row in await library.desk.rows("SELECT version FROM search_documents")] == [WORDS_ONLY]


async def test_what_models_say_is_added_and_stays(library: Library) -> None:
    one, plain = post(1, WEATHER), post(2, FOOTBALL)
    await library.desk.save(one)
    await library.desk.save(plain)
    events = await library.tell_of_words()
    nothing_said: dict[str, object] = {"tags": (), "topics": (), "language": ""}
    await index_posts([library.event(one), library.event(plain, **nothing_said)], indexes=library.indexes)
    assert await library.found("tag:прогноз погода") == [1]
    before = await library.desk.rows("SELECT version, xmin::text FROM search_documents ORDER BY posted_at")
    assert [row.version for row in before] == [VERSION] * 2, "the second too, though nothing was added to it"
    await library.tell_of_words(events)  # a repeat, or a worker that was late
    assert await library.desk.rows("SELECT version, xmin::text FROM search_documents ORDER BY posted_at") == before


async def test_who_was_overtaken_takes_nothing_back(library: Library) -> None:
    """Between its look at the post and its writing another stage brings the tags."""
    one, desk = post(1, WEATHER), library.desk
    await desk.save(one)

    class Overtaken(EntryReader):
        looks = 0

        async def read(self, post_ids: Sequence[UUID]) -> dict[UUID, Entry]:
            found = await super().read(post_ids)
            self.looks += 1
            if self.looks == 1:
                await index_posts([library.event(one)], indexes=library.indexes)
            return found

    reader = Overtaken(desk.stored_posts, desk.enrichments, desk.pages, desk.pictures)
    assert await library.indexes.texts.put_words([one.id, UUID(int=5)], reader) == {one.id}
    assert reader.looks == 2
    assert await library.found("tag:прогноз погода") == [1]
    assert [row.version for row in await desk.rows("SELECT version FROM search_documents")] == [VERSION]


async def test_words_of_a_deleted_post_stay_hidden(library: Library) -> None:
    one = post(1, WEATHER)
    await library.desk.save(one)
    events = await library.desk.told(POSTS_PARSED)
    await library.desk.delete(one)
    await library.unindex()
    await library.tell_of_words(events)  # later than the deletion
    assert await library.found("погода") == []
    assert await library.found("погода is:deleted") == [1]


async def test_an_edit_replaces_what_can_be_found(library: Library) -> None:
    await library.through(post(1, WEATHER))
    await library.through(post(1, FOOTBALL, edited_at=utc_now()), tags=("спартак",), topics=("sport",))
    assert await library.found("погода") == []
    assert await library.found("спартак is:edited") == [1]


async def test_pictures_and_pages_are_found_and_shown(library: Library) -> None:
    one, address = photo(1, "Смотрите"), "https://news.example/1"
    await library.through(one)
    sha256 = await library.desk.store(one, drawing(1))
    await library.desk.pictures.put(sha256, LETTER, identity=Identity("local", "m"))
    await library.desk.pages.save(Page(url=address, title="Кубок", text=FOOTBALL))
    assert await library.desk.pages.link(one.id, one.content_hash, [(address, address)], among=[address])
    await index_posts([library.event(one, pages=(address,))], indexes=library.indexes)
    [picture] = (await library.results("квитанции за электричество has:photo")).hits
    assert picture.snippet.origin is Origin.PICTURE
    assert [picture.snippet.text[start:end] for start, end in picture.snippet.spans] == [
        "Квитанция",
        "за",
        "электричество",
    ]
    [page] = (await library.results("вратарь зенит")).hits
    assert page.snippet.origin is Origin.PAGE


async def test_the_same_again_writes_nothing(library: Library) -> None:
    one = post(1, WEATHER)
    await library.through(one)
    before = await library.desk.rows("SELECT xmin::text FROM search_documents")
    changed = library.indexes.texts.changed
    await index_posts([library.event(one)] * 2, indexes=library.indexes)
    assert await library.desk.rows("SELECT xmin::text FROM search_documents") == before
    assert library.indexes.texts.changed == changed


@pytest.mark.parametrize("retention,deleted,by_words", [("keep", [1], [1]), ("redact", [1], []), ("mirror", [], [])])
async def test_a_deleted_post_is_found_only_when_asked_for(
    library: Library, retention: str, deleted: list[int], by_words: list[int]
) -> None:
    one = post(1, WEATHER)
    await library.through(one)
    await library.through(post(2, FOOTBALL))
    library.desk.retention = retention
    await library.desk.delete(one)
    await library.unindex()
    assert await library.found("погода") == []
    assert await library.found("") == [2]
    assert await library.found("is:deleted") == deleted
    assert await library.found("погода is:deleted") == by_words
    await library.through(one)
    assert await library.found("погода") == [1]
    assert await library.found("is:deleted") == []


async def test_posts_that_were_indexed_before_get_their_documents(library: Library) -> None:
    await library.through(post(1, WEATHER))
    await library.through(post(2, FOOTBALL))
    await library.desk.change(
        "INSERT INTO post_steps (post_id, stage, outcome, content_hash, trace_id, duration_ms)"
        " SELECT id, :stage, 'done', content_hash, '', 0 FROM posts",
        stage=INDEXING,
    )
    await library.desk.change("DELETE FROM search_documents")
    documents = SearchDocuments(library.desk.database)
    upkeep = SearchUpkeep(library.indexes.texts, documents, library.indexes.entries)
    assert await upkeep.fill() == 2
    assert await upkeep.fill() == 0
    assert await library.found("погода") == [1]


@dataclass
class Slow(TextIndex):
    """Writes what it was given only after something else has happened."""

    texts: TextIndex
    meanwhile: list[Callable[[], Awaitable[None]]]

    async def put(self, entries: Collection[Entry]) -> None:
        for happen in self.meanwhile:
            self.meanwhile = []
            await happen()
        await self.texts.put(entries)


async def test_a_post_that_is_deleted_while_its_document_is_made_anew_stays_out(library: Library) -> None:
    one = post(1, WEATHER)
    await library.through(one)
    await library.desk.change(
        "INSERT INTO post_steps (post_id, stage, outcome, content_hash, trace_id, duration_ms)"
        " SELECT id, :stage, 'done', content_hash, '', 0 FROM posts",
        stage=INDEXING,
    )
    await library.desk.change("UPDATE search_documents SET version = 99, digest = ''")

    async def deleted() -> None:
        await library.desk.delete(one)
        await library.unindex()

    documents = SearchDocuments(library.desk.database)
    upkeep = SearchUpkeep(Slow(library.indexes.texts, [deleted]), documents, library.indexes.entries)
    await upkeep.fill()
    assert await library.found("погода") == []


async def test_words_are_counted_when_enough_changed(library: Library) -> None:
    documents = SearchDocuments(library.desk.database)
    upkeep = SearchUpkeep(library.indexes.texts, documents, library.indexes.entries)
    assert await upkeep.count(0.0), "the first time"
    assert not await upkeep.count(10.0)
    for number in range(1, 23):
        await library.through(post(number, f"{WEATHER} {number}"))
    assert await upkeep.count(20.0)
    assert (await documents.counts(["погода"])).documents["погода"] == 22
    assert not await upkeep.count(30.0)
    assert await upkeep.count(30 + 24 * 3600.0), "now and then"


async def test_a_post_of_another_tenant_has_its_document_in_its_channel(library: Library) -> None:
    tenant = UUID(int=7)
    await library.desk.change("INSERT INTO tenants (id, name) VALUES (:id, 'seven')", id=tenant)
    await library.desk.open_channel(78, username=None, tenant=tenant)
    await library.through(replace(post(1, WEATHER), channel_id=78))
    assert await library.found("погода") == []
