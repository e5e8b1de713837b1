"""What the graph knows around a post: where it was forwarded, and who writes about the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from telegram_assistant.domain.results import Shown
from telegram_assistant.index.graph import Graph

MORE = 5  # times as many are asked for: of a shared graph a tenant sees only its channels


class Posts(Protocol):
    """What a tenant may see."""

    async def posts(self, tenant_id: UUID, post_ids: Sequence[UUID]) -> dict[UUID, Shown]: ...


@dataclass(frozen=True, slots=True)
class Near:
    """A post that shares names, tags or pages with another."""

    post: Shown
    shared: tuple[str, ...]
    score: float


@dataclass(frozen=True, slots=True)
class Around:
    """Of one post."""

    near: tuple[Near, ...] = ()
    forwards: tuple[Shown, ...] = ()  # the same origin, the oldest first


class Neighbourhood:
    """Asks the graph that holds the post, and shows what the tenant may see."""

    def __init__(self, graph: Graph, posts: Posts) -> None:
        self._graph = graph
        self._posts = posts

    async def of(self, tenant_id: UUID, post_id: UUID, *, limit: int = 10) -> Around:
        """Raises Retry when the graph is away."""
        own = (await self._posts.posts(tenant_id, [post_id])).get(post_id)
        if own is None:
            return Around()
        near = await self._graph.neighbours(own.owner, post_id, limit=limit * MORE)
        forwards = await self._graph.forwards(own.owner, post_id, limit=limit * MORE)
        shown = await self._posts.posts(tenant_id, [*(one.post_id for one in near), *forwards])
        seen = [Near(shown[one.post_id], one.shared, one.score) for one in near if one.post_id in shown]
        return Around(tuple(seen[:limit]), tuple(shown[one] for one in forwards if one in shown)[:limit])
