"""The text of a post: formatting entities, the links in it, and what is cleaned away at the edge.

Telegram counts offsets in UTF-16 code units, of which a character outside the basic plane takes two.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass, replace
from enum import StrEnum
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_UTF16 = "utf-16-le"
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.ASCII | re.IGNORECASE)
_HOST_AND_PORT = re.compile(r"[^/?#:]+\.[^/?#:]+:\d", re.ASCII)


class EntityKind(StrEnum):
    """What a stretch of text is."""

    URL = "url"  # an address that is in the text itself
    TEXT_URL = "text_url"  # an address behind the text
    EMAIL = "email"
    PHONE = "phone"
    MENTION = "mention"
    TEXT_MENTION = "text_mention"
    HASHTAG = "hashtag"
    CASHTAG = "cashtag"
    BOT_COMMAND = "bot_command"
    BANK_CARD = "bank_card"
    BOLD = "bold"
    ITALIC = "italic"
    UNDERLINE = "underline"
    STRIKE = "strike"
    SPOILER = "spoiler"
    CODE = "code"
    PRE = "pre"
    BLOCKQUOTE = "blockquote"
    CUSTOM_EMOJI = "custom_emoji"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Entity:
    """A stretch of text with a meaning; offset and length in UTF-16 code units."""

    kind: EntityKind
    offset: int
    length: int
    url: str | None = None  # only of a text_url
    detail: str | None = None  # a code block's language, a mentioned user's id, a custom emoji's id


@dataclass(frozen=True, slots=True)
class Link:
    """An address in a post; hidden when the text shows something else."""

    url: str
    label: str
    hidden: bool = False


def links_of(text: str, entities: Iterable[Entity]) -> tuple[Link, ...]:
    """The links of a text in their order, hidden ones too, each address once."""
    found = [entity for entity in entities if _is_link(entity)]
    if not found:
        return ()
    found.sort(key=attrgetter("offset"))
    units = text.encode(_UTF16, "surrogatepass")
    plain = len(units) == 2 * len(text)  # each character is one unit: no need to decode
    links: dict[str, Link] = {}
    for entity in found:
        start, end = entity.offset, entity.offset + entity.length
        label = text[start:end] if plain else units[2 * start : 2 * end].decode(_UTF16, "replace")
        hidden = entity.kind is EntityKind.TEXT_URL
        url = _with_scheme(((entity.url or "") if hidden else label).strip())
        if url:
            links.setdefault(url, Link(url, label, hidden and label.strip() != url))
    return tuple(links.values())


def clean_text(text: str) -> str:
    """Without what PostgreSQL and UTF-8 refuse: NULs go, lone surrogates become U+FFFD."""
    try:
        text.encode()  # faster than any search
    except UnicodeEncodeError:
        # Through UTF-16, where two halves of a pair that came apart find each other again.
        text = text.encode(_UTF16, "surrogatepass").decode(_UTF16, "replace")
    return text.replace("\0", "")


def clean_message(text: str, entities: Sequence[Entity]) -> tuple[str, tuple[Entity, ...]]:
    """Clean text with its entities, which move to the left where NULs went away before them."""
    cleaned = tuple(_clean_entity(entity) for entity in entities)
    if "\0" not in text:
        return clean_text(text), cleaned
    units = text.encode(_UTF16, "surrogatepass")
    nuls = [at for at in range(len(units) // 2) if units[2 * at : 2 * at + 2] == b"\0\0"]
    moved = (_without_nuls(entity, nuls) for entity in cleaned)
    return clean_text(text), tuple(entity for entity in moved if entity.length > 0)


def _is_link(entity: Entity) -> bool:
    # Not `in`, for hashing an enum is slow, and every entity of every post passes here.
    return (
        (entity.kind is EntityKind.URL or entity.kind is EntityKind.TEXT_URL)
        and entity.offset >= 0
        and entity.length > 0
    )


def _clean_entity(entity: Entity) -> Entity:
    if entity.url is None and entity.detail is None:
        return entity
    url = entity.url and clean_text(entity.url)
    detail = entity.detail and clean_text(entity.detail)
    # Nearly all are clean, and a copy costs more than the look.
    return entity if (url, detail) == (entity.url, entity.detail) else replace(entity, url=url, detail=detail)


def _without_nuls(entity: Entity, nuls: Sequence[int]) -> Entity:
    before = bisect_left(nuls, entity.offset)
    within = bisect_left(nuls, entity.offset + entity.length) - before
    return replace(entity, offset=entity.offset - before, length=entity.length - within)


def _with_scheme(url: str) -> str:
    # Telegram links bare domains and its apps open them with http; sites that want https redirect.
    if not url or (_SCHEME.match(url) and not _HOST_AND_PORT.match(url)):
        return url
    return f"http://{url}"
