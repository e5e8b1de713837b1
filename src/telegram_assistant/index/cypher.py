"""The graph's nodes and relations (SPEC 8), in the Cypher that Ladybug and Neo4j share.

Work on the graph is a generator that yields statements and is sent their rows: one way to write it, for a driver that
blocks and for one that awaits. Statements have the shape `MATCH (a:Post) WHERE a.key = r.a`, because Ladybug makes a
cross product of `MATCH (a:Post {key: r.a})`.
"""

from __future__ import annotations

from collections.abc import Generator
from hashlib import blake2b
from typing import Any, TypeAlias, TypeVar
from uuid import UUID

T = TypeVar("T")
Params: TypeAlias = dict[str, Any]
Row: TypeAlias = tuple[Any, ...]
Steps: TypeAlias = Generator[tuple[str, Params], list[Row], T]

SCHEMA_VERSION = 1
MARK = "Mark"  # one node, of no tenant, which tells this graph from any other

# Every node also has `key` and `tenant`.
NODES: dict[str, dict[str, str]] = {
    "Channel": {"id": "INT64", "title": "STRING"},
    "Post": {"id": "STRING", "channel_id": "INT64", "message_id": "INT64", "posted_at": "TIMESTAMP"},
    "Tag": {"name": "STRING"},
    "Topic": {"name": "STRING"},
    "Image": {"sha256": "STRING"},
    "Label": {"name": "STRING"},
    "WebPage": {"url": "STRING", "title": "STRING"},
    "Entity": {"kind": "STRING", "name": "STRING"},
    "Album": {"id": "STRING"},
    "User": {"id": "STRING"},
}

# Type -> from, to, properties. `place` keeps the order in which things were put.
RELATIONS: dict[str, tuple[str, str, dict[str, str]]] = {
    "HAS_POST": ("Channel", "Post", {}),
    "TAGGED_AS": ("Post", "Tag", {"place": "INT64"}),
    "HAS_TOPIC": ("Post", "Topic", {"place": "INT64"}),
    "HAS_IMAGE": ("Post", "Image", {"place": "INT64"}),
    "HAS_LABEL": ("Image", "Label", {"place": "INT64"}),
    "REFERS_TO": ("Post", "WebPage", {"place": "INT64"}),
    "MENTIONS": ("Post", "Entity", {"place": "INT64"}),
    "FORWARDED_FROM": ("Post", "Channel", {"message_id": "INT64"}),
    "REPLIES_TO": ("Post", "Post", {}),
    "CONTAINS": ("Album", "Post", {}),
    "INTERESTED_IN": ("User", "Topic", {"weight": "DOUBLE"}),
}


def key_of(tenant_id: UUID, *parts: str | int) -> str:
    """What a node is found by: short, whatever its name holds, and never that of another tenant."""
    return blake2b(repr((tenant_id.hex, *parts)).encode(), digest_size=16).hexdigest()


def whole(rows: list[Row]) -> list[Row]:
    """Without those of nodes that another transaction deletes at this moment: in Neo4j they read as nothing."""
    return [row for row in rows if None not in row]


def label_of(labels: str | list[str]) -> str:
    """Ladybug's nodes have one label, Neo4j's a list."""
    return labels if isinstance(labels, str) else labels[0]
