"""The graph over any engine that speaks the shared Cypher; an engine brings only its transactions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar
from uuid import UUID

from telegram_assistant.index import cypher, cypher_read
from telegram_assistant.index.cypher import NODES, Steps, key_of
from telegram_assistant.index.graph import Neighbour, PostNode, Thing

T = TypeVar("T")
POSTS_AT_ONCE = 500  # in one transaction: memory and locks stay small
DROPPED_AT_ONCE = 5000


class Graph(ABC):
    """All writes are idempotent; each piece of work is one transaction. Raises Retry when the graph is away, and Fatal
    for what a person has to mend."""

    @abstractmethod
    async def _write(self, work: Callable[[], Steps[T]]) -> T:
        """Run it in a transaction; it may be started again from the beginning."""

    @abstractmethod
    async def read(self, work: Callable[[], Steps[T]]) -> T:
        """Run steps that only read."""

    @abstractmethod
    async def close(self) -> None: ...

    async def put(self, posts: Sequence[PostNode]) -> None:
        """The posts as they are now, in place of what was there; nodes that no post holds any more go with it."""
        for start in range(0, len(posts), POSTS_AT_ONCE):
            some = posts[start : start + POSTS_AT_ONCE]
            await self._write(partial(cypher.put_posts, some))

    async def remove(self, tenant_id: UUID, post_ids: Sequence[UUID]) -> None:
        """The posts, and what only they held in the graph."""
        keys = [key_of(tenant_id, str(post_id)) for post_id in post_ids]
        for start in range(0, len(keys), POSTS_AT_ONCE):
            some = keys[start : start + POSTS_AT_ONCE]
            await self._write(partial(cypher.remove_posts, some))

    async def node(self, tenant_id: UUID, post_id: UUID) -> PostNode | None:
        """What is stored of a post, as it was put."""
        return await self.read(partial(cypher_read.node, tenant_id, post_id))

    async def neighbours(self, tenant_id: UUID, post_id: UUID, *, limit: int = 10) -> list[Neighbour]:
        """Posts about the same entities, tags and pages."""
        return await self.read(partial(cypher_read.neighbours, tenant_id, post_id, limit))

    async def forwards(self, tenant_id: UUID, post_id: UUID, *, limit: int = 50) -> list[UUID]:
        """Other posts with the same origin (the origin itself too, if it is stored), oldest first."""
        return await self.read(partial(cypher_read.forwards, tenant_id, post_id, limit))

    async def holders(
        self, tenant_id: UUID, thing: Thing, name: str, *, channels: Sequence[int], limit: int = 1000
    ) -> list[UUID]:
        """Posts of these channels that have the tag or topic, or name the entity (of any kind), newest first."""
        return await self.read(partial(cypher_read.holders, tenant_id, thing, name, list(channels), limit))

    async def put_interests(self, tenant_id: UUID, user_id: UUID, topics: Mapping[str, float]) -> None:
        """Replaces what the user was interested in; topic -> weight."""
        await self._write(partial(cypher.put_interests, tenant_id, user_id, topics))

    async def interests(self, tenant_id: UUID, user_id: UUID) -> dict[str, float]:
        return await self.read(partial(cypher_read.interests, tenant_id, user_id))

    async def counts(self, tenant_id: UUID) -> dict[str, int]:
        """Nodes by kind, for doctor and tests."""
        return await self.read(partial(cypher_read.counts, tenant_id))

    async def known(self, tenant_id: UUID, post_ids: Sequence[UUID]) -> set[UUID]:
        """Which of these posts were put."""
        return await self.read(partial(cypher_read.known, tenant_id, list(post_ids)))

    async def mark(self) -> str | None:
        """What tells this graph from any other, as `set_mark` wrote it; None: it was not marked, or it is not there."""
        return await self.read(cypher_read.mark)

    async def set_mark(self, mark: str) -> None:
        await self._write(partial(cypher.set_mark, mark))

    async def drop(self, tenant_id: UUID) -> None:
        """A tenant leaves: nothing of it stays."""
        for label in NODES:
            while await self._write(partial(cypher.drop_some, tenant_id, label, DROPPED_AT_ONCE)):
                pass  # a tenant may be larger than a transaction should be
