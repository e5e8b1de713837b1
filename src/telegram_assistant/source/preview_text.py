"""The text of a post on a public preview page: HTML in, text and formatting as Telegram counts them out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from lxml import etree

from telegram_assistant.domain.text import Entity, EntityKind, clean_text

_TAGS = {
    "b": EntityKind.BOLD,
    "strong": EntityKind.BOLD,
    "i": EntityKind.ITALIC,
    "em": EntityKind.ITALIC,
    "u": EntityKind.UNDERLINE,
    "s": EntityKind.STRIKE,
    "strike": EntityKind.STRIKE,
    "del": EntityKind.STRIKE,
    "code": EntityKind.CODE,
    "pre": EntityKind.PRE,
    "blockquote": EntityKind.BLOCKQUOTE,
    "tg-spoiler": EntityKind.SPOILER,
    "tg-emoji": EntityKind.CUSTOM_EMOJI,
}
_NO_TEXT = frozenset({"script", "style", "svg", "img", "canvas"})
_LINE_OF_MARKUP = re.compile(r"[ \t]*[\r\n]\s*")  # Telegram writes a new line as <br>: a raw one is only markup
_SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_PERSON = re.compile(r"tg://user\?id=(\d{1,20})")
_LANGUAGE = "language-"
_DEEPEST = 200


def classes(node: Any) -> set[str]:
    """The classes of an element."""
    return set((node.get("class") or "").split())


class Parts:
    """An element with what lies in it, by class: looked through once, for a page is asked for many classes."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self._found: dict[str, list[Any]] = {}
        for node in root.iterdescendants(etree.Element):
            for name in (node.get("class") or "").split():
                self._found.setdefault(name, []).append(node)

    def all(self, name: str) -> list[Any]:
        return self._found.get(name, [])

    def first(self, name: str) -> Any:
        return next(iter(self.all(name)), None)

    def words(self, name: str) -> str | None:
        found = self.first(name)
        return None if found is None else plain(found) or None

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)


def formatted(node: Any) -> tuple[str, tuple[Entity, ...]]:
    """What an element says, and how it is formatted."""
    text = _Text()
    text.inside(node)
    return text.written()


def plain(node: Any) -> str:
    """What an element says, on one line."""
    return clean_text(" ".join(node.text_content().replace("\xa0", " ").split()))


class _Text:
    """A text that grows piece by piece; offsets count UTF-16 code units."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0
        self._last = "\n"
        self._entities: list[Entity] = []

    def inside(self, node: Any, *, raw: bool = False, depth: int = 0) -> None:
        self._add(node.text, raw=raw)
        for child in node:
            if isinstance(child.tag, str) and depth < _DEEPEST:
                self._element(child, raw=raw, depth=depth + 1)
            self._add(child.tail, raw=raw)

    def written(self) -> tuple[str, tuple[Entity, ...]]:
        """Without blanks at its end, and without formatting of nothing."""
        text = "".join(self._parts).rstrip()
        end = _units(text)
        found = [replace(one, length=min(one.length, end - one.offset)) for one in self._entities if one.offset < end]
        found.sort(key=lambda one: (one.offset, -one.length))
        return text, tuple(one for one in found if one.length > 0)

    def _element(self, node: Any, *, raw: bool, depth: int) -> None:
        if node.tag == "br":
            self._add("\n", raw=True)
            return
        if node.tag in _NO_TEXT:
            return
        kind = _kind(node, in_block=raw)
        if kind is None and node.tag != "a":
            self._emoji(node) if "emoji" in classes(node) else self.inside(node, raw=raw, depth=depth)
            return
        start, place = self._length, len(self._entities)
        self.inside(node, raw=raw or kind is EntityKind.PRE, depth=depth)
        if self._length > start:
            label = "".join(self._parts).encode("utf-16-le")[2 * start :].decode("utf-16-le", "replace")
            entity = _link(node, label) if kind is None else Entity(kind, 0, 0, detail=_detail(node, kind))
            if entity is not None:
                # What it lies in comes first, as it does in Telegram.
                self._entities.insert(place, replace(entity, offset=start, length=self._length - start))

    def _emoji(self, node: Any) -> None:
        """A picture of an emoji with the emoji itself in it, drawn with tags that are no formatting here."""
        self._add(node.text_content().strip(), raw=True)

    def _add(self, text: str | None, *, raw: bool) -> None:
        if not text:
            return
        text = clean_text(text)
        if not raw:
            text = _LINE_OF_MARKUP.sub("\n", text)
            pieces = text.split("\n")
            text = " ".join(pieces)
            if len(pieces) > 1 and not pieces[0] and self._last.isspace():
                text = text[1:]  # the markup was broken where the text has a blank or a new line anyway
        if not self._length:
            text = text.lstrip()
        if text:
            self._parts.append(text)
            self._length += _units(text)
            self._last = text[-1]


def _kind(node: Any, *, in_block: bool) -> EntityKind | None:
    if "emoji" in classes(node) or (in_block and node.tag == "code"):
        return None
    if node.tag == "span" and "tg-spoiler" in classes(node):
        return EntityKind.SPOILER
    return _TAGS.get(node.tag)


def _detail(node: Any, kind: EntityKind) -> str | None:
    if kind is EntityKind.CUSTOM_EMOJI:
        return node.get("emoji-id") or None
    if kind is EntityKind.PRE:
        named = (name for one in (node, *node.iter("code")) for name in classes(one) if name.startswith(_LANGUAGE))
        return next(named, "").removeprefix(_LANGUAGE) or None
    return None


def _link(node: Any, label: str) -> Entity | None:
    """What an address with such words is to Telegram."""
    href = clean_text((node.get("href") or "").strip())
    person = _PERSON.match(href)
    if not href or person:
        return Entity(EntityKind.TEXT_MENTION, 0, 0, detail=person[1]) if person else None
    kinds = (
        (EntityKind.CASHTAG, "?q=" in href and label.startswith("$")),
        (EntityKind.HASHTAG, "?q=" in href and label.startswith("#")),
        (EntityKind.EMAIL, href.lower().startswith("mailto:")),
        (EntityKind.PHONE, href.lower().startswith("tel:")),
        (EntityKind.MENTION, label.startswith("@") and _bare(href).rpartition("/")[2] == label[1:].lower()),
        (EntityKind.URL, _bare(href) == _bare(label)),
    )
    kind = next((kind for kind, holds in kinds if holds), EntityKind.TEXT_URL)
    return Entity(kind, 0, 0, url=href if kind is EntityKind.TEXT_URL else None)


def _bare(address: str) -> str:
    return unquote(_SCHEME.sub("", address)).rstrip("/").lower()


def _units(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
