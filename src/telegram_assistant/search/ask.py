"""A question answered from the posts that a tenant may see, each sentence with its sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from telegram_assistant.ai.abilities import Answerer
from telegram_assistant.domain.query import Note, without_filters
from telegram_assistant.domain.understanding import Passage
from telegram_assistant.search.results import Hit, Results, Shown

MOST_POSTS = 12
LONGEST_PASSAGE = 2_000  # characters
NOT_IN_YOUR_CHANNELS = "not in your channels"


class Finds(Protocol):
    """What answers are made from."""

    async def search(self, tenant_id: UUID, text: str, *, limit: int = 20) -> Results: ...


@dataclass(frozen=True, slots=True)
class Said:
    """A sentence of an answer, and the posts that say so (by their number, from 1)."""

    text: str
    sources: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """An answer; without sentences the posts do not have one."""

    sentences: tuple[Said, ...] = ()
    sources: tuple[Shown, ...] = ()  # only those that a sentence names
    looked_at: int = 0  # posts
    notes: tuple[Note, ...] = ()
    without_meaning: str = ""

    @property
    def text(self) -> str:
        return " ".join(said.text for said in self.sentences) or NOT_IN_YOUR_CHANNELS


class Asking:
    """Finds posts, and has them read."""

    def __init__(self, search: Finds, answerer: Answerer) -> None:
        self._search = search
        self._answerer = answerer

    async def ask(self, tenant_id: UUID, question: str) -> Answered:
        """The question may narrow where to look, as any query. Raises Retry when the model is away."""
        found = await self._search.search(tenant_id, question, limit=MOST_POSTS)
        posts = {str(hit.post.post_id): hit.post for hit in found.hits}
        passages = [Passage(key=key, text=text) for key, text in map(_passage, found.hits) if text]
        told = Answered(looked_at=len(passages), notes=found.notes, without_meaning=found.without_meaning)
        if not passages:
            return told
        answer = await self._answerer.answer(without_filters(question), passages)
        # Whatever a model claims: a sentence without a source that was given to it is none.
        said = [(one.text, [key for key in dict.fromkeys(one.sources) if key in posts]) for one in answer.sentences]
        return _numbered(told, [(text, keys) for text, keys in said if text.strip() and keys], posts)


def _passage(hit: Hit) -> tuple[str, str]:
    text = "\n\n".join(passage.text for passage in hit.post.passages)
    return str(hit.post.post_id), text[:LONGEST_PASSAGE]


def _numbered(told: Answered, said: Sequence[tuple[str, Sequence[str]]], posts: dict[str, Shown]) -> Answered:
    numbers: dict[str, int] = {}
    for _, keys in said:
        for key in keys:
            numbers.setdefault(key, len(numbers) + 1)
    return Answered(
        sentences=tuple(Said(text, tuple(numbers[key] for key in keys)) for text, keys in said),
        sources=tuple(posts[key] for key in numbers),
        looked_at=told.looked_at,
        notes=told.notes,
        without_meaning=told.without_meaning,
    )
