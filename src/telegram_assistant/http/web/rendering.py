"""A post's text as HTML: formatting from Telegram's entities alone, everything else escaped (G6).

The entities are a stranger's: in any case the markup is well formed and its text is the post's text.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import accumulate
from urllib.parse import quote

from markupsafe import Markup, escape

from telegram_assistant.domain.results import Snippet
from telegram_assistant.domain.text import Entity, EntityKind

MOST_ENTITIES = 1_000  # Telegram itself allows a hundred
DEEPEST = 8  # elements inside each other
LONGEST_HREF = 2_000

_SAFE = re.compile(r"(?:https?://|tg://|mailto:)[^\s\x00-\x20\x7f\"<>\\^`{|}]+", re.IGNORECASE)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_HOST_AND_PORT = re.compile(r"[^/?#:]+\.[^/?#:]+:\d", re.ASCII)
_USERNAME = re.compile(r"@([A-Za-z0-9_]{1,64})")
_WORD = re.compile(r"[#$][\w·-]{1,200}")
# What HTML or UTF-8 cannot carry; each is one UTF-16 unit, and so is what stands for it.
_UNUSABLE = re.compile("[\0\ud800-\udfff]")

_NOTHING, _END_OF_LINK = Markup(""), Markup("</a>")

_PLAIN = {
    EntityKind.BOLD: (Markup("<b>"), Markup("</b>")),
    EntityKind.ITALIC: (Markup("<i>"), Markup("</i>")),
    EntityKind.UNDERLINE: (Markup("<u>"), Markup("</u>")),
    EntityKind.STRIKE: (Markup("<s>"), Markup("</s>")),
    # A keyboard reaches it, and pointing at it or focusing it shows what is under it.
    EntityKind.SPOILER: (Markup('<span class="spoiler" tabindex="0">'), Markup("</span>")),
    EntityKind.CODE: (Markup("<code>"), Markup("</code>")),
    # No <pre>: a parser takes away its first line break.
    EntityKind.PRE: (Markup('<code class="block">'), Markup("</code>")),
    EntityKind.BLOCKQUOTE: (Markup("<blockquote>"), Markup("</blockquote>")),
}


@dataclass(frozen=True, slots=True)
class _Element:
    """A stretch of characters, and the tags around it."""

    start: int
    end: int
    opening: Markup
    closing: Markup

    @property
    def is_link(self) -> bool:
        return self.closing == _END_OF_LINK


def rendered(text: str, entities: Iterable[Entity] = ()) -> Markup:
    """The whole text, in one line of elements that never cross each other."""
    text = _UNUSABLE.sub("\ufffd", text)
    places: dict[int, list[_Element]] = {}
    for element in _elements(text, list(entities)[:MOST_ENTITIES]):
        places.setdefault(element.start, []).append(element)
    ends = {element.end for elements in places.values() for element in elements}
    cuts = sorted({0, *places, *ends})
    out: list[Markup] = []
    opened: list[_Element] = []
    for at, following in zip(cuts, [*cuts[1:], len(text)], strict=True):
        _close(opened, at, out)
        _open(opened, places.get(at, ()), out)
        out.append(_escaped(text[at:following]))
    _close(opened, len(text), out)
    return _NOTHING.join(out)


def highlighted(snippet: Snippet) -> Markup:
    """A piece of a post in which what was looked for is marked."""
    text = _UNUSABLE.sub("\ufffd", snippet.text)
    out, at = [escape("… " if snippet.cut_before else "")], 0
    for start, end in sorted(snippet.spans):
        begin, stop = max(start, at), min(end, len(text))
        if begin < stop:
            out += [_escaped(text[at:begin]), Markup("<mark>{}</mark>").format(_escaped(text[begin:stop]))]
            at = stop
    out += [_escaped(text[at:]), escape(" …" if snippet.cut_after else "")]
    return _NOTHING.join(out)


def safe_href(url: str | None) -> str | None:
    """An address that may stand behind a link, or None."""
    url = (url or "").strip()
    return url if len(url) <= LONGEST_HREF and _SAFE.fullmatch(url) else None


def search_href(query: str) -> str:
    return f"/search?q={quote(query, safe='')}"


def _elements(text: str, entities: Sequence[Entity]) -> list[_Element]:
    """Those that mean something, the outer before the inner."""
    # Where each character begins in UTF-16, which is how Telegram counts.
    units = [0, *accumulate(2 if ord(character) > 0xFFFF else 1 for character in text)]
    found = []
    for entity in entities:
        start = min(bisect_right(units, max(entity.offset, 0)) - 1, len(text))
        end = min(bisect_left(units, entity.offset + entity.length), len(text))
        if entity.length > 0 and start < end and (tags := _tags(entity, text[start:end])):
            found.append(_Element(start, end, *tags))
    return sorted(found, key=lambda element: (element.start, -element.end))


def _tags(entity: Entity, label: str) -> tuple[Markup, Markup] | None:
    plain = _PLAIN.get(entity.kind)
    if plain is not None:
        return plain
    make = _HREFS.get(entity.kind)
    href = safe_href(make(entity, label)) if make else None
    if href is not None:
        # Where a link leads that says something else.
        shown = Markup(' title="{}"').format(href) if entity.kind is EntityKind.TEXT_URL else ""
        tag = Markup('<a href="{}"{} rel="noopener noreferrer nofollow">')
        return tag.format(href, shown), _END_OF_LINK
    if entity.kind in {EntityKind.HASHTAG, EntityKind.CASHTAG} and _WORD.fullmatch(label):
        return Markup('<a href="{}">').format(search_href(label[1:])), _END_OF_LINK
    return None


def _close(opened: list[_Element], at: int, out: list[Markup]) -> None:
    """Close what ends here. What is inside of that and goes on is opened again."""
    first = next((depth for depth, element in enumerate(opened) if element.end <= at), None)
    if first is None:
        return
    inner = opened[first:]
    out.extend(element.closing for element in reversed(inner))
    rest = [element for element in inner if element.end > at]
    out.extend(element.opening for element in rest)
    opened[first:] = rest


def _open(opened: list[_Element], starting: Iterable[_Element], out: list[Markup]) -> None:
    for element in starting:
        # A parser ends a link where another begins.
        inside_link = element.is_link and any(outer.is_link for outer in opened)
        if len(opened) < DEEPEST and not inside_link:
            opened.append(element)
            out.append(element.opening)


def _escaped(text: str) -> Markup:
    return escape(text).replace("\r", Markup("&#13;"))  # which a parser would take for a line break


def _address(_: Entity, label: str) -> str:
    label = label.strip()
    return label if _SCHEME.match(label) and not _HOST_AND_PORT.match(label) else f"http://{label}"


def _mention(_: Entity, label: str) -> str | None:
    match = _USERNAME.fullmatch(label)
    return f"https://t.me/{match[1]}" if match else None


def _person(entity: Entity, _: str) -> str | None:
    number = entity.detail or ""
    return f"tg://user?id={number}" if number.isascii() and number.isdigit() else None


_HREFS: dict[EntityKind, Callable[[Entity, str], str | None]] = {
    EntityKind.URL: _address,
    EntityKind.TEXT_URL: lambda entity, _: entity.url,
    EntityKind.EMAIL: lambda _, label: f"mailto:{label}",
    EntityKind.MENTION: _mention,
    EntityKind.TEXT_MENTION: _person,
}


# Comparing takes as long as the words of one text times those of the other; beyond this all of it counts as changed.
MOST_PAIRS = 1_000_000

_GONE, _NEW = Markup("<del>{}</del>"), Markup("<ins>{}</ins>")
_WORDS = re.compile(r"\s+|\S+\s?")


def diff(old: str, new: str) -> Markup:
    """The new text with what went away from the old one."""
    before, after = _WORDS.findall(old), _WORDS.findall(new)
    start = _same(before, after)
    end = _same(before[start:][::-1], after[start:][::-1])
    old_middle, new_middle = before[start : len(before) - end], after[start : len(after) - end]
    middle = Markup("").join(_changes(old_middle, new_middle))
    return escape("".join(after[:start])) + middle + escape("".join(after[len(after) - end :]))


def _same(one: list[str], other: list[str]) -> int:
    """With how many equal words both begin."""
    return next(
        (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )


def _changes(old: list[str], new: list[str]) -> list[Markup]:
    if len(old) * len(new) > MOST_PAIRS:
        return [_marked(_GONE, old), _marked(_NEW, new)]
    out = []
    for kind, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            out.append(escape("".join(new[j1:j2])))
        else:
            out += [_marked(_GONE, old[i1:i2]), _marked(_NEW, new[j1:j2])]
    return out


def _marked(tag: Markup, words: list[str]) -> Markup:
    return tag.format("".join(words)) if words else Markup("")
