"""What to try where a search found nothing: fewer filters, or words as the archive writes them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping

from telegram_assistant.domain.query import Query, filters_in, without_filter
from telegram_assistant.domain.results import Counted, Offer
from telegram_assistant.domain.signs import is_sign

MOST_OFFERS = 6

Count = Callable[[str], Awaitable[Counted]]


async def offers(text: str, count: Count, respelt: Mapping[str, str]) -> tuple[Offer, ...]:
    """Each with what it finds, and only what finds something. `respelt`: words that may be misspelt."""
    written = list(dict.fromkeys(token for token, _, _ in filters_in(text)))
    other = _respelt(text, respelt)
    tried = [(other, "")] if other != text else []
    tried += [(without_filter(text, token), token) for token in written]
    found = [one async for one in _finding(tried[:MOST_OFFERS], count)]
    if not found and len(written) > 1:
        bare = text
        for token in written:
            bare = without_filter(bare, token)
        found = [one async for one in _finding([(bare, " ".join(written))], count)]
    return tuple(found)


async def _finding(tried: list[tuple[str, str]], count: Count) -> AsyncIterator[Offer]:
    for query, without in tried:
        counted = await count(query) if query.strip() else Counted()
        if counted.found:
            yield Offer(query, counted, without)


def insisted(query: Query) -> Iterator[str]:
    """Words that are searched for only as they are written."""
    for clause in query.clauses:
        if clause.required or clause.quoted:
            yield from (word for term in clause.options for word in term.words if not is_sign(word))


def _respelt(text: str, words: Mapping[str, str]) -> str:
    for word, other in words.items():
        text = re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", other, text)
    return text
