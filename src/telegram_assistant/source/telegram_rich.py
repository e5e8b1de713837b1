"""Posts that are written as a page of blocks: what of them is text, links and files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from telethon.tl import TLObject, types

from telegram_assistant.domain.post import Media
from telegram_assistant.domain.text import Link, clean_text
from telegram_assistant.source.telegram_media import document_of, photo_of

_RICH_TEXT = types.TextPlain.SUBCLASS_OF_ID


def rich_text(rich: Any) -> str:
    """A line for each piece of text, in the order of the page. Its formatting is not kept."""
    lines = (_plain(text) for text in _texts(rich.blocks))
    return clean_text("\n".join(line for line in lines if line.strip()))


def rich_links(rich: Any) -> tuple[Link, ...]:
    """The addresses behind the text, each once."""
    found: dict[str, Link] = {}
    for text in _texts(rich.blocks):
        for part in _parts(text):
            if isinstance(part, types.TextUrl) and part.url:
                found.setdefault(part.url, Link(clean_text(part.url), clean_text(_plain(part.text)), hidden=True))
    return tuple(found.values())


def rich_media(rich: Any) -> tuple[Media, ...]:
    return (*(photo_of(photo) for photo in rich.photos), *(document_of(document) for document in rich.documents))


def _texts(node: Any) -> Iterator[Any]:
    """The outermost rich texts of a block, however deep it is nested."""
    if isinstance(node, list):
        for one in node:
            yield from _texts(one)
    elif isinstance(node, TLObject):
        if node.SUBCLASS_OF_ID == _RICH_TEXT:
            yield node
        else:
            for value in vars(node).values():
                yield from _texts(value)


def _parts(text: Any) -> Iterator[Any]:
    """A rich text and all that is inside it."""
    yield text
    inner = getattr(text, "texts", None) or [getattr(text, "text", None)]
    for one in inner:
        if isinstance(one, TLObject):
            yield from _parts(one)


def _plain(text: Any) -> str:
    words = []
    for part in _parts(text):
        match part:
            case types.TextPlain(text=said):
                words.append(said)
            case types.TextCustomEmoji(alt=said) | types.TextMath(source=said):
                words.append(said)
    return "".join(words)
