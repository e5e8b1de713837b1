"""Long messages in pieces that Telegram takes: cut at the ends of sentences, with every tag closed and reopened."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import unescape

LONGEST = 4_096  # UTF-16 units of a message, without its markup
MOST_TAGS = 90  # Telegram drops the formatting beyond a hundred

_TOKEN = re.compile(r"</?[a-z][^>]*>|&(?:#\d+|#x[0-9a-fA-F]+|[a-z]+);|[^<&]+|[<&]")
_TAG = re.compile(r"<(?P<end>/?)(?P<name>[a-z]+)[^>]*>")
_SENTENCE_END = re.compile(r"(?<=[.!?\u2026])[\"'»”)\]]*\s+|\n+")
_WORD_END = re.compile(r"\s+")


def plain(html: str) -> str:
    """The same without markup."""
    return unescape(_TAG.sub("", html))


def units(html: str) -> int:
    """The length of what is shown, in Telegram's way of counting."""
    text = plain(html)
    return len(text) + sum(ord(char) > 0xFFFF for char in text)


@dataclass
class _Piece:
    """A message while it grows."""

    html: str = ""
    length: int = 0
    tags: int = 0
    open: list[tuple[str, str]] = field(default_factory=list)  # (name, as it was opened)

    def fits(self, part: str, limit: int) -> bool:
        return self.length + units(part.rstrip()) <= limit and self.tags + len(_TAG.findall(part)) / 2 <= MOST_TAGS

    def add(self, part: str) -> None:
        self.html += part
        self.length += units(part)
        for tag in _TAG.finditer(part):
            if not tag["end"]:
                self.tags += 1
                self.open.append((tag["name"], tag[0]))
            elif self.open:
                self.open.pop()

    def closed(self) -> str:
        return self.html.rstrip() + "".join(f"</{name}>" for name, _ in reversed(self.open))

    def following(self) -> _Piece:
        """An empty one, inside the same tags."""
        return _Piece("".join(opening for _, opening in self.open), 0, len(self.open), list(self.open))


def split_html(html: str, *, limit: int = LONGEST) -> list[str]:
    """Well-formed markup in pieces of at most `limit`, none of them empty."""
    pieces = [_Piece()]
    for sentence in _parts(html, _SENTENCE_END):
        parts = [sentence] if units(sentence.rstrip()) <= limit else _words(sentence, limit)
        for part in parts:
            if not pieces[-1].fits(part, limit):
                pieces.append(pieces[-1].following())
            pieces[-1].add(part)
    return [piece.closed() for piece in pieces if plain(piece.html).strip()]


def _parts(html: str, ends: re.Pattern[str]) -> Iterator[str]:
    """The markup cut where its text has such ends: tags and entities belong to the part that they stand in."""
    part = ""
    for token in _TOKEN.findall(html):
        at = 0
        for end in ends.finditer(token) if not token.startswith(("<", "&")) else ():
            yield part + token[at : end.end()]
            part, at = "", end.end()
        part += token[at:]
    if part:
        yield part


def _words(sentence: str, limit: int) -> Iterator[str]:
    """A sentence that is longer than a message."""
    step = limit // 2  # a character takes two units at most
    for word in _parts(sentence, _WORD_END):
        if units(word.rstrip()) <= limit:
            yield word
            continue
        for token in _TOKEN.findall(word):  # one word without an end
            whole = token.startswith(("<", "&"))
            yield from [token] if whole else (token[at : at + step] for at in range(0, len(token), step))
