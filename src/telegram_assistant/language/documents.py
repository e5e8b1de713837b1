"""A post as the full-text index keeps it, and as a search finds it again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from uuid import UUID

import msgspec

from telegram_assistant.domain.query import Mark
from telegram_assistant.language.clean import plain
from telegram_assistant.language.lexemes import Lexicon, Part, pieces, vector_text
from telegram_assistant.language.signatures import signature
from telegram_assistant.language.stories import EVEN, Rarity, Telling, keys_of, outline_of

VERSION = 3  # grows with every change of what documents are made of: then all are made anew when they are told of
_HEX = "\\x"
WORDS_ONLY = 0  # instead of a version: models have not yet said what they know of the post


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """All that a document is made from."""

    post_id: UUID
    channel_id: int
    posted_at: datetime
    text: str  # what the post itself says
    parts: tuple[Part, ...]  # everything that can be found, with its weight
    album_id: UUID | None = None
    language: str = ""
    tags: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    has: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """Equal for what makes an equal document: the costly work is done once."""
        return self.digest_by(VERSION)

    def digest_by(self, version: int) -> str:
        """As code of that version reckons it."""
        return sha256(msgspec.json.encode((version, self))).hexdigest()


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the index, named as its columns are."""

    post_id: UUID
    channel_id: int
    posted_at: datetime
    album_id: UUID | None
    language: str
    tags: tuple[str, ...]
    topics: tuple[str, ...]
    has: tuple[str, ...]
    marks: tuple[str, ...]
    deleted: bool
    length: int
    signature: str  # as PostgreSQL writes bytes
    outline: str  # the same
    words: str
    forms: str
    digest: str
    version: int
    story_id: UUID | None = None  # once it is placed

    def telling(self) -> Telling:
        numbers, outline = (bytes.fromhex(written.removeprefix(_HEX)) for written in (self.signature, self.outline))
        return Telling(self.post_id, self.channel_id, self.posted_at, numbers, outline)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A document that may be what is looked for; `ranks` says how well it fits each clause of the query."""

    post_id: UUID
    channel_id: int
    posted_at: datetime
    album_id: UUID | None
    length: int
    story_id: UUID | None  # None: it says too little to be told from others
    ranks: Sequence[float]
    language: str = ""


@dataclass(frozen=True, slots=True)
class Changed:
    """That a document was written: the last time, and the first."""

    post_id: UUID
    changed_at: datetime
    indexed_at: datetime
    posted_at: datetime
    whole: bool  # not only the words so far


def make_document(source: Source, lexicon: Lexicon, rarity: Rarity = EVEN, *, whole: bool = True) -> Document:
    """Takes a millisecond or so; words that were not met before take longer."""
    lexemes = lexicon.lexemes(source.parts)
    text = plain(source.text)
    numbers, outline = signature(list(pieces(text))), outline_of(lexicon.telling(text), rarity)
    telling = Telling(source.post_id, source.channel_id, source.posted_at, numbers, outline)
    keys: dict[str, list[str]] = defaultdict(list)
    for key in (*filter_keys(source), *keys_of(telling)):
        keys[key] = []
    return Document(
        post_id=source.post_id,
        channel_id=source.channel_id,
        posted_at=source.posted_at,
        album_id=source.album_id,
        language=source.language,
        tags=tuple(tag.casefold() for tag in source.tags),
        topics=tuple(topic.casefold() for topic in source.topics),
        has=source.has,
        marks=source.marks,
        deleted=Mark.DELETED in source.marks,
        length=lexemes.length,
        signature=_HEX + numbers.hex(),
        outline=_HEX + outline.hex(),
        words=lexemes.words,
        forms=f"{lexemes.forms} {vector_text(keys)}",
        digest=source.digest,
        version=VERSION if whole else WORDS_ONLY,
    )


def filter_keys(source: Source) -> Iterator[str]:
    """Filters are words too: so one index answers for words and filters together."""
    yield channel_key(source.channel_id)
    yield month_key(source.posted_at)
    for name, values in (("tag", source.tags), ("topic", source.topics), ("has", source.has), ("is", source.marks)):
        yield from (filter_key(name, value) for value in values)
    if source.language:
        yield filter_key("lang", source.language)


def channel_key(channel_id: int) -> str:
    return f"channel:{channel_id}"


def month_key(moment: datetime) -> str:
    """Posts of a month share it, in UTC: so the newest can be looked up first."""
    return f"month:{moment.astimezone(UTC):%Y-%m}"


def filter_key(name: str, value: str) -> str:
    """No word has a colon in it."""
    return f"{name}:{value.casefold()[:200]}"


def parts_of(sections: Sequence[tuple[str, str]]) -> tuple[Part, ...]:
    """Texts with their weights, without the empty ones."""
    return tuple(Part(text, weight) for weight, text in sections if text.strip())
