"""An entry of the indexes: everything that is known of a post, read from the tables now; and its full-text document."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from telegram_assistant.bus.supervisor import Task
from telegram_assistant.domain.events import PostEnriched
from telegram_assistant.domain.models import Entity, EntityKind, Seen
from telegram_assistant.domain.query import Mark
from telegram_assistant.index.graph import Image, PostNode, WebPage
from telegram_assistant.index.vectors import Point
from telegram_assistant.language.documents import Document, Source, make_document, parts_of
from telegram_assistant.language.lexemes import Lexicon
from telegram_assistant.language.stories import Rarity
from telegram_assistant.language.taxonomy import ADS
from telegram_assistant.log import get_logger
from telegram_assistant.stages.tagging import TAGS, picture_words, save_tags
from telegram_assistant.stores.postgres.enrichment import Enrichments, Pictures, StoredPost, StoredPosts
from telegram_assistant.stores.postgres.pages import Pages, StoredPage
from telegram_assistant.stores.postgres.search import SearchDocuments

ALBUM = "album"
LONGEST_PAGE = 2000  # characters of a page that say what it is about
LONGEST = 12_000
AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class Entry:
    """One post for both indexes."""

    post: StoredPost
    tags_row: Mapping[str, Any]
    pictures: Sequence[tuple[str, Seen]]
    pages: Sequence[StoredPage]
    album: Mapping[str, Any]

    @property
    def post_id(self) -> UUID:
        return self.post.post_id

    @property
    def tenant_id(self) -> UUID:
        return self.post.tenant_id

    @property
    def channel_id(self) -> int:
        return self.post.channel_id

    @property
    def content_hash(self) -> str:
        return self.post.content_hash

    @property
    def deleted(self) -> bool:
        return self.post.deleted

    @property
    def tags(self) -> tuple[str, ...]:
        return tuple(self.tags_row.get("tags", ()))

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(self.tags_row.get("topics", ()))

    @property
    def entities(self) -> tuple[Entity, ...]:
        return tuple(Entity(EntityKind(one["kind"]), one["name"]) for one in self.tags_row.get("entities", ()))

    @property
    def poll_words(self) -> str:
        poll = self.post.details.get("poll") or {}
        return "\n".join([str(poll.get("question", "")), *map(str, poll.get("answers", ()))])

    @property
    def album_words(self) -> str:
        return "\n".join(str(self.album.get(part) or "") for part in ("vision_summary", "vision_ocr_text"))

    @property
    def page_words(self) -> list[str]:
        return [f"{page.title}\n{page.description or page.text[:LONGEST_PAGE]}" for page in self.pages if page.text]

    @property
    def text(self) -> str:
        """Of post, poll, pictures, album and pages. One without any word is found by where it stands (LESSONS 21)."""
        seen = picture_words(self.pictures)
        parts = [self.post.text, self.poll_words, seen, self.album_words.strip(), *self.page_words]
        whole = "\n\n".join(part for part in parts if part.strip())[:LONGEST]
        return whole or " ".join([self.post.channel_title, *sorted({file.kind for file in self.post.files})])

    @property
    def has(self) -> tuple[str, ...]:
        found = {file.kind for file in self.post.files}
        if self.post.urls:
            found.add("link")
        if self.post.album_id is not None:
            found.add("album")
        return tuple(sorted(found))

    def point(self, vector: Sequence[float], text_hash: str) -> Point:
        return Point(
            post_id=self.post_id,
            vector=vector,
            text_hash=text_hash,
            channel_id=self.channel_id,
            posted_at=self.post.posted_at,
            language=str(self.tags_row.get("language", "")),
            tags=tuple(tag.casefold() for tag in self.tags),  # as queries have them
            topics=tuple(topic.casefold() for topic in self.topics),
            has=self.has,
            album_id=self.post.album_id,
            forwarded=bool(self.post.details.get("forward")),
            edited=self.post.edited,
        )

    def node(self) -> PostNode:
        channel_id, message_id = self.post.forward
        return PostNode(
            tenant_id=self.tenant_id,
            post_id=self.post_id,
            channel_id=self.channel_id,
            channel_title=self.post.channel_title,
            message_id=self.post.message_id,
            posted_at=self.post.posted_at,
            tags=self.tags,
            topics=self.topics,
            images=tuple(Image(sha256=sha256, labels=seen.labels) for sha256, seen in self.pictures),
            pages=tuple(WebPage(url=page.url, title=page.title) for page in self.pages if page.problem is None),
            entities=self.entities,
            forwarded_channel_id=channel_id,
            forwarded_message_id=message_id,
            replies_to=self.post.replies_to,
            album_id=self.post.album_id,
        )


class EntryReader:
    """Reads a batch of entries with one statement per table."""

    def __init__(self, stored_posts: StoredPosts, enrichments: Enrichments, pages: Pages, pictures: Pictures) -> None:
        self._stored_posts = stored_posts
        self._enrichments = enrichments
        self._pages = pages
        self._pictures = pictures

    async def store_tags(self, events: Sequence[PostEnriched]) -> None:
        """They may come here before they are stored, and who reads the post next must not find it without them."""
        await save_tags(events, enrichments=self._enrichments)

    async def read(self, post_ids: Sequence[UUID]) -> dict[UUID, Entry]:
        posts = await self._stored_posts.read(post_ids)
        rows = await self._enrichments.of_posts(TAGS, post_ids)
        tags = {
            id_: row.data for id_, row in rows.items() if id_ in posts and row.content_hash == posts[id_].content_hash
        }
        albums = await self._enrichments.of_posts(ALBUM, post_ids)
        pages = await self._pages.of_posts(post_ids)
        pictures = await self._pictures.of_posts(list(posts.values()))
        return {
            id_: Entry(
                post=post,
                tags_row=tags.get(id_, {}),
                pictures=pictures.get(id_, ()),
                pages=pages.get(id_, ()),
                album=albums[id_].data if id_ in albums else {},
            )
            for id_, post in posts.items()
        }

    async def pictures(self, post_ids: Sequence[UUID]) -> dict[UUID, list[tuple[str, Seen]]]:
        return await self._pictures.of_posts(list((await self._stored_posts.read(post_ids)).values()))


class TextIndex:
    """Writes documents, and only those that changed: finding the dictionary forms of words is most of the work."""

    def __init__(self, documents: SearchDocuments, lexicon: Lexicon) -> None:
        self._documents = documents
        self._lexicon = lexicon
        self._rarity: Rarity | None = None
        self.changed = 0  # documents since it began

    async def put(self, entries: Collection[Entry]) -> None:
        """Deleted ones too, as far as anything of them is kept: `is:deleted` finds them, and nothing else does."""
        sources = [source_of(entry) for entry in entries]
        for start in range(0, len(sources), AT_ONCE):
            await self._put(sources[start : start + AT_ONCE])

    async def put_words(self, post_ids: Sequence[UUID], reader: EntryReader) -> set[UUID]:
        """As the posts are now, before models look at them; which of them there are.

        A document that another wrote since we looked may know more than we do: then we look again.
        """
        found: set[UUID] = set()
        left = list(dict.fromkeys(post_ids))
        while left:
            known = await self._documents.known(left)
            entries = await reader.read(left)
            found |= set(entries)
            digests = {id_: digest for id_, (digest, _) in known.items()}
            sources = [source_of(entry) for entry in entries.values()]
            made = await self._make([one for one in sources if digests.get(one.post_id) != one.digest], whole=False)
            written = await self._documents.put(made, over=digests)
            self.changed += len(written)
            left = [document.post_id for document in made if document.post_id not in written]
        return found

    async def _put(self, sources: Sequence[Source]) -> None:
        known = await self._documents.known([source.post_id for source in sources])
        same = {source.post_id: source.digest for source in sources}
        same = {id_: digest for id_, digest in same.items() if id_ in known and known[id_][0] == digest}
        made = await self._make([source for source in sources if source.post_id not in same], whole=True)
        self.changed += len(await self._documents.put(made))
        await self._documents.complete({id_: digest for id_, digest in same.items() if not known[id_][1]})

    async def _make(self, sources: Sequence[Source], *, whole: bool) -> list[Document]:
        if not sources:
            return []
        rarity = self._rarity or await self.learn()
        return await asyncio.to_thread(
            lambda: [make_document(one, self._lexicon, rarity, whole=whole) for one in sources]
        )

    async def learn(self) -> Rarity:
        """How rare words are, as they were counted last."""
        self._rarity = await self._documents.rarity()
        return self._rarity


def source_of(entry: Entry) -> Source:
    """What can be found of a post, and how much each part of it weighs."""
    post = entry.post
    sections = [("A", post.text), ("A", entry.poll_words), ("B", "\n".join(entry.tags))]
    sections += [("C", picture_words(entry.pictures)), ("C", entry.album_words)]
    parts = parts_of([*sections, *(("D", page) for page in entry.page_words)])
    forwarded = bool(post.details.get("forward"))
    marks = [(Mark.EDITED, post.edited), (Mark.FORWARDED, forwarded), (Mark.DELETED, post.deleted)]
    marks.append((Mark.AD, ADS in entry.topics))
    return Source(
        post_id=post.post_id,
        channel_id=post.channel_id,
        posted_at=post.posted_at,
        text=post.text,
        parts=parts or parts_of([("D", post.channel_title)]),
        album_id=post.album_id,
        language=str(entry.tags_row.get("language", "")),
        tags=entry.tags,
        topics=entry.topics,
        has=entry.has,
        marks=tuple(mark for mark, is_set in marks if is_set),
    )


EVERY = 15.0  # seconds
BATCH = 200
BREATH = 0.2  # between two batches: new posts come first
LOOK_AGAIN = 60.0  # after a look that found some: a former version that still runs makes more of them
LOOK_EVERY = 3600.0  # for posts without a document: indexing itself makes one for each
COUNT_EVERY = 6 * 3600.0
GROWN = 0.1  # by this share: words are counted anew

log = get_logger(__name__)


@dataclass
class SearchUpkeep:
    """Several processes may do it at once: each document is written once, and counts are the same."""

    texts: TextIndex
    documents: SearchDocuments
    entries: EntryReader
    counted: int = 0  # documents at the last count
    counted_at: float | None = None
    changed: int = 0  # documents that had been written by then

    async def run(self, task: Task) -> None:
        """A supervised job."""
        task.ready()
        loop = asyncio.get_running_loop()
        look_at = loop.time()
        while True:
            if loop.time() >= look_at:
                made = await self.fill(task)
                look_at = loop.time() + (LOOK_AGAIN if made else LOOK_EVERY)
            await self.count(loop.time())
            task.progress()
            await asyncio.sleep(EVERY)

    async def fill(self, task: Task | None = None) -> int:
        """Make the documents of posts that were indexed before there were any, or by an older version."""
        done = 0
        before: list[UUID] = []
        while (missing := await self.documents.missing(limit=BATCH)) and missing != before:
            await self._make(missing)
            done += len(missing)
            before = missing  # the same again: nothing can be made of them now
            if task is not None:
                task.progress()
            await asyncio.sleep(BREATH)
        if done:
            log.info("search_documents_made", posts=done)
        return done

    async def _make(self, post_ids: Sequence[UUID]) -> None:
        """A post that was edited or deleted while we wrote is written anew: its event may have been quicker than us."""
        entries = await self.entries.read(post_ids)
        while entries:
            await self.texts.put(entries.values())
            now = await self.entries.read(list(entries))
            entries = {id_: entry for id_, entry in now.items() if entry != entries[id_]}

    async def count(self, now: float) -> bool:
        """Whether it was time to count."""
        grown = self.texts.changed - self.changed
        due = self.counted_at is None or now >= self.counted_at + COUNT_EVERY
        if not due and grown <= max(20, GROWN * self.counted):
            return False
        self.changed = self.texts.changed
        self.counted = await self.documents.count_terms()
        await self.texts.learn()
        self.counted_at = now
        return True
