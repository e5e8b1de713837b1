"""Questions to the graph."""

from __future__ import annotations

from collections import defaultdict
from typing import Any
from uuid import UUID

from telegram_assistant.domain.models import Entity, EntityKind
from telegram_assistant.index.cypher import MARK, NODES, Steps, key_of, whole
from telegram_assistant.index.graph import Image, Neighbour, PostNode, Thing, WebPage

MOST_HOLDERS = 1000  # what more posts than these hold says nothing about any two of them, and would cost much to follow

NODE = """
MATCH (c:Channel)-[:HAS_POST]->(p:Post) WHERE p.key = $key
RETURN p.channel_id, c.title, p.message_id, p.posted_at
"""
ORIGIN = "MATCH (p:Post)-[r:FORWARDED_FROM]->(c:Channel) WHERE p.key = $key RETURN c.id, r.message_id"
PARTS = """
MATCH (p:Post)-[r:TAGGED_AS]->(n:Tag) WHERE p.key = $key
RETURN 'tag' AS what, r.place AS place, n.name AS one, '' AS two
UNION ALL MATCH (p:Post)-[r:HAS_TOPIC]->(n:Topic) WHERE p.key = $key
RETURN 'topic' AS what, r.place AS place, n.name AS one, '' AS two
UNION ALL MATCH (p:Post)-[r:REFERS_TO]->(n:WebPage) WHERE p.key = $key
RETURN 'page' AS what, r.place AS place, n.url AS one, n.title AS two
UNION ALL MATCH (p:Post)-[r:MENTIONS]->(n:Entity) WHERE p.key = $key
RETURN 'entity' AS what, r.place AS place, n.kind AS one, n.name AS two
UNION ALL MATCH (p:Post)-[r:HAS_IMAGE]->(n:Image) WHERE p.key = $key
RETURN 'image' AS what, r.place AS place, n.sha256 AS one, '' AS two
UNION ALL MATCH (p:Post)-[:HAS_IMAGE]->(i:Image) WHERE p.key = $key MATCH (i)-[r:HAS_LABEL]->(n:Label)
RETURN 'label' AS what, r.place AS place, i.sha256 AS one, n.name AS two
UNION ALL MATCH (p:Post)-[:REPLIES_TO]->(n:Post) WHERE p.key = $key
RETURN 'reply' AS what, 0 AS place, n.id AS one, '' AS two
UNION ALL MATCH (n:Album)-[:CONTAINS]->(p:Post) WHERE p.key = $key
RETURN 'album' AS what, 0 AS place, n.id AS one, '' AS two
"""
NEIGHBOURS = """
MATCH (p:Post)-[:TAGGED_AS|MENTIONS|REFERS_TO]->(n) WHERE p.key = $key
MATCH (n)<-[:TAGGED_AS|MENTIONS|REFERS_TO]-(x:Post) WITH p, n, count(x) AS held WHERE held <= $most
MATCH (n)<-[:TAGGED_AS|MENTIONS|REFERS_TO]-(o:Post) WHERE o.key <> p.key
RETURN o.id AS id, collect(DISTINCT coalesce(n.name, n.url)) AS shared, sum(1.0 / sqrt(held)) AS score
ORDER BY score DESC, id LIMIT $limit
"""
FORWARDS = """
MATCH (c:Channel)<-[r:FORWARDED_FROM]-(o:Post) WHERE c.key = $channel AND r.message_id = $message AND o.key <> $key
RETURN o.posted_at AS at, o.id AS id ORDER BY at, id LIMIT $limit
"""
ORIGINAL = """
MATCH (c:Channel)-[:HAS_POST]->(o:Post) WHERE c.key = $channel AND o.message_id = $message AND o.key <> $key
RETURN o.posted_at AS at, o.id AS id
"""
HOLDERS = """
MATCH (n:{label})<-[:{relation}]-(p:Post) WHERE n.key = $key AND p.channel_id IN $channels
RETURN p.posted_at AS at, p.id AS id ORDER BY at DESC, id LIMIT $limit
"""
HELD = {Thing.TAG: ("Tag", "TAGGED_AS"), Thing.TOPIC: ("Topic", "HAS_TOPIC"), Thing.ENTITY: ("Entity", "MENTIONS")}
INTERESTS = "MATCH (u:User)-[r:INTERESTED_IN]->(t:Topic) WHERE u.key = $key RETURN t.name, r.weight"


def node(tenant_id: UUID, post_id: UUID) -> Steps[PostNode | None]:
    key = {"key": key_of(tenant_id, str(post_id))}
    found = yield NODE, key
    if not whole(found):
        return None
    channel_id, title, message_id, posted_at = found[0]
    origin = yield ORIGIN, key
    rows = yield PARTS, key
    parts: dict[str, list[Any]] = defaultdict(list)
    for what, _, one, two in sorted(whole(rows), key=lambda row: row[1]):
        parts[what].append((one, two))
    labels: dict[str, list[str]] = defaultdict(list)
    for sha256, name in parts["label"]:
        labels[sha256].append(name)
    return PostNode(
        tenant_id=tenant_id,
        post_id=post_id,
        channel_id=channel_id,
        channel_title=title,
        message_id=message_id,
        posted_at=posted_at,
        tags=tuple(name for name, _ in parts["tag"]),
        topics=tuple(name for name, _ in parts["topic"]),
        images=tuple(Image(sha256=sha256, labels=tuple(labels[sha256])) for sha256, _ in parts["image"]),
        pages=tuple(WebPage(url=url, title=title) for url, title in parts["page"]),
        entities=tuple(Entity(EntityKind(kind), name) for kind, name in parts["entity"]),
        forwarded_channel_id=origin[0][0] if origin else None,
        forwarded_message_id=(origin[0][1] or None) if origin else None,
        replies_to=UUID(parts["reply"][0][0]) if parts["reply"] else None,
        album_id=UUID(parts["album"][0][0]) if parts["album"] else None,
    )


def neighbours(tenant_id: UUID, post_id: UUID, limit: int) -> Steps[list[Neighbour]]:
    params = {"key": key_of(tenant_id, str(post_id)), "most": MOST_HOLDERS, "limit": limit}
    rows = yield NEIGHBOURS, params
    return [Neighbour(UUID(post), tuple(sorted(shared)), round(score, 6)) for post, shared, score in whole(rows)]


def forwards(tenant_id: UUID, post_id: UUID, limit: int) -> Steps[list[UUID]]:
    key = key_of(tenant_id, str(post_id))
    found = yield NODE, {"key": key}
    if not whole(found):
        return []
    origin = yield ORIGIN, {"key": key}
    channel_id, message_id = origin[0] if origin else (found[0][0], found[0][2])
    if not message_id:
        return []  # of the origin only the channel is known
    place = {"channel": key_of(tenant_id, channel_id), "message": message_id, "key": key}
    original = yield ORIGINAL, place
    copies = yield FORWARDS, {**place, "limit": limit}
    return [UUID(post) for _, post in sorted(whole([*original, *copies]))[:limit]]


def holders(tenant_id: UUID, thing: Thing, name: str, channels: list[int], limit: int) -> Steps[list[UUID]]:
    names = [(kind.value, name) for kind in EntityKind] if thing is Thing.ENTITY else [(name,)]
    label, relation = HELD[thing]
    statement = HOLDERS.format(label=label, relation=relation)
    found: dict[str, Any] = {}
    for parts in names if channels else ():
        rows = yield statement, {"key": key_of(tenant_id, *parts), "channels": channels, "limit": limit}
        found |= {post: at for at, post in whole(rows)}
    newest = sorted(found, key=lambda post: (-found[post].timestamp(), post))
    return [UUID(post) for post in newest[:limit]]


def interests(tenant_id: UUID, user_id: UUID) -> Steps[dict[str, float]]:
    rows = yield INTERESTS, {"key": key_of(tenant_id, str(user_id))}
    return dict(whole(rows))


def counts(tenant_id: UUID) -> Steps[dict[str, int]]:
    """Posts that are only replied to, and were never put, do not count."""
    each = [
        f"MATCH (n:{label}) WHERE n.tenant = $tenant{' AND n.posted_at IS NOT NULL' if label == 'Post' else ''}"
        f" RETURN '{label}' AS what, count(n) AS nodes"
        for label in NODES
    ]
    rows = yield " UNION ALL ".join(each), {"tenant": str(tenant_id)}
    return dict.fromkeys(NODES, 0) | dict(rows)


def known(tenant_id: UUID, post_ids: list[UUID]) -> Steps[set[UUID]]:
    """Without those that others only reply to."""
    keys = [key_of(tenant_id, str(post_id)) for post_id in post_ids]
    rows = yield (
        "UNWIND $keys AS k MATCH (p:Post) WHERE p.key = k AND p.posted_at IS NOT NULL RETURN p.id",
        {"keys": keys},
    )
    return {UUID(row[0]) for row in whole(rows)}


def mark() -> Steps[str | None]:
    rows = yield f"MATCH (m:{MARK}) WHERE m.key = $key RETURN m.id", {"key": MARK}
    return rows[0][0] if rows else None
