"""What models are asked for, and what they give. Providers satisfy the protocols by shape.

Every call may raise Retry (the model is away or busy: later, never an empty result), Reject (this input can never be
answered) or Fatal (a wrong key, a model that does not exist: a person has to act).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

SHORTEST_VECTOR = 1e-6
MOST_TAGS = 5
MOST_LABELS = 20
MOST_OBJECTS = 10
MOST_COLORS = 5


class EntityKind(StrEnum):
    """What the graph tells apart."""

    PERSON = "person"
    ORGANISATION = "organisation"
    PLACE = "place"


class Classification(StrEnum):
    """What sort of picture it is."""

    PHOTO = "photo"
    MEME = "meme"
    DOCUMENT = "document"
    SCREENSHOT = "screenshot"
    INFOGRAPHIC = "infographic"
    OTHER = "other"


@dataclass(frozen=True, slots=True, order=True)
class Entity:
    """A person, organisation or place that a text names, by its usual form."""

    kind: EntityKind
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a call of a model took. `cost` is in the currency of the price list in the settings."""

    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0
    latency_ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tagged:
    """Three to five tags that occur in the text in some inflection (none is allowed), broad topics, entities."""

    tags: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    entities: tuple[Entity, ...] = ()
    language: str = ""  # ISO 639-1; empty: unknown
    usage: Usage = Usage()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ocr:
    """Text on a picture."""

    text: str
    engine: str
    confidence: float  # 0 to 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A vision result: one per picture, in all posts."""

    classification: Classification
    description: str = ""
    is_meme: bool = False
    labels: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()
    scene: str = ""
    ocr: Ocr | None = None
    nsfw_score: float | None = None  # None: not looked for
    dominant_colors: tuple[str, ...] = ()  # #rrggbb
    provider: str
    model: str
    usage: Usage = Usage()

    @property
    def tokens_used(self) -> int:
        return self.usage.tokens_in + self.usage.tokens_out

    @property
    def words(self) -> str:
        """What there is to tag, embed and search."""
        parts = (self.description, self.ocr.text if self.ocr else "")
        return "\n".join(part for part in parts if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A piece of a post that may answer a question; `key` is how an answer refers to it."""

    key: str
    text: str
    said_at: float = 0.0  # seconds since 1970: of answers that changed, the newest counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """One sentence of an answer, with the keys of the passages that say so (at least one)."""

    text: str
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer from the given passages alone; no sentences: they do not answer the question."""

    sentences: tuple[Sentence, ...] = ()
    usage: Usage = Usage()


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
    usage: Usage = Usage()

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
