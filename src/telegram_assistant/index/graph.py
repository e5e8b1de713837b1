"""What the graph does for us; `ladybug` and `neo4j` satisfy it by shape, under one contract suite (SPEC 8).

(Channel)-[:HAS_POST]->(Post), (Post)-[:TAGGED_AS]->(Tag), -[:HAS_TOPIC]->(Topic), -[:HAS_IMAGE]->(Image)
-[:HAS_LABEL]->(Label), -[:REFERS_TO]->(WebPage), -[:MENTIONS]->(Entity), -[:FORWARDED_FROM]->(Channel),
-[:REPLIES_TO]->(Post), (Album)-[:CONTAINS]->(Post), (User)-[:INTERESTED_IN]->(Topic).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from telegram_assistant.domain.models import Entity


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A picture of a post. Labels that are known stay until a put brings others: a post may come before its vision."""

    sha256: str
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WebPage:
    """A page that a post links to, by its canonical address. A title that is known stays, too (so does a channel's)."""

    url: str
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostNode:
    """A post with everything that hangs on it. Putting it again replaces all its relations."""

    tenant_id: UUID
    post_id: UUID
    channel_id: int
    channel_title: str
    message_id: int
    posted_at: datetime
    tags: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    images: tuple[Image, ...] = ()
    pages: tuple[WebPage, ...] = ()
    entities: tuple[Entity, ...] = ()
    forwarded_channel_id: int | None = None
    forwarded_message_id: int | None = None
    replies_to: UUID | None = None  # the post may come later, or never
    album_id: UUID | None = None


class Thing(StrEnum):
    """What posts share, and what leads from one to another."""

    TAG = "tag"
    TOPIC = "topic"
    ENTITY = "entity"


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A post that shares something with another, and what."""

    post_id: UUID
    shared: tuple[str, ...]  # names of the entities, tags or pages, sorted
    score: float  # rare things weigh more


@dataclass(frozen=True, slots=True)
class Together:
    """An entity that is named in the same posts as another."""

    entity: Entity
    posts: int


class Graph(Protocol):
    """All writes are idempotent. Raise Retry when the graph is away; Fatal for what a person has to mend."""

    async def put(self, posts: Sequence[PostNode]) -> None:
        """The posts as they are now, in place of what was there; nodes that no post holds any more go with it."""
        ...

    async def remove(self, tenant_id: UUID, post_ids: Sequence[UUID]) -> None:
        """The posts, and what only they held in the graph."""
        ...

    async def node(self, tenant_id: UUID, post_id: UUID) -> PostNode | None:
        """What is stored of a post, as it was put."""
        ...

    async def neighbours(self, tenant_id: UUID, post_id: UUID, *, limit: int = 10) -> list[Neighbour]:
        """Posts about the same entities, tags and pages."""
        ...

    async def forwards(self, tenant_id: UUID, post_id: UUID, *, limit: int = 50) -> list[UUID]:
        """Other posts with the same origin (the origin itself too, if it is stored), oldest first."""
        ...

    async def together(self, tenant_id: UUID, entity: Entity, *, limit: int = 10) -> list[Together]: ...

    async def holders(
        self, tenant_id: UUID, thing: Thing, name: str, *, channels: Sequence[int], limit: int = 1000
    ) -> list[UUID]:
        """Posts of these channels that have the tag or topic, or name the entity (of any kind), newest first."""
        ...

    async def put_interests(self, tenant_id: UUID, user_id: UUID, topics: Mapping[str, float]) -> None:
        """Replaces what the user was interested in; topic -> weight."""
        ...

    async def interests(self, tenant_id: UUID, user_id: UUID) -> dict[str, float]: ...

    async def counts(self, tenant_id: UUID) -> dict[str, int]:
        """Nodes by kind, for doctor and tests."""
        ...

    async def known(self, tenant_id: UUID, post_ids: Sequence[UUID]) -> set[UUID]:
        """Which of these posts were put."""
        ...

    async def mark(self) -> str | None:
        """What tells this graph from any other, as `set_mark` wrote it; None: it was not marked, or it is not there."""
        ...

    async def set_mark(self, mark: str) -> None: ...

    async def drop(self, tenant_id: UUID) -> None:
        """A tenant leaves: nothing of it stays."""
        ...

    async def close(self) -> None: ...
