"""The graph around a node: what its posts lead to, and around a post where it was forwarded and who writes the same.

Which posts hold an entity or a topic is the graph's knowledge; which of them a tenant sees, and so every count, is
PostgreSQL's (G7).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from telegram_assistant.domain.channel import MAX_CHANNEL_ID
from telegram_assistant.domain.results import Shown
from telegram_assistant.errors import Reject, Retry
from telegram_assistant.index.cypher_graph import Graph
from telegram_assistant.index.graph import Thing
from telegram_assistant.language.plan import Plan
from telegram_assistant.stores.postgres.search import SearchDocuments
from telegram_assistant.stores.postgres.visible_posts import Shared, VisiblePosts

MOST_POSTS = 1_000  # the newest of a node that are looked at
EXAMPLES = 5
LONGEST_NAME = 300
APART = "the graph is embedded and belongs to another process: set NEO4J_URL, or run tga up"
MORE = 5  # times as many are asked for: of a shared graph a tenant sees only its channels


class NodeKind(StrEnum):
    """What one can stand on."""

    START = "start"
    CHANNEL = "channel"
    ENTITY = "entity"
    TOPIC = "topic"
    TAG = "tag"
    POST = "post"


MOST = {NodeKind.CHANNEL: 10, NodeKind.ENTITY: 14, NodeKind.TOPIC: 8, NodeKind.TAG: 8}


@dataclass(frozen=True, slots=True)
class Node:
    """A node, and how many of the posts in question it has."""

    kind: NodeKind
    key: str
    title: str
    posts: int = 0
    sort: str = ""  # of an entity: person, organisation, place

    @property
    def name(self) -> str:
        """How it is called in an address."""
        return f"{self.kind}:{self.key}" if self.kind is not NodeKind.START else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where one stands, and where one can go."""

    node: Node
    groups: dict[NodeKind, tuple[Node, ...]]
    sources: tuple[Node, ...] = ()  # channels that are forwarded from
    examples: tuple[Shown, ...] = ()  # the newest posts, or those next to the post
    more: bool = False  # only the newest posts were looked at


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


@dataclass(frozen=True)
class GraphWalk:
    """For the API and the pages."""

    graph: Graph | None
    documents: SearchDocuments
    posts: VisiblePosts
    owners: Callable[[UUID], Sequence[UUID]]

    async def around(self, tenant_id: UUID, name: str = "") -> Place | None:
        """None: there is no such node for this tenant. Raises Reject for what is no node, Retry without the graph."""
        kind, key = read_node(name)
        channels = await self.posts.channels(tenant_id)
        match kind:
            case NodeKind.START:
                return await self._of_channels(tenant_id, Node(kind, "", ""), channels)
            case NodeKind.CHANNEL:
                titles = await self.posts.names(tenant_id, [int(key)])
                if int(key) not in titles:
                    return None
                return await self._of_channels(tenant_id, Node(kind, key, titles[int(key)][0]), [int(key)])
            case NodeKind.POST:
                return await self._of_post(tenant_id, UUID(key))
            case _:
                held = await self._holders(tenant_id, Thing(kind.value), key, channels)
                place = await self._place(tenant_id, Node(kind, key, key), held)
                return place if place.node.posts else None

    async def around_post(self, tenant_id: UUID, post_id: UUID, *, limit: int = 10) -> Around:
        """The graph that holds the post is asked. Raises Retry when it is away."""
        graph = self._there()
        own = (await self.posts.posts(tenant_id, [post_id])).get(post_id)
        if own is None:
            return Around()
        near = await graph.neighbours(own.owner, post_id, limit=limit * MORE)
        forwards = await graph.forwards(own.owner, post_id, limit=limit * MORE)
        shown = await self.posts.posts(tenant_id, [*(one.post_id for one in near), *forwards])
        seen = [Near(shown[one.post_id], one.shared, one.score) for one in near if one.post_id in shown]
        return Around(tuple(seen[:limit]), tuple(shown[one] for one in forwards if one in shown)[:limit])

    async def _of_channels(self, tenant_id: UUID, node: Node, channels: Sequence[int]) -> Place:
        found = await self.documents.newest(Plan(channels=tuple(channels)), limit=MOST_POSTS) if channels else []
        return await self._place(tenant_id, node, [one.post_id for one in found])

    async def _of_post(self, tenant_id: UUID, post_id: UUID) -> Place | None:
        shown = (await self.posts.posts(tenant_id, [post_id])).get(post_id)
        if shown is None or shown.deleted:
            return None
        around = await self.around_post(tenant_id, post_id, limit=EXAMPLES * 2)
        node = Node(NodeKind.POST, str(post_id), " ".join(shown.text.split())[:80] or shown.channel_title)
        place = await self._place(tenant_id, node, [post_id])
        near = tuple(one.post for one in around.near)
        return Place(node=place.node, groups=place.groups, sources=place.sources, examples=near)

    async def _holders(self, tenant_id: UUID, thing: Thing, key: str, channels: Sequence[int]) -> list[UUID]:
        graph = self._there()
        held: list[UUID] = []
        for owner in self.owners(tenant_id):
            held += await graph.holders(owner, thing, key, channels=channels, limit=MOST_POSTS)
        return held

    async def _place(self, tenant_id: UUID, node: Node, post_ids: Sequence[UUID]) -> Place:
        shared = await self.posts.shared(tenant_id, post_ids)
        shown = await self.posts.posts(tenant_id, post_ids[: 2 * EXAMPLES])
        newest = sorted((one for one in shown.values() if not one.deleted), key=lambda one: one.posted_at, reverse=True)
        total = next((one.posts for one in shared.get("all", ())), 0)
        groups = {kind: _nodes(kind, shared.get(kind, ()), node)[:most] for kind, most in MOST.items()}
        sources = _nodes(NodeKind.CHANNEL, shared.get("source", ()), node)[: MOST[NodeKind.CHANNEL]]
        return Place(
            node=Node(node.kind, node.key, node.title, total, _sort(shared, node)),
            groups={kind: found for kind, found in groups.items() if found},
            sources=sources,
            examples=tuple(newest[:EXAMPLES]),
            more=len(post_ids) >= MOST_POSTS,
        )

    def _there(self) -> Graph:
        if self.graph is None:
            raise Retry(APART)
        return self.graph


def read_node(name: str) -> tuple[NodeKind, str]:
    """`channel:1006503122`, `entity:Москва`, `topic:economy`, `tag:нефть`, `post:…`; empty: where one begins."""
    if not name:
        return NodeKind.START, ""
    kind, _, key = name.partition(":")
    try:
        known = NodeKind(kind)
        valid = known is not NodeKind.START and 0 < len(key) <= LONGEST_NAME and "\0" not in key
        if known is NodeKind.CHANNEL:
            valid = valid and key.isdecimal() and key.isascii() and 0 < int(key) <= MAX_CHANNEL_ID
        if known is NodeKind.POST:
            key = str(UUID(key))
        key.encode()  # a text that is none cannot be looked for
    except ValueError as exc:
        raise Reject("this is no node: write channel:ID, entity:NAME, topic:NAME, tag:NAME or post:ID") from exc
    if not valid:
        raise Reject("this is no node: write channel:ID, entity:NAME, topic:NAME, tag:NAME or post:ID")
    return known, key


def _nodes(kind: NodeKind, shared: Sequence[Shared], centre: Node) -> tuple[Node, ...]:
    """Without the one in the middle."""
    return tuple(
        Node(kind, one.key, one.title, one.posts, one.sort)
        for one in shared
        if (kind, one.key) != (centre.kind, centre.key)
    )


def _sort(shared: dict[str, list[Shared]], node: Node) -> str:
    if node.kind is not NodeKind.ENTITY:
        return ""
    return next((one.sort for one in shared.get("entity", ()) if one.key == node.key), "")
