"""What the vector index does for us; `edge` and `qdrant` satisfy it by shape, under one contract suite.

A collection is `t{tenant_id}_posts`: cosine, point id = post id. It remembers which model made its vectors and their
size. Another model starts another generation beside it, which is filled in the background and then takes its place.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Protocol
from uuid import UUID

from telegram_assistant.errors import Fatal

TEXT_HASH = "text_hash"
FORWARDED, EDITED = "forwarded", "edited"


@dataclass(frozen=True, slots=True)
class Model:
    """What made the vectors of a generation."""

    name: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A post as the vector index keeps it. `text_hash` says of what text the vector was made."""

    post_id: UUID
    vector: Sequence[float]
    text_hash: str
    channel_id: int
    posted_at: datetime
    language: str = ""
    tags: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    has: tuple[str, ...] = ()  # photo, video, document, link, album
    album_id: UUID | None = None
    forwarded: bool = False
    edited: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """What a search is narrowed to; empty means no limit. Every filter keeps recall (PLATFORM 3)."""

    channels: Collection[int] = ()  # any of them
    not_channels: Collection[int] = ()
    tags: Collection[str] = ()  # all of them
    topics: Collection[str] = ()  # any of them
    languages: Collection[str] = ()  # any of them
    has: Collection[str] = ()  # all of them
    since: datetime | None = None
    before: datetime | None = None  # not itself
    forwarded: bool | None = None
    edited: bool | None = None
    not_posts: Collection[UUID] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """A post near the query; the score is the cosine."""

    post_id: UUID
    score: float


class Vectors(Protocol):
    """All methods are idempotent. Raise Retry when the index is away; Fatal for what a person has to mend."""

    async def current(self, tenant_id: UUID) -> Model | None:
        """The model of the generation that answers searches; None: there is no collection yet."""
        ...

    async def open(self, tenant_id: UUID, model: Model) -> None:
        """Make sure that a generation of this model is there; the first one becomes current at once."""
        ...

    async def switch(self, tenant_id: UUID, model: Model) -> None:
        """Searches are answered by this generation from now on; the others are dropped."""
        ...

    async def put(self, tenant_id: UUID, model: Model, points: Sequence[Point]) -> None:
        """Fatal where the generation was not opened, or was dropped by a switch."""
        ...

    async def update(self, tenant_id: UUID, model: Model, points: Sequence[Point]) -> None:
        """New payload for points whose vector stays (their `vector` is not looked at). Those not there stay away."""
        ...

    async def hashes(self, tenant_id: UUID, model: Model, post_ids: Sequence[UUID]) -> dict[UUID, str]:
        """The text hash of each post that is there."""
        ...

    async def remove(self, tenant_id: UUID, post_ids: Sequence[UUID]) -> None:
        """From every generation."""
        ...

    async def search(
        self, tenant_id: UUID, vector: Sequence[float], *, limit: int, where: Where | None = None
    ) -> list[Found]: ...

    async def vector(self, tenant_id: UUID, post_id: UUID) -> list[float] | None:
        """Of the current generation, to search for what is similar."""
        ...

    def ids(self, tenant_id: UUID, model: Model) -> AsyncIterator[list[UUID]]:
        """Every post of a generation, in pieces."""
        ...

    async def mark(self, tenant_id: UUID) -> str | None:
        """What tells this collection from any other, as `set_mark` wrote it. "" for one without; None: it is not there.

        Asked where it is kept, not where it is remembered: a folder may be deleted under us, which is noticed here."""
        ...

    async def set_mark(self, tenant_id: UUID, mark: str) -> None:
        """Of what `open` made."""
        ...

    async def drop(self, tenant_id: UUID) -> None:
        """A tenant leaves: nothing of it stays."""
        ...

    async def close(self) -> None: ...


class Kind(StrEnum):
    """How a field is indexed, in Qdrant's own words."""

    INTEGER = "integer"
    KEYWORD = "keyword"
    DATETIME = "datetime"


# Every field that a search can be narrowed by: without an index a filtered search reads all points.
INDEXES = {
    "channel_id": Kind.INTEGER,
    "posted_at": Kind.DATETIME,
    "language": Kind.KEYWORD,
    "tags": Kind.KEYWORD,
    "topics": Kind.KEYWORD,
    "has": Kind.KEYWORD,
    "marks": Kind.KEYWORD,
}


@dataclass(frozen=True, slots=True)
class AnyOf:
    """The field holds one of these at least, or none of them."""

    field: str
    values: list[int] | list[str]
    wanted: bool = True


@dataclass(frozen=True, slots=True)
class Is:
    """The field holds exactly this, or has it in its list; or not."""

    field: str
    value: str
    wanted: bool = True


@dataclass(frozen=True, slots=True)
class Between:
    """A time of the field lies in here; the end is not part of it."""

    field: str
    since: datetime | None
    before: datetime | None
    wanted: bool = True


@dataclass(frozen=True, slots=True)
class OneOf:
    """The point is one of these, or none of them."""

    ids: list[UUID]
    wanted: bool = True


Clause = AnyOf | Is | Between | OneOf


def payload(point: Point) -> dict[str, Any]:
    return {
        TEXT_HASH: point.text_hash,
        "channel_id": point.channel_id,
        "posted_at": moment(point.posted_at),
        "language": point.language,
        "tags": list(point.tags),
        "topics": list(point.topics),
        "has": list(point.has),
        "album_id": str(point.album_id) if point.album_id else None,
        # Words, because Qdrant Edge takes True in a filter for the number 1.
        "marks": [name for name, is_set in ((FORWARDED, point.forwarded), (EDITED, point.edited)) if is_set],
    }


def clauses(where: Where | None) -> Iterator[Clause]:
    """All of these must be true."""
    if where is None:
        return
    if where.channels:
        yield AnyOf("channel_id", list(where.channels))
    if where.not_channels:
        yield AnyOf("channel_id", list(where.not_channels), wanted=False)
    if where.topics:
        yield AnyOf("topics", list(where.topics))
    if where.languages:
        yield AnyOf("language", list(where.languages))
    yield from (Is("tags", tag) for tag in where.tags)
    yield from (Is("has", thing) for thing in where.has)
    if where.since or where.before:
        yield Between("posted_at", where.since, where.before)
    if where.forwarded is not None:
        yield Is("marks", FORWARDED, wanted=where.forwarded)
    if where.edited is not None:
        yield Is("marks", EDITED, wanted=where.edited)
    if where.not_posts:
        yield OneOf(list(where.not_posts), wanted=False)


def check_sizes(model: Model, vectors: Collection[Collection[float]]) -> None:
    """A vector of another size comes from another model than the settings say."""
    sizes = {len(vector) for vector in vectors} - {model.size}
    if sizes:
        raise Fatal(
            f"The vector index holds vectors of {model.name} with {model.size} numbers, but got one with {sizes.pop()}:"
            " set the embedding model and its size as they are, then index again"
        )


def no_generation(model: Model) -> Fatal:
    return Fatal(
        f"The vector index has no vectors of {model.name} ({model.size} numbers): another process switched to another"
        " model; give all processes the same embedding settings"
    )


def moment(time: datetime) -> str:
    return time.astimezone(UTC).isoformat()
