"""Telegram's own view of a message's HTML: what it refuses, and how long the rest is."""

from __future__ import annotations

from html import unescape
from html.parser import HTMLParser

TAGS = frozenset({"b", "strong", "i", "em", "u", "s", "code", "pre", "a", "blockquote", "tg-spoiler"})


class BadMarkup(Exception):
    """What Telegram answers to it."""


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.open: list[str] = []
        self.text = ""
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in TAGS:
            raise BadMarkup(f'Unsupported start tag "{tag}" at byte offset {self.getpos()[1]}')
        self.open.append(tag)
        self.links += [value or "" for name, value in attrs if tag == "a" and name == "href"]

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            raise BadMarkup(f'Unexpected end tag at byte offset {self.getpos()[1]}, found "</{tag}>"')

    def handle_data(self, data: str) -> None:
        if "<" in data:
            raise BadMarkup("Unclosed start tag")
        self.text += data

    def handle_entityref(self, name: str) -> None:
        if name not in {"lt", "gt", "amp", "quot"}:
            raise BadMarkup(f"Unsupported entity {name}")
        self.text += unescape(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self.text += unescape(f"&#{name};")

    def handle_comment(self, data: str) -> None:
        raise BadMarkup(f"Unsupported comment {data}")


def read(html: str) -> tuple[str, list[str]]:
    """The text as it is shown, and its links. Raises BadMarkup."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    if reader.open:
        raise BadMarkup(f'Can\'t find end tag corresponding to start tag "{reader.open[-1]}"')
    return reader.text, reader.links


def units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
