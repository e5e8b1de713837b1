"""Text of strangers without what is there but not seen: control and bidirectional characters, hidden instructions."""

from __future__ import annotations

import re

from telegram_assistant.domain.text import clean_text

_LINE_ENDS = re.compile("\r\n?|[\u0085\u2028\u2029\v\f]")
# Controls, soft hyphens, zero-width spaces, directions, and the "tag" letters in which text can be smuggled past people
# to a model. The joiners U+200C and U+200D stay: words of some languages and many emoji need them.
_UNSEEN = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
_BLANKS = re.compile("[ \t\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]+")
_BLANK_LINES = re.compile(r" ?\n ?")
_MANY_LINES = re.compile(r"\n{3,}")


def clean_page(text: str, longest: int) -> str:
    """Text of several lines."""
    text = _UNSEEN.sub("", _LINE_ENDS.sub("\n", clean_text(text)))
    text = _BLANK_LINES.sub("\n", _BLANKS.sub(" ", text))
    return _MANY_LINES.sub("\n\n", text).strip()[:longest].rstrip()


def clean_line(text: str, longest: int) -> str:
    """A title or another thing of one line."""
    return clean_page(text, 10 * longest).replace("\n", " ")[:longest].rstrip()
