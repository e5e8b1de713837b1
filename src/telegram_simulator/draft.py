"""A text that grows piece by piece and keeps its entities where Telegram wants them: in UTF-16 code units."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from telegram_simulator.model import Entity
from telegram_simulator.phrasebook import Facts, Phrasebook, Sentence

POST_LIMIT = 4096
CAPTION_LIMIT = 1024
Written: TypeAlias = tuple[str, tuple[Entity, ...]]


def units(text: str) -> int:
    """The length of a text as Telegram counts it."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) >> 1


class Draft:
    """Pieces of text and the entities over them."""

    def __init__(self, limit: int = POST_LIMIT) -> None:
        self.limit = limit
        self.length = 0
        self._parts: list[str] = []
        self._entities: list[Entity] = []

    def add(self, text: str, kind: str = "", url: str | None = None) -> None:
        start = self.length
        self._parts.append(text)
        self.length += units(text)
        if kind:
            self._entities.append(Entity(kind, start, self.length - start, url))

    def mark(self, kind: str, start: int) -> None:
        """Format everything from `start` to here."""
        self._entities.append(Entity(kind, start, self.length - start))

    def say(self, book: Phrasebook, sentence: Sentence, facts: Facts) -> None:
        """Add a sentence with its facts filled in and its first letter large."""
        opened: dict[str, int] = {}
        first = True
        for token in sentence:
            if token.mark:
                if token.mark in opened:
                    self.mark(token.mark, opened.pop(token.mark))
                else:
                    opened[token.mark] = self.length
                    first = first and token.mark != "code"
                continue
            text = book.fill(token, facts)
            self.add(text[0].upper() + text[1:] if first else text)
            first = False

    def plain(self) -> str:
        return "".join(self._parts)

    def written(self) -> Written:
        """The text and its entities in order, cut to the limit."""
        entities = tuple(sorted(self._entities, key=_place)) if len(self._entities) > 1 else tuple(self._entities)
        return (self.plain(), entities) if self.length <= self.limit else clip(self.plain(), entities, self.limit)


def _place(entity: Entity) -> tuple[int, int]:
    return entity.offset, -entity.length


def clip(text: str, entities: tuple[Entity, ...], limit: int) -> Written:
    """Cut a text that is too long, with an ellipsis at its end, never inside a character."""
    if units(text) <= limit:
        return text, entities
    raw = text.encode("utf-16-le")[: 2 * (limit - 1)]
    kept = raw.decode("utf-16-le", errors="ignore").rstrip()  # ignore: half of a surrogate pair
    end = units(kept)
    inside = (replace(e, length=min(e.length, end - e.offset)) for e in entities if e.offset < end)
    return f"{kept}…", tuple(inside)


def shifted(entities: tuple[Entity, ...], by: int) -> tuple[Entity, ...]:
    """The same entities after `by` code units were put in front."""
    return tuple(replace(e, offset=e.offset + by) for e in entities)
