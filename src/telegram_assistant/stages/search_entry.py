"""The full-text index as the third of the indexes: entries become documents, deleted posts stay in it as such."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from uuid import UUID

from telegram_assistant.domain.query import Mark
from telegram_assistant.language.documents import Document, Source, make_document, parts_of
from telegram_assistant.language.lexemes import Lexicon
from telegram_assistant.stages.index_entry import LONGEST_PAGE, Entry, EntryReader
from telegram_assistant.stages.picture_words import words
from telegram_assistant.stores.postgres.search import SearchDocuments

AT_ONCE = 100


class TextIndex:
    """Writes documents, and only those that changed: finding the dictionary forms of words is most of the work."""

    def __init__(self, documents: SearchDocuments, lexicon: Lexicon) -> None:
        self._documents = documents
        self._lexicon = lexicon
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
            entries = await reader.of(left)
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
        return await asyncio.to_thread(lambda: [make_document(one, self._lexicon, whole=whole) for one in sources])


def source_of(entry: Entry) -> Source:
    """What can be found of a post, and how much each part of it weighs."""
    post = entry.post
    poll = post.details.get("poll") or {}
    asked = "\n".join([str(poll.get("question", "")), *map(str, poll.get("answers", ()))])
    album = "\n".join(str(entry.album.get(part) or "") for part in ("vision_summary", "vision_ocr_text"))
    pages = [f"{page.title}\n{page.description or page.text[:LONGEST_PAGE]}" for page in entry.pages if page.text]
    seen = words(entry.pictures)
    sections = [("A", post.text), ("A", asked), ("B", "\n".join(entry.tags)), ("C", seen), ("C", album)]
    parts = parts_of([*sections, *(("D", page) for page in pages)])
    forwarded = bool(post.details.get("forward"))
    marks = [(Mark.EDITED, post.edited), (Mark.FORWARDED, forwarded), (Mark.DELETED, post.deleted)]
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
