"""The text of a post as models get it: bounded, and without what no eye can see."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from functools import lru_cache
from html import unescape

from telegram_assistant.domain.text import clean_text

GAP = " \u2029 "
LONGEST_TEXT = 8_000  # characters of a post that models look at; Telegram itself allows 4,096

# Controls, soft hyphens, joiners, writing directions, variation selectors, "tag" characters hide words from people.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_LINE_BREAKS = re.compile("\r\n?|[\x85\u2028\u2029]")
_LINK = re.compile(r"!?\[([^\[\]\n]{0,300})\]\((?:[^()\n]|\([^()\n]{0,500}\)){0,2000}\)")
_ADDRESS = re.compile(
    r"(?:https?|tg|ftp|mailto):\S+|\bwww\.\S+|[\w.+-]+@[\w-]+\.[\w.-]+"
    r"|(?<![\w@.])[\w-]+(?:\.[\w-]+)*\.(?:ru|com|me|org|net|io|info|gov|edu|su|ua|by|kz|dev|app|ai|tv|рф)(?:/\S*|\b)",
    re.IGNORECASE,
)
# What a page, a mail or Telegram could make a link of, and markup; a model has no links to give: sources stand beside.
_TAG = re.compile(r"<[^<>\n]{0,500}>")
_REFERENCE = re.compile(r"!?\[([^\[\]\n]{0,300})\](?:\[[^\[\]\n]{0,300}\])?")
_URI = re.compile(
    r"[a-z][a-z0-9+.-]{0,30}:/{2}\S*"
    r"|(?:javascript|vbscript|data|file|blob|about|intent|view-source|tel|sms|mailto|magnet|ton|tg|https?)\s*:\s*\S+"
    r"|(?<![\w@.])(?:[\w-]+\.)+(?!js\b)[a-z]{2,24}(?::\d+)?(?:[/?#]\S*|\b)",
    re.IGNORECASE,
)
# What is left of a web page where a post was copied from one. Other words in angle brackets are the post's own.
_ELEMENTS = (
    "a|b|i|u|s|p|br|hr|em|strong|img|div|span|font|h[1-6]|ul|ol|li|table|tr|td|th|tbody|pre|code|blockquote|iframe"
)
_HTML = re.compile(
    rf"</?(?:{_ELEMENTS})(?:\s[^<>\n]{{0,500}})?/?>|<(?:img|a|div|span)\s[^<>\n]{{0,500}}", re.IGNORECASE
)
_ENTITY = re.compile(r"&(?:[a-z]{2,8}|#\d{2,6});")
_USERNAME = re.compile(r"(?<!\w)@\w+")
_MARKS = re.compile(r"[*_`~|#>]+")
# The line under every post of a channel: it speaks of the channel, not of the post.
_SIGNATURE = re.compile(
    r"подпис(?:аться|ывай)|прислать новост|предложить новост|наш (?:канал|чат|бот)|обратная связь"
    r"|\bsubscribe\b|join (?:us|our)|follow us|our channel|\bboost\b|проголосовать за канал",
    re.IGNORECASE,
)
_SIGNATURE_LENGTH = 90
_WORD = re.compile(r"[^\W_]+(?:[-'\u2019\u02bc][^\W_]+)*")
_ONE_WRITING = {"HIRAGANA": "CJK", "KATAKANA": "CJK", "FULLWIDTH": "LATIN"}
_CYRILLIC = re.compile("[\u0400-\u04ff]")
# After a full stop a new sentence begins with anything but a small letter (Latin or Cyrillic).
_SENTENCE_END = re.compile(
    r"(?<=[.!?\u2026\u3002\uff01\uff1f])[\"'»”)\]]*\s+(?=[\"'«“(\[\u2014\u2013-]*\s*[^\W_a-z\u0430-\u044f\u0451])|[\n\u2029]+"
)


def visible(text: str, limit: int = LONGEST_TEXT) -> str:
    """What a person would see, at most `limit` characters."""
    seen = _LINE_BREAKS.sub("\n", clean_text(text[: 2 * limit]))  # invisible characters must not eat the limit
    return _INVISIBLE.sub("", unicodedata.normalize("NFC", seen))[:limit].strip()


def plain(text: str, limit: int = LONGEST_TEXT) -> str:
    """Only the words of a post: no addresses, user names, markup, emoji or the channel's signature.

    Where an address was, GAP stands: the words around it are no neighbours.
    """
    seen = _ENTITY.sub(lambda found: unescape(found[0]), _HTML.sub(" ", _LINK.sub(r"\1", visible(text, limit))))
    kept = _without_signature([line for line in seen.split("\n") if line.strip()])
    words = _USERNAME.sub(GAP, _ADDRESS.sub(GAP, "\n".join(kept)))
    return "".join(_spoken(char) for char in _MARKS.sub(" ", words)).strip()


def one_line(text: str, limit: int = LONGEST_TEXT) -> str:
    """The same for showing: on one line, without gaps."""
    return " ".join(plain(text, limit).split())


def said(text: str, limit: int = LONGEST_TEXT) -> str:
    """A model's own words for showing: the same, and nothing that could become a link or markup anywhere."""
    words = _TAG.sub(" ", _LINK.sub(r"\1", visible(text, limit)))
    return one_line(_URI.sub(GAP, _REFERENCE.sub(r"\1", words)), limit)


def script_of(text: str) -> str:
    """The writing system of most of its letters, as Unicode names it; empty where it has none."""
    counts = Counter(name for char in text if (name := _script(char)))
    return counts.most_common(1)[0][0] if counts else ""


@lru_cache(maxsize=8_192)
def _script(char: str) -> str:
    name = unicodedata.name(char, "").partition(" ")[0] if char.isalpha() else ""
    return _ONE_WRITING.get(name, name)


def has_cyrillic(text: str) -> bool:
    """Whether any letter of it is Cyrillic."""
    return bool(_CYRILLIC.search(text))


def words_of(text: str) -> list[str]:
    """The words as they are written; a hyphen or an apostrophe inside belongs to the word."""
    return _WORD.findall(text)


def sentences_of(text: str) -> list[str]:
    """The text cut at the ends of sentences and lines."""
    return [part for raw in _SENTENCE_END.split(text) if (part := raw.strip())]


def pieces_of(text: str, size: int) -> list[str]:
    """The text in pieces of whole sentences, each about `size` characters and never above twice that."""
    pieces: list[str] = []
    for sentence in sentences_of(text):
        cut = [sentence[at : at + size] for at in range(0, len(sentence), size)] if len(sentence) > size else [sentence]
        for part in cut:
            if pieces and len(pieces[-1]) + len(part) < size:
                pieces[-1] += f" {part}"
            else:
                pieces.append(part)
    return pieces


def _without_signature(lines: list[str]) -> list[str]:
    while len(lines) > 1 and len(lines[-1]) <= _SIGNATURE_LENGTH and _SIGNATURE.search(lines[-1]):
        lines = lines[:-1]
    return lines


@lru_cache(maxsize=4_096)
def _spoken(char: str) -> str:
    """Emoji and other signs part words like a space does."""
    return " " if unicodedata.category(char) in {"So", "Sk", "Cs", "Co", "Cn"} else char
