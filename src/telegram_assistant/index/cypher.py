"""The graph's nodes and relations (SPEC 8), in the Cypher that Ladybug and Neo4j share.

Work on the graph is a generator that yields statements and is sent their rows: one way to write it, for a driver that
blocks and for one that awaits. Statements have the shape `MATCH (a:Post) WHERE a.key = r.a`, because Ladybug makes a
cross product of `MATCH (a:Post {key: r.a})`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from datetime import UTC
from hashlib import blake2b
from typing import Any, TypeAlias, TypeVar
from uuid import UUID

from telegram_assistant.index.graph import PostNode

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
UNKNOWN = 0  # stands for "no message id": Telegram counts from 1, and Ladybug types a column of nothing as text
OUTGOING = "TAGGED_AS|HAS_TOPIC|HAS_IMAGE|REFERS_TO|MENTIONS|FORWARDED_FROM|REPLIES_TO"
INCOMING = "HAS_POST|CONTAINS"
# When a node is of no use any more. A post that was never put, or was removed, stays while others reply to it.
LONELY = {
    "Image": "NOT EXISTS { MATCH (n)<-[:HAS_IMAGE]-(:Post) }",
    "Label": "NOT EXISTS { MATCH (n)<-[:HAS_LABEL]-(:Image) }",
    "Tag": "NOT EXISTS { MATCH (n)<-[:TAGGED_AS]-(:Post) }",
    "Topic": "NOT EXISTS { MATCH (n)<-[:HAS_TOPIC]-(:Post) } AND NOT EXISTS { MATCH (n)<-[:INTERESTED_IN]-(:User) }",
    "WebPage": "NOT EXISTS { MATCH (n)<-[:REFERS_TO]-(:Post) }",
    "Entity": "NOT EXISTS { MATCH (n)<-[:MENTIONS]-(:Post) }",
    "Album": "NOT EXISTS { MATCH (n)-[:CONTAINS]->(:Post) }",
    "Channel": "NOT EXISTS { MATCH (n)-[:HAS_POST]->(:Post) } AND NOT EXISTS { MATCH (n)<-[:FORWARDED_FROM]-(:Post) }",
    "Post": "n.posted_at IS NULL AND NOT EXISTS { MATCH (n)<-[:REPLIES_TO]-(:Post) }",
}
Held = dict[str, set[str]]  # label -> keys


def key_of(tenant_id: UUID, *parts: str | int) -> str:
    """What a node is found by: short for any name, and never that of another tenant."""
    return blake2b(repr((tenant_id.hex, *parts)).encode(), digest_size=16).hexdigest()


def whole(rows: list[Row]) -> list[Row]:
    """Without those of nodes that another transaction deletes at this moment: in Neo4j they read as nothing."""
    return [row for row in rows if None not in row]


def label_of(labels: str | list[str]) -> str:
    """Ladybug's nodes have one label, Neo4j's a list."""
    return labels if isinstance(labels, str) else labels[0]


class _Batch:
    """The nodes and relations of some posts, each node once."""

    def __init__(self, posts: Iterable[PostNode]) -> None:
        self.posts: dict[str, dict[str, Any]] = {}
        self.nodes: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
        self.relations: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.labels: dict[str, tuple[str, ...]] = {}  # of pictures whose labels are known
        newest = {(post.tenant_id, post.post_id): post for post in posts}
        for post in newest.values():
            self._add(post)
        self._add_labels()

    def _add(self, post: PostNode) -> None:
        key = key_of(post.tenant_id, str(post.post_id))
        self.posts[key] = {
            "key": key,
            "tenant": str(post.tenant_id),
            "id": str(post.post_id),
            "channel_id": post.channel_id,
            "message_id": post.message_id,
            "posted_at": post.posted_at.astimezone(UTC),
        }
        self._relate("HAS_POST", self._node(post, "Channel", id=post.channel_id, title=post.channel_title), key)
        self._list(key, "TAGGED_AS", (self._node(post, "Tag", name=tag) for tag in post.tags))
        self._list(key, "HAS_TOPIC", (self._node(post, "Topic", name=topic) for topic in post.topics))
        self._list(key, "REFERS_TO", (self._node(post, "WebPage", url=x.url, title=x.title) for x in post.pages))
        self._list(key, "MENTIONS", (self._node(post, "Entity", kind=x.kind.value, name=x.name) for x in post.entities))
        self._list(key, "HAS_IMAGE", (self._node(post, "Image", sha256=image.sha256) for image in post.images))
        self.labels.update(
            (key_of(post.tenant_id, image.sha256), image.labels) for image in post.images if image.labels
        )
        if post.forwarded_channel_id is not None:
            origin = self._node(post, "Channel", id=post.forwarded_channel_id, title="")
            self._relate("FORWARDED_FROM", key, origin, message_id=post.forwarded_message_id or UNKNOWN)
        if post.replies_to is not None:
            self._relate("REPLIES_TO", key, self._node(post, "Post", id=str(post.replies_to)))
        if post.album_id is not None:
            self._relate("CONTAINS", self._node(post, "Album", id=str(post.album_id)), key)

    def _node(self, post: PostNode, label: str, **properties: str | int) -> str:
        titled = properties.get("title", "")
        names = [value for name, value in properties.items() if name != "title"]
        key = key_of(post.tenant_id, *names)
        known = self.nodes[label].setdefault(key, {"key": key, "tenant": str(post.tenant_id), **properties})
        if titled:
            known["title"] = titled
        return key

    def _add_labels(self) -> None:
        for image, labels in self.labels.items():
            tenant = self.nodes["Image"][image]["tenant"]
            keys = dict.fromkeys(labels)
            for place, name in enumerate(keys):
                key = key_of(UUID(tenant), name)
                self.nodes["Label"][key] = {"key": key, "tenant": tenant, "name": name}
                self._relate("HAS_LABEL", image, key, place=place)

    def _list(self, post: str, relation: str, keys: Iterable[str]) -> None:
        for place, key in enumerate(dict.fromkeys(keys)):
            self._relate(relation, post, key, place=place)

    def _relate(self, relation: str, a: str, b: str, **properties: int) -> None:
        self.relations[relation].append({"a": a, "b": b, **properties})


def put_posts(posts: Sequence[PostNode]) -> Steps[None]:
    """Put the posts as they are now, in place of what the graph held of them."""
    batch = _Batch(posts)
    yield _merge("Post", always=True), {"rows": _sorted(batch.posts.values())}
    known = yield _of_posts("MATCH (p)<-[:HAS_POST]-(:Channel) RETURN DISTINCT p.key"), {"keys": list(batch.posts)}
    held = (yield from _let_go([row[0] for row in whole(known)])) if known else {}
    for label, nodes in batch.nodes.items():
        rows = _sorted(node for key, node in nodes.items() if label != "Post" or key not in batch.posts)
        if rows:
            yield _merge(label, properties=list(rows[0])), {"rows": rows}
        if titled := [row for row in rows if row.get("title")]:
            yield _retitle(label), {"rows": titled}
    if batch.labels:
        held["Label"] = yield from _let_labels_go(list(batch.labels))
    for relation, rows in batch.relations.items():
        yield _relate(relation), {"rows": sorted(rows, key=lambda row: (row["b"], row["a"]))}
    for label, keys in batch.nodes.items():
        held.get(label, set()).difference_update(keys)
    yield from _delete_lonely(held)


def remove_posts(keys: Sequence[str]) -> Steps[None]:
    """Take posts out, with what only they held."""
    rows = yield _of_posts("SET p.posted_at = NULL RETURN p.key"), {"keys": sorted(set(keys))}
    found = [row[0] for row in whole(rows)]
    if not found:
        return
    held = yield from _let_go(found)
    held["Post"] = held.get("Post", set()).union(found)
    yield from _delete_lonely(held)


def put_interests(tenant_id: UUID, user_id: UUID, topics: Mapping[str, float]) -> Steps[None]:
    """Put what a user is interested in, in place of what was there; nothing at all: the user leaves the graph."""
    user, tenant = key_of(tenant_id, str(user_id)), str(tenant_id)
    user_row = {"key": user, "tenant": tenant, "id": str(user_id)}
    yield _merge("User", always=True), {"rows": [user_row]}
    held = yield "MATCH (u:User)-[:INTERESTED_IN]->(t:Topic) WHERE u.key = $key RETURN t.key", {"key": user}
    yield "MATCH (u:User)-[r:INTERESTED_IN]->(:Topic) WHERE u.key = $key DELETE r", {"key": user}
    rows = [{"key": key_of(tenant_id, name), "tenant": tenant, "name": name} for name in topics]
    if rows:
        relations = [{"a": user, "b": row["key"], "weight": float(topics[row["name"]])} for row in rows]
        yield _merge("Topic"), {"rows": _sorted(rows)}
        yield _relate("INTERESTED_IN"), {"rows": relations}
    else:
        yield "MATCH (u:User) WHERE u.key = $key DELETE u", {"key": user}
    yield from _delete_lonely({"Topic": {row[0] for row in whole(held)} - {row["key"] for row in rows}})


def set_mark(mark: str) -> Steps[None]:
    yield f"MERGE (m:{MARK} {{key: $key}}) SET m.id = $mark", {"key": MARK, "mark": mark}


def drop_some(tenant_id: UUID, label: str, most: int) -> Steps[int]:
    """Delete up to `most` nodes of a tenant; tells how many it were."""
    match = f"MATCH (n:{label}) WHERE n.tenant = $tenant WITH n LIMIT {most} DETACH DELETE n RETURN count(*)"
    rows = yield match, {"tenant": str(tenant_id)}
    return int(rows[0][0]) if rows else 0


def _let_go(keys: list[str]) -> Steps[Held]:
    """Take all relations from posts; returns what they were with."""
    held: Held = defaultdict(set)
    for pattern in (f"(p)-[r:{OUTGOING}]->(n)", f"(p)<-[r:{INCOMING}]-(n)"):
        rows = yield _of_posts(f"MATCH {pattern} RETURN DISTINCT labels(n), n.key"), {"keys": keys}
        for labels, key in whole(rows):
            held[label_of(labels)].add(key)
        yield _of_posts(f"MATCH {pattern} DELETE r"), {"keys": keys}
    return held


def _let_labels_go(images: list[str]) -> Steps[set[str]]:
    """The same for the labels of pictures: writing the picture locks it."""
    start = "UNWIND $keys AS k MATCH (i:Image) WHERE i.key = k"
    yield f"{start} SET i.sha256 = i.sha256", {"keys": sorted(images)}
    rows = yield f"{start} MATCH (i)-[:HAS_LABEL]->(l:Label) RETURN DISTINCT l.key", {"keys": images}
    yield f"{start} MATCH (i)-[r:HAS_LABEL]->(:Label) DELETE r", {"keys": images}
    return {row[0] for row in whole(rows)}


def _delete_lonely(held: Mapping[str, Collection[str]]) -> Steps[None]:
    candidates = {label: set(keys) for label, keys in held.items()}
    for label, condition in LONELY.items():
        if not (keys := sorted(candidates.get(label, ()))):
            continue
        lonely = f"UNWIND $keys AS k MATCH (n:{label}) WHERE n.key = k AND {condition}"
        rows = yield f"{lonely} RETURN n.key", {"keys": keys}
        if not rows:
            continue
        found = [row[0] for row in whole(rows)]
        if label == "Image":
            candidates["Label"] = candidates.get("Label", set()) | (yield from _let_labels_go(found))
        yield f"UNWIND $keys AS k MATCH (n:{label}) WHERE n.key = k DELETE n", {"keys": found}


def _sorted(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """By key, so that writers who meet lock in the same order."""
    return sorted(rows, key=lambda row: row["key"])


def _of_posts(what: str) -> str:
    return f"UNWIND $keys AS k MATCH (p:Post) WHERE p.key = k {what}"


def _merge(label: str, *, always: bool = False, properties: Collection[str] = ()) -> str:
    names = [name for name in ("tenant", *NODES[label]) if not properties or name in properties]
    values = ", ".join(f"n.{name} = r.{name}" for name in names)
    return f"UNWIND $rows AS r MERGE (n:{label} {{key: r.key}}) {'SET' if always else 'ON CREATE SET'} {values}"


def _retitle(label: str) -> str:
    return f"UNWIND $rows AS r MATCH (n:{label}) WHERE n.key = r.key AND n.title <> r.title SET n.title = r.title"


def _relate(relation: str) -> str:
    a, b, properties = RELATIONS[relation]
    values = ", ".join(f"{name}: r.{name}" for name in properties)
    to = f"CREATE (a)-[:{relation} {{{values}}}]->(b)" if values else f"CREATE (a)-[:{relation}]->(b)"
    return f"UNWIND $rows AS r MATCH (a:{a}) WHERE a.key = r.a MATCH (b:{b}) WHERE b.key = r.b {to}"
