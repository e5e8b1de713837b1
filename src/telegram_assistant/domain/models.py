"""What a model can do for us. Providers satisfy these by shape.

Every call may raise Retry (the model is away or busy: later, never an empty result), Reject (this input can never be
answered) or Fatal (a wrong key, a model that does not exist: a person has to act).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from telegram_assistant.domain.understanding import Answer, Passage, Seen, Tagged, Usage

SHORTEST_VECTOR = 1e-6


@dataclass(frozen=True, slots=True)
class Identity:
    """Which model answers. A result of another identity is another result: all three are part of a cache's key."""

    provider: str  # local | gigachat | openai
    model: str
    prompt: str = ""  # version of the prompt

    def __str__(self) -> str:
        """As keys of caches and collections have it."""
        return f"{self.provider}|{self.model}|{self.prompt}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A picture as it was stored."""

    sha256: str
    mime: str
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """A unit vector for each text, in their order. `asked`: how many of them a remote model was asked for.

    Raises ValueError for vectors that no search could find: zeros, or what is no number.
    """

    vectors: tuple[tuple[float, ...], ...]
    asked: int = 0
    usage: Usage = Usage()  # noqa: RUF009 - frozen

    def __post_init__(self) -> None:
        if not all(map(has_direction, self.vectors)):
            raise ValueError("a vector of zeros, or of what is no number")


def has_direction(vector: Sequence[float]) -> bool:
    """Whether it can be compared with others at all."""
    length = math.hypot(*vector)
    return math.isfinite(length) and length > SHORTEST_VECTOR


class Tagger(Protocol):
    """Tags and topics of a text. `seen` is what vision found on its pictures: text to tag too."""

    @property
    def identity(self) -> Identity: ...

    async def tag(self, text: str, seen: str = "") -> Tagged: ...


class Describer(Protocol):
    """What a picture shows. Raises Skip for what is no picture."""

    @property
    def identity(self) -> Identity: ...

    async def describe(self, picture: Picture) -> Seen: ...


class Embedder(Protocol):
    """Texts as vectors. The size belongs to the identity: a collection keeps both."""

    @property
    def identity(self) -> Identity: ...

    @property
    def size(self) -> int: ...

    async def embed(self, texts: Sequence[str]) -> Embedded: ...


class Answerer(Protocol):
    """An answer from passages alone, each sentence with its sources."""

    @property
    def identity(self) -> Identity: ...

    async def answer(self, question: str, passages: Sequence[Passage]) -> Answer: ...


class UsageBook(Protocol):
    """Where it is written down what calls took, for whom."""

    async def add(self, tenant_id: UUID, ability: str, identity: Identity, usage: Usage, *, calls: int = 1) -> None: ...
