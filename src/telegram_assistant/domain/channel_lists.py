"""Lists of channels as people keep them: names and links in a text, OPML of a feed reader, CSV of a spreadsheet."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol
from xml.etree import ElementTree as ET

from telegram_assistant.domain.channel import parse_ref
from telegram_assistant.domain.text import clean_text

LONGEST_LIST = 200_000  # characters
MOST_ENTRIES = 1_000
LONGEST_SHOWN = 100
LONGEST_GROUP = 64
COLUMNS = ("reference", "username", "link", "url", "channel", "name", "id")
_NAMED = re.compile(
    r"(?:https?://|tg://|(?:www\.)?t(?:elegram)?\.me/|@)[^\s,;<>\"'()\[\]]+|(?<!\w)-100\d{5,}", re.IGNORECASE
)
_NUMBERING = re.compile(r"^\s*(?:[-*•]|\d{1,4}[.)])\s+")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")  # only this ends a row: a cell may hold other separators
_OUTLINE = ("htmlUrl", "xmlUrl", "url", "text", "title")


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a list: the channel that is meant, or why none is."""

    text: str
    reference: str | None = None
    error: str | None = None
    group: str = ""  # the folder of an outline, or a column of a spreadsheet


class Listed(Protocol):
    """A channel that is written into a list."""

    @property
    def id(self) -> int: ...
    @property
    def username(self) -> str | None: ...
    @property
    def title(self) -> str: ...
    @property
    def url(self) -> str | None: ...
    @property
    def group(self) -> str: ...


def read_list(text: str) -> list[Entry]:
    """Each channel once, in the order of the list. Raises ValueError for a list that is too long or broken."""
    if len(text) > LONGEST_LIST:
        raise ValueError(f"the list has {len(text):,} characters, and at most {LONGEST_LIST:,} are read at once")
    entries: dict[str, Entry] = {}
    for words, group in _written(text.lstrip("\ufeff").strip()):
        entry = replace(_entry(words), group=clean_group(group))
        entries.setdefault(entry.reference or entry.text, entry)
        if len(entries) > MOST_ENTRIES:
            raise ValueError(f"the list has more than {MOST_ENTRIES} channels: add them in several parts")
    return list(entries.values())


def _entry(candidates: Sequence[str]) -> Entry:
    """By the first of the candidates that names a channel."""
    errors = []
    for words in candidates:
        try:
            return Entry(_short(words), reference=str(parse_ref(words)))
        except ValueError as exc:
            errors.append(str(exc))
    return Entry(_short(candidates[0]), error=errors[0])


def clean_group(name: str) -> str:
    return " ".join(clean_text(name).split())[:LONGEST_GROUP].strip()


def _written(text: str) -> Iterator[tuple[list[str], str]]:
    """What may name the channel of each entry, and its group."""
    if text.startswith("<"):
        yield from _outlines(_opml(text))
        return
    lines = [line for line in text.splitlines() if line.strip()]
    if lines and (columns := _columns(lines[0])):
        yield from _cells(text, *columns)
        return
    for line in lines:
        found = _NAMED.findall(line)
        for words in found or [_NUMBERING.sub("", line).strip(" \t,;")]:
            yield [words.rstrip(".,;:!?")], ""


def _opml(text: str) -> ET.Element:
    if "<!" in text.replace("<!--", ""):
        raise ValueError("the OPML file declares a document type or entities, which lists have no need of")
    try:
        return ET.fromstring(text)  # noqa: S314 - what makes XML dangerous is refused above
    except ET.ParseError as exc:
        raise ValueError(f"it begins like OPML and is broken: {exc}") from exc


def _outlines(root: ET.Element) -> Iterator[tuple[list[str], str]]:
    """Those with others inside are folders. A loop, for a file may nest them deeper than Python calls itself."""
    left = [(root, "")]
    while left:
        outline, folder = left.pop()
        found = [value for name in _OUTLINE if (value := outline.get(name, "").strip())]
        if found and outline.tag == "outline" and not len(outline):
            yield found, folder
        inside = outline.get("text") or outline.get("title") or folder
        left += [(one, inside) for one in reversed(outline)]


def _columns(first: str) -> tuple[str, list[int]] | None:
    """How a spreadsheet's cells are parted, and which of them name the channel; None: it is no spreadsheet."""
    for mark in ";,\t":
        names = [name.strip().strip('"').casefold() for name in first.split(mark)]
        if found := [names.index(name) for name in COLUMNS if name in names]:
            return mark, found
    return None


def _cells(text: str, mark: str, columns: Sequence[int]) -> Iterator[tuple[list[str], str]]:
    head, *rows = csv.reader(_LINE.findall(text), delimiter=mark)
    names = [name.strip().casefold() for name in head]
    group = names.index("group") if "group" in names else len(head)
    for row in rows:
        found = [row[column].strip() for column in columns if column < len(row) and row[column].strip()]
        if found:
            yield found, "".join(row[group : group + 1])


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def as_opml(channels: Iterable[Listed], title: str) -> str:
    """For feed readers, and for reading in again; a group is a folder."""
    root = ET.Element("opml", version="2.0")
    ET.SubElement(ET.SubElement(root, "head"), "title").text = _printable(title)
    body = ET.SubElement(root, "body")
    folders = {"": body}
    for one in channels:
        if one.group not in folders:
            folders[one.group] = ET.SubElement(body, "outline", {"text": _printable(one.group)})
        known = {"type": "link", "text": _printable(one.title), "htmlUrl": one.url or f"https://t.me/c/{one.id}"}
        ET.SubElement(folders[one.group], "outline", known)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _printable(text: str) -> str:
    """XML has no way to write control characters."""
    return "".join(letter for letter in text if letter >= " " and letter not in "\ufffe\uffff")


class _Rows(list[str]):
    """What `csv` writes to."""

    def write(self, row: str) -> None:
        self.append(row)


def as_csv(channels: Iterable[Listed]) -> str:
    """A spreadsheet takes what begins like a formula for one; an apostrophe keeps it a text."""
    rows = _Rows()
    table = csv.writer(rows, lineterminator="\n")
    table.writerow(("reference", "title", "id", "group"))
    for one in channels:
        table.writerow((one.url or f"https://t.me/c/{one.id}", _safe(one.title), one.id, _safe(one.group)))
    return "".join(rows)


def _safe(text: str) -> str:
    text = _printable(text)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text
