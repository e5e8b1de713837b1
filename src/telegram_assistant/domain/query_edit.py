"""A query changed by a click: a filter put in, or taken out again; everything else stays as it was written."""

from __future__ import annotations

import re

from telegram_assistant.domain.query import LONGEST, filter_tokens, filters_in

_PLAIN = re.compile(r"\S+")
_APART = re.compile(r'["()\s]+')  # signs that no value of a filter can have
# How each field of Filters is written.
WRITTEN = {"channels": "channel", "tags": "tag", "topics": "topic", "languages": "lang", "has": "has", "marks": "is"}


def with_filter(text: str, field: str, value: str) -> str:
    """The query with the filter, at its end; as it is if it has it already."""
    value = _tidy(value)
    if has_filter(text, field, value):
        return text
    written = value if _PLAIN.fullmatch(value) else f'"{value}"'
    return f"{text[:LONGEST].strip()} {WRITTEN[field]}:{written}".strip()


def without_filter(text: str, written: str) -> str:
    """The query without this filter, which is given as it stands there."""
    kept = text[:LONGEST]
    for token in reversed(list(filter_tokens(kept))):
        if token[0] == written:
            kept = f"{kept[: token.start()]} {kept[token.end() :]}"
    return " ".join(kept.split())


def has_filter(text: str, field: str, value: str) -> bool:
    folded = _tidy(value).casefold()
    return any(
        name == field and _tidy(found).casefold() == folded and not token.startswith("-")
        for token, name, found in filters_in(text)
    )


def _tidy(value: str) -> str:
    return _APART.sub(" ", value).strip()
