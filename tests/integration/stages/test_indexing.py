"""`indexing` (SPEC 4.9) into real indexes: they say what the tables say, whatever comes when (G2, G5, LESSONS 21)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, cast
from uuid import UUID, uuid4

import pytest

from telegram_assistant.bus.stage import Done, Outcome
from telegram_assistant.crawl.rules import load_rules
from telegram_assistant.domain.events import AlbumAssembled, PostEnriched, PostIndexed, Trigger
from telegram_assistant.domain.models import Classification, Embedded, Embedder, Identity, Ocr, Seen
from telegram_assistant.domain.post import Forward, Media, MediaKind, Poll, Post, ReplyTo, Service
from telegram_assistant.domain.text import Entity, EntityKind
from telegram_assistant.errors import Retry, Skip
from telegram_assistant.index.graph import Image, PostNode, WebPage
from telegram_assistant.index.vectors import Vectors
from telegram_assistant.names import MEDIA_SETTLED, POSTS_DELETED, POSTS_PARSED
from telegram_assistant.stages.crawling import trigger_crawls
from telegram_assistant.stages.index_entry import ALBUM
from telegram_assistant.stages.indexing import Indexes, index_albums, index_posts, index_seen, unindex_posts
from telegram_assistant.stages.tagging import Tagging, save_tags, tag_posts
from telegram_assistant.stores.postgres.enrichment import Enrichment
from telegram_assistant.stores.postgres.pages import Page
from telegram_assistant.wiring.runtime import utc_now
from tests.integration.stages.desk import (
    CHANNEL,
    FOOTBALL,
    SYSTEM,
    WEATHER,
    Desk,
    analyzed,
    asked,
    drawing,
    events_of,
    photo,
    post,
)

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="session")]

PRIVATE, TENANT = 78, UUID(int=7)
HALL = Seen(classification=Classification.PHOTO, labels=("hall", "crowd"), provider="local", model="m")
LETTER = replace(HALL, ocr=Ocr(text=FOOTBALL, engine="t", confidence=0.9))
MODEL = Identity("local", "m")


@dataclass
class Library:
    """Both indexes, and the stages on the way to them."""

    desk: Desk
    indexes: Indexes
    tagging: Tagging

    async def enriched(self) -> list[PostEnriched]:
        """What was saved since this was asked last, tagged; nobody has stored the tags yet."""
        tagged = events_of(await tag_posts(await self.desk.told(POSTS_PARSED), tagging=self.tagging))
        stored_posts, pages = self.desk.stored_posts, self.desk.pages
        return events_of(
            await trigger_crawls(tagged, rules=load_rules(), stored_posts=stored_posts, pages=pages, clock=utc_now)
        )

    async def index(self, events: Sequence[PostEnriched]) -> list[Outcome]:
        return await index_posts(events, indexes=self.indexes)

    async def through(self, *posts: Post) -> list[Outcome]:
        await self.desk.save(*posts)
        return await self.index(await self.enriched())

    async def unindex(self) -> list[Outcome]:
        return await unindex_posts(await self.desk.told(POSTS_DELETED), indexes=self.indexes)

    async def node(self, one: Post, tenant: UUID = SYSTEM) -> PostNode:
        found = await self.indexes.graph.node(tenant, one.id)
        assert found is not None
        return found

    async def everywhere(self, one: Post, tenant: UUID = SYSTEM) -> tuple[bool, bool]:
        """Whether it is in the vector index, and in the graph."""
        vector = await self.indexes.vectors.vector(tenant, one.id)
        return vector is not None, await self.indexes.graph.node(tenant, one.id) is not None

    async def posts(self, tenant: UUID = SYSTEM) -> tuple[list[UUID], int]:
        """Every vector, and the number of post nodes."""
        ids = [id_ async for piece in self.indexes.vectors.ids(tenant, self.indexes.model) for id_ in piece]
        return ids, (await self.indexes.graph.counts(tenant))["Post"]

    async def nearest(self, words: str, tenant: UUID = SYSTEM) -> UUID:
        vector = (await self.indexes.embedder.embed([words])).vectors[0]
        return (await self.indexes.vectors.search(tenant, vector, limit=1))[0].post_id


@pytest.fixture
def library(desk: Desk, indexes: Indexes, tagging: Tagging) -> Library:
    return Library(desk, indexes, tagging)


async def test_a_post_can_be_found_by_its_meaning_and_by_what_it_names(library: Library) -> None:
    weather = post(1, WEATHER, forward=Forward(channel_id=5, message_id=6), reply_to=ReplyTo(message_id=9))
    football = post(2, FOOTBALL)
    outcomes = await library.through(weather, football)
    assert await library.nearest("прогноз погоды и метеорологи") == weather.id
    assert await library.nearest("a football match and its goalkeeper") == football.id
    node = await library.node(weather)
    assert (node.channel_title, node.message_id, node.posted_at) == (f"Channel {CHANNEL}", 1, weather.posted_at)
    assert "weather" in node.topics
    assert "Москва" in {entity.name for entity in node.entities}
    assert (node.forwarded_channel_id, node.forwarded_message_id) == (5, 6)
    assert node.replies_to == post(9).id
    told = events_of(outcomes)
    assert [type(event) for event in told] == [PostIndexed] * 2
    assert (told[0].post_id, told[0].content_hash, told[0].tags) == (weather.id, weather.content_hash, node.tags)


async def test_the_same_event_twice_is_one_vector_and_one_set_of_nodes(library: Library) -> None:
    """G2."""
    one = post(1, WEATHER)
    await library.desk.save(one)
    events = await library.enriched()
    await library.index(events * 2)
    before = await library.indexes.graph.counts(SYSTEM)
    embedded = asked("embed")
    again = await library.index(events)
    assert [type(outcome) for outcome in again] == [Done], "who died before publishing must be able to"
    assert asked("embed") == embedded
    assert await library.indexes.graph.counts(SYSTEM) == before
    assert await library.posts() == ([one.id], 1)


async def test_lesson_21_every_post_is_indexable(library: Library) -> None:
    poll = post(1, poll=Poll(question="Кто выиграет чемпионат по хоккею?", answers=("Динамо", "Авангард")))
    picture = photo(2)
    service = post(3, service=Service("pin_message"))
    place = post(4, media=(Media(kind=MediaKind.OTHER),))
    odd = post(5, "🔥" * 3)
    outcomes = await library.through(poll, picture, service, place, odd)
    assert [type(outcome) for outcome in outcomes] == [Done] * 5
    ids, nodes = await library.posts()
    assert (len(ids), nodes) == (5, 5)
    assert await library.nearest("хоккейный чемпионат") == poll.id


async def test_an_edited_post_is_embedded_anew_and_its_old_tags_are_gone(library: Library) -> None:
    """G5."""
    await library.through(post(1, WEATHER))
    before = await library.node(post(1))
    await library.through(post(1, FOOTBALL), post(2, WEATHER + " Продолжение следует."))
    after = await library.node(post(1))
    assert not set(before.tags) & set(after.tags)
    assert "weather" not in after.topics
    assert await library.nearest("футбольный матч") == post(1).id
    assert await library.nearest("прогноз погоды") == post(2).id
    assert len((await library.posts())[0]) == 2


async def test_an_edit_of_the_form_alone_embeds_nothing(library: Library) -> None:
    """G5: only where the content changed."""
    await library.through(post(1, WEATHER))
    embedded = asked("embed")
    bold = post(1, WEATHER, entities=(Entity(EntityKind.BOLD, 0, 5),))
    (event,) = events_of(await library.through(bold))
    assert event.content_hash == bold.content_hash != post(1, WEATHER).content_hash
    assert asked("embed") == embedded


@pytest.mark.parametrize("newer_first", [True, False])
async def test_an_event_of_older_words_changes_nothing(library: Library, newer_first: bool) -> None:
    """G5: neither before the newer one, nor after it."""
    desk, edited = library.desk, post(1, FOOTBALL)
    await desk.save(post(1, WEATHER))
    older = await library.enriched()
    await desk.save(edited)
    newer = await library.enriched()
    if newer_first:
        await library.index(newer)
        before = await library.node(edited)
        (stale,) = await library.index(older)
        assert await library.node(edited) == before
    else:
        (stale,) = await library.index(older)
        assert await library.everywhere(edited) == (False, False)
        await library.index(newer)
    assert isinstance(stale, Skip)
    assert str(stale) == "the post was edited meanwhile, and comes again"
    assert (await library.node(edited)).tags == newer[0].tags


async def test_tags_that_know_more_stay_in_any_order(library: Library) -> None:
    """A late initial event does not take away what retagging brought, whether or not it was stored before."""
    cases = list(product([(0, 1), (1, 0)], (True, False), (True, False)))
    posts = [post(number, WEATHER) for number in range(1, len(cases) + 1)]
    await library.desk.save(*posts)
    events_of_posts = await library.enriched()
    for one, initial, (order, together, stored) in zip(posts, events_of_posts, cases, strict=True):
        retagged = replace(initial, trigger=Trigger.VISION_RETAG, tags=("хоккей",), topics=("sport",))
        events = [(initial, retagged)[place] for place in order]
        if stored:
            await save_tags([retagged], enrichments=library.desk.enrichments)
        for some in [events] if together else [[one] for one in events]:
            await library.index(some)
        node = await library.node(one)
        assert (node.tags, node.topics) == (("хоккей",), ("sport",)), (order, together, stored)


async def test_a_deleted_post_leaves_both_indexes_and_a_late_event_does_not_bring_it_back(library: Library) -> None:
    """G5. A post that comes back is found again."""
    one, other = post(1, WEATHER), post(2, FOOTBALL)
    await library.desk.save(one, other)
    events = await library.enriched()
    await library.index(events)
    await library.desk.delete(one)
    (removed,) = await library.unindex()
    assert removed == Done(note="removed from the indexes")
    assert await library.everywhere(one) == (False, False)
    (late, _) = await library.index(events)
    assert isinstance(late, Skip)
    assert "deleted" in str(late)
    assert await library.everywhere(one) == (False, False)
    assert await library.posts() == ([other.id], 1)
    await library.through(one)  # restored
    assert await library.everywhere(one) == (True, True)
    assert (await library.node(one)).tags == events[0].tags


async def test_a_deletion_that_is_out_of_date_removes_nothing(library: Library) -> None:
    one = post(1, WEATHER)
    await library.through(one)
    await library.desk.delete(one)
    await library.through(one)
    (outcome,) = await library.unindex()
    assert isinstance(outcome, Skip)
    assert await library.everywhere(one) == (True, True)


@pytest.mark.parametrize("retention", ["keep", "redact", "mirror"])
async def test_a_private_channels_deleted_post_leaves_the_indexes_of_its_tenant(
    library: Library, retention: str
) -> None:
    """G5, G7: with `mirror` no row is left that says whose it was."""
    desk = library.desk
    desk.retention = retention
    await desk.change("INSERT INTO tenants (id, name) VALUES (:id, 'seven')", id=TENANT)
    await desk.open_channel(PRIVATE, username=None, tenant=TENANT)
    secret, public = post(1, WEATHER, channel_id=PRIVATE), post(1, WEATHER)
    await library.through(secret)
    await library.through(public)
    assert await library.everywhere(secret, TENANT) == (True, True)
    assert await library.everywhere(secret) == (False, False)
    await desk.delete(secret)
    await desk.delete(public)
    events = await desk.told(POSTS_DELETED)
    assert [event.tenant_id for event in events] == [TENANT, SYSTEM]
    outcomes = await unindex_posts(events, indexes=library.indexes)
    assert [type(outcome) for outcome in outcomes] == [Done, Done]
    assert await library.everywhere(secret, TENANT) == (False, False)
    assert await library.everywhere(public) == (False, False)
    assert await library.posts(TENANT) == ([], 0)


async def test_late_vision_reindexes_and_does_not_lose_the_tags(library: Library) -> None:
    """LESSONS 21. Also while the tags are not stored yet: `tag_persistence` may be slower than we are."""
    desk, one = library.desk, photo(1, WEATHER)
    await library.through(one)
    before = await library.node(one)
    assert (before.images, bool(before.tags)) == ((), True)
    sha256 = await desk.store(one, drawing(1))
    await desk.pictures.put(sha256, HALL, identity=MODEL)
    events = [analyzed(event) for event in await desk.told(MEDIA_SETTLED)]
    (outcome,) = await index_seen(events, indexes=library.indexes)
    assert isinstance(outcome, Done)
    after = await library.node(one)
    assert after.images == (Image(sha256=sha256, labels=("hall", "crowd")),)
    assert after == replace(before, images=after.images)


async def test_where_vision_read_words_retagging_brings_the_post(library: Library) -> None:
    desk, one = library.desk, photo(1, WEATHER)
    await desk.save(one)
    (initial,) = await library.enriched()
    await library.index([initial])
    sha256 = await desk.store(one, drawing(1))
    await desk.pictures.put(sha256, LETTER, identity=MODEL)
    (outcome,) = await index_seen(
        [analyzed(event) for event in await desk.told(MEDIA_SETTLED)], indexes=library.indexes
    )
    assert isinstance(outcome, Skip)
    assert not str(outcome), "it is no step of its own: the one that counts comes"
    await library.index([replace(initial, trigger=Trigger.VISION_RETAG)])
    assert (await library.node(one)).images[0].sha256 == sha256
    await library.through(post(2, WEATHER))
    assert await library.nearest(FOOTBALL) == one.id


async def test_a_page_that_was_read_belongs_to_the_post(library: Library) -> None:
    one, address = post(1, WEATHER), "https://news.example/1"
    await library.desk.save(one)
    events = await library.enriched()
    await library.index(events)
    await library.desk.pages.save(Page(url=address, title="Кубок", text=FOOTBALL))
    assert await library.desk.pages.link(one.id, one.content_hash, [(address, address)], among=[address])
    await library.index([replace(events[0], pages=(address,))])
    assert (await library.node(one)).pages == (WebPage(url=address, title="Кубок"),)
    await library.through(post(2, WEATHER))
    assert await library.nearest(FOOTBALL) == one.id


async def test_an_album_is_found_by_what_its_pictures_show(library: Library) -> None:
    one = photo(1, "Альбом", grouped_id=900)
    await library.through(one, post(2, WEATHER))
    summary = {"vision_summary": "meme: 3", "vision_ocr_text": FOOTBALL}
    await library.desk.enrichments.save(ALBUM, [Enrichment(one.id, one.content_hash, summary, "album_assembler")])
    event = AlbumAssembled(
        trace_id="t",
        occurred_at=utc_now(),
        idempotency_key="k",
        tenant_id=SYSTEM,
        channel_id=CHANNEL,
        album_id=uuid4(),
        post_id=one.id,
        items_count=1,
        items_analyzed=1,
        partial=False,
        vision_summary="meme: 3",
        vision_labels=(),
        vision_ocr_text=FOOTBALL,
        has_meme=True,
        has_text=True,
        assembly_lag_seconds=1.0,
    )
    (told,) = events_of(await index_albums([event], indexes=library.indexes))
    assert told.content_hash == one.content_hash
    assert await library.nearest("футбольный матч и вратарь") == one.id


@dataclass
class Interrupted:
    """An embedder during whose work something happens, as in another process; or that is away."""

    embedder: Embedder
    meanwhile: Callable[[], Awaitable[object]]

    @property
    def identity(self) -> Identity:
        return self.embedder.identity

    @property
    def size(self) -> int:
        return self.embedder.size

    async def embed(self, texts: Sequence[str]) -> Embedded:
        await self.meanwhile()
        return await self.embedder.embed(texts)


async def test_what_another_process_did_meanwhile_is_not_undone(library: Library) -> None:
    """G5: one is deleted and one edited, and both events are through, while an older state is being written."""
    gone, edited = post(1, WEATHER), post(2, WEATHER)
    await library.desk.save(gone, edited)
    events = await library.enriched()
    other = replace(library.indexes)

    async def meanwhile() -> None:
        if (await library.desk.delete(gone)).changed:
            await library.desk.save(post(2, FOOTBALL))
            await library.index(await library.enriched())
            await library.unindex()

    library.indexes = other
    slow = replace(other, embedder=Interrupted(other.embedder, meanwhile))
    await index_posts(events, indexes=slow)
    assert await library.everywhere(gone) == (False, False)
    assert await library.nearest("футбольный матч") == edited.id
    assert "weather" not in (await library.node(edited)).topics


@dataclass
class Held:
    """A vector index that is slow to remove: meanwhile something happens."""

    vectors: Vectors
    meanwhile: Callable[[], Awaitable[object]]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.vectors, name)

    async def remove(self, tenant_id: UUID, post_ids: Sequence[UUID]) -> None:
        await self.meanwhile()
        await self.vectors.remove(tenant_id, post_ids)


@pytest.mark.parametrize("retention", ["keep", "mirror"])
async def test_a_post_that_comes_back_while_it_is_removed_stays(library: Library, retention: str) -> None:
    """G5: another process has put it back already when this one takes it out, and nobody would tell of it again."""
    library.desk.retention = retention
    one, other = post(1, WEATHER), library.indexes
    await library.through(one)
    await library.desk.delete(one)

    async def meanwhile() -> None:
        if (await library.desk.save(one)).changed:
            await index_posts(await library.enriched(), indexes=other)

    library.indexes = replace(other, vectors=cast("Vectors", Held(other.vectors, meanwhile)))
    await library.unindex()
    library.indexes = other
    assert await library.everywhere(one) == (True, True)


@pytest.mark.parametrize("retention", ["keep", "mirror"])
async def test_a_post_that_is_deleted_while_it_is_embedded_anew_stays_out(library: Library, retention: str) -> None:
    """Another model embeds everything in the background."""
    library.desk.retention = retention
    gone = post(1, WEATHER)
    await library.through(gone)

    async def meanwhile() -> None:
        if (await library.desk.delete(gone)).changed:
            await library.unindex()

    slow = replace(library.indexes, embedder=Renamed(library.indexes.embedder, meanwhile))
    await slow.put_vectors([gone.id])
    assert [piece async for piece in slow.vectors.ids(SYSTEM, slow.model)] in ([], [[]])


class Renamed(Interrupted):
    """The same under another name: another generation of vectors."""

    @property
    def identity(self) -> Identity:
        return Identity("local", "another")


async def test_lesson_19_a_model_that_is_away_means_later(library: Library) -> None:
    async def away() -> None:
        raise Retry("the model is away")

    await library.desk.save(post(1, WEATHER))
    indexes = replace(library.indexes, embedder=Interrupted(library.indexes.embedder, away))
    events = await library.enriched()
    with pytest.raises(Retry, match="away"):
        await index_posts(events, indexes=indexes)
    assert await library.everywhere(post(1)) == (False, False)
