"""Hashtags and emoji: signs that are searched for as such, beside words."""

from __future__ import annotations

import re
from collections.abc import Iterator

# Telegram makes no hashtag of digits alone, or within a word or an address.
_HASHTAG = r"(?<![\w#&/])#\w*[^\W\d_]\w*"
# Flags are pairs. Of the rest each picture counts by itself: how it is joined with others, coloured or drawn does not.
_FLAG = "[\U0001f1e6-\U0001f1ff]{2}"
_PICTURE = (
    "[\u203c\u2049\u2122\u2139\u2194-\u21aa\u231a-\u23ff\u25aa-\u27bf\u2934\u2935\u2b05-\u2b55\u3030\u303d\u3297\u3299"
    "\U0001f000-\U0001f1e5\U0001f200-\U0001f3fa\U0001f400-\U0001faff]"
)
_HASHTAGS = re.compile(_HASHTAG)
_EMOJI = re.compile(f"{_FLAG}|{_PICTURE}")
_SIGNS = re.compile(f"{_HASHTAG}|{_FLAG}|{_PICTURE}")


def signs_in(text: str) -> Iterator[re.Match[str]]:
    """Where they stand in a text."""
    return _SIGNS.finditer(text)


def is_sign(word: str) -> bool:
    """A word begins with a letter or a digit."""
    return not word[:1].isalnum()


def hashtags_in(text: str) -> list[str]:
    return _HASHTAGS.findall(text)


def emoji_in(text: str) -> list[str]:
    """Each once."""
    return list(dict.fromkeys(_EMOJI.findall(text)))


def without_hashtags(text: str) -> str:
    return _HASHTAGS.sub(" ", text)
