"""What the graph knows; `cypher_graph.py` has what it does, the same over Ladybug and Neo4j (SPEC 8).

(Channel)-[:HAS_POST]->(Post), (Post)-[:TAGGED_AS]->(Tag), -[:HAS_TOPIC]->(Topic), -[:HAS_IMAGE]->(Image)
-[:HAS_LABEL]->(Label), -[:REFERS_TO]->(WebPage), -[:MENTIONS]->(Entity), -[:FORWARDED_FROM]->(Channel),
-[:REPLIES_TO]->(Post), (Album)-[:CONTAINS]->(Post), (User)-[:INTERESTED_IN]->(Topic).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
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
