"""What the models make of a post: tags, topics, entities, what a picture shows, an answer. Values only (SPEC 8)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

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
    """Somebody or something that a text names, by its usual form."""

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
    """A vision result: one per picture, whoever posted it."""

    classification: Classification
    description: str = ""
    is_meme: bool = False
    labels: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()
    scene: str = ""
    ocr: Ocr | None = None
    nsfw_score: float | None = None  # None: nobody looked for that
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
