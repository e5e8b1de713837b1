"""What the vector index keeps beside a vector, and what a search may ask of it: the same for every engine."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from telegram_assistant.errors import Fatal
from telegram_assistant.index.vectors import Model, Point, Where


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
TEXT_HASH = "text_hash"
FORWARDED, EDITED = "forwarded", "edited"


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
    """A vector of another size comes from another model, whatever the settings say."""
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
