"""A post as the API and the page show it, with everything that hangs on it; read under row-level security."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from telegram_assistant.domain.models import Seen
from telegram_assistant.domain.post import Poll, Service, post_id, post_url
from telegram_assistant.domain.text import Entity, EntityKind
from telegram_assistant.stores.postgres.database import Found, Store, as_tenant, as_value
from telegram_assistant.stores.postgres.pipeline import Recorded, path_of
from telegram_assistant.stores.postgres.topics import TOPIC_OF_POST, ForumTopic

MOST_VERSIONS = 100
MOST_COUNTERS = 1_000
EXCERPT = 200  # characters of what a post answers
PICTURES = frozenset({"image/jpeg", "image/png", "image/webp", "image/gif", "image/bmp", "image/tiff"})

_KINDS: dict[object, EntityKind] = {kind.value: kind for kind in EntityKind}


@dataclass(frozen=True, slots=True)
class ChannelName:
    """A channel, as far as a post shows it."""

    id: int
    title: str
    username: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownFile:
    """A file of a post, what became of it, and what was seen on it."""

    post_id: UUID
    position: int
    kind: str
    status: str  # pending | stored | skipped | failed | evicted
    reason: str | None  # why it is not stored
    mime: str | None
    size: int | None
    width: int | None
    height: int | None
    duration: float | None
    name: str | None
    sha256: str | None
    seen: Seen | None = None

    @property
    def is_picture(self) -> bool:
        """There may be a thumbnail of it."""
        looks = self.kind in {"photo", "sticker"} or (self.mime or "") in PICTURES
        return self.status == "stored" and self.sha256 is not None and looks

    @property
    def is_video(self) -> bool:
        """It can be played on a page."""
        return self.status == "stored" and self.sha256 is not None and self.mime == "video/mp4"


@dataclass(frozen=True, slots=True)
class Named:
    """A person, an organisation or a place that a post names."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What the models made of the words that the post has now."""

    tags: tuple[str, ...]
    topics: tuple[str, ...]
    entities: tuple[Named, ...]
    language: str
    provider: str


@dataclass(frozen=True, slots=True)
class LinkedPage:
    """A page that the post links to, as it was read."""

    link: str
    url: str
    title: str
    description: str
    site: str
    problem: str | None
    fetched_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardedFrom:
    """Where it comes from. `post_id` and `channel`: only where the reader may see them."""

    channel_id: int | None
    message_id: int | None
    name: str | None  # of a person, or a signature
    posted_at: datetime | None
    channel: ChannelName | None
    post_id: UUID | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerTo:
    """What it answers; `post_id` and `text` only where the reader may see it."""

    message_id: int
    post_id: UUID | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PostLine:
    """A post in a list."""

    id: UUID
    channel: ChannelName
    message_id: int
    posted_at: datetime
    text: str
    edited_at: datetime | None
    deleted_at: datetime | None
    version: int
    album_id: UUID | None
    has_media: bool
    views: int | None
    forwards: int | None
    replies: int | None
    reactions: dict[str, int]

    @property
    def url(self) -> str:
        return post_url(self.channel.username, self.channel.id, self.message_id)


@dataclass(frozen=True, slots=True)
class Caption:
    """What the post that speaks for an album says."""

    post_id: UUID
    text: str
    entities: tuple[Entity, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PostView(PostLine):
    """A post with everything that hangs on it."""

    entities: tuple[Entity, ...]
    pinned: bool
    captured_at: datetime
    author: str | None
    files: tuple[ShownFile, ...]  # of the whole album, in its order
    album: tuple[UUID, ...]  # all its posts, this one too; empty: it is in none
    caption: Caption | None  # the words of its album, where another of its posts has them
    found: Findings
    pages: tuple[LinkedPage, ...]
    forward: ForwardedFrom | None
    reply_to: AnswerTo | None
    poll: Poll | None
    service: Service | None
    comments: int  # that are stored
    thread: ForumTopic | None  # the topic of the forum that it is in


@dataclass(frozen=True, slots=True)
class Version:
    """What a post said once. `until`: when we saw that it says something else; None: it still says this."""

    version: int
    text: str
    entities: tuple[Entity, ...]
    edited_at: datetime | None
    until: datetime | None


@dataclass(frozen=True, slots=True)
class Counted:
    """The counters of a post at one moment."""

    at: datetime
    views: int | None
    forwards: int | None
    replies: int | None
    reactions: int


def entities_of(stored: Iterable[object]) -> tuple[Entity, ...]:
    """Entities as they were stored; what cannot be read as one is left out."""
    found = []
    for one in stored:
        if not isinstance(one, Mapping):
            continue
        kind, offset, length = _KINDS.get(one.get("kind")), one.get("offset"), one.get("length")
        if kind is not None and isinstance(offset, int) and isinstance(length, int):
            found.append(Entity(kind, offset, length, _words(one.get("url")), _words(one.get("detail"))))
    return tuple(found)


def findings_of(data: Mapping[str, Any] | None, provider: str | None) -> Findings:
    data = data or {}
    return Findings(
        tags=tuple(map(str, data.get("tags") or ())),
        topics=tuple(map(str, data.get("topics") or ())),
        entities=tuple(Named(str(one["kind"]), str(one["name"])) for one in data.get("entities") or ()),
        language=str(data.get("language") or ""),
        provider=provider or "",
    )


def poll_of(details: Mapping[str, Any]) -> Poll | None:
    poll = details.get("poll")
    if not poll:
        return None
    return Poll(
        question=str(poll.get("question", "")),
        answers=tuple(map(str, poll.get("answers") or ())),
        quiz=bool(poll.get("quiz")),
        closed=bool(poll.get("closed")),
        voters=poll.get("voters"),
    )


def service_of(details: Mapping[str, Any]) -> Service | None:
    service = details.get("service")
    return Service(str(service.get("action", "")), _words(service.get("detail"))) if service else None


def _words(value: object) -> str | None:
    return value if isinstance(value, str) else None


_LINE = """p.id, p.message_id, p.posted_at, p.text, p.edited_at, p.deleted_at, p.version, p.has_media, p.views,
  p.forwards, p.replies, p.reactions,
  (SELECT i.group_id FROM media_group_items i WHERE i.post_id = p.id LIMIT 1) AS album_id"""
_ONE = f"""
SELECT {_LINE}, c.id AS channel_id, c.title, c.username, p.entities, p.pinned, p.captured_at, p.details,
  t.data AS tags, t.provider, (SELECT count(*) FROM post_comments m WHERE m.post_id = p.id) AS comments
FROM posts p JOIN channels c ON c.id = p.channel_id
LEFT JOIN post_enrichment t ON t.post_id = p.id AND t.kind = 'tags' AND t.content_hash = p.content_hash
WHERE p.id = :id
"""
# Each channel gives its newest by its index, and the newest of these are the newest of all.
_NEWEST = """
SELECT n.*, c.id AS channel_id, c.title, c.username FROM channels c CROSS JOIN LATERAL (
  SELECT {line} FROM posts p WHERE p.channel_id = c.id AND p.deleted_at IS NULL{narrowed}
  ORDER BY p.posted_at DESC, p.id DESC LIMIT :limit) n
WHERE {channels} ORDER BY n.posted_at DESC, n.id DESC LIMIT :limit
"""
_CAPTION = """
SELECT id, text, entities FROM posts WHERE id = ANY(:ids) AND text <> '' ORDER BY message_id LIMIT 1
"""
_THREAD = f"""
SELECT f.channel_id, f.id, f.title, f.closed, f.hidden, f.deleted_at FROM posts p
JOIN forum_topics f ON f.channel_id = p.channel_id AND f.id = {TOPIC_OF_POST} WHERE p.id = :id
"""
_ALBUM = "SELECT post_id FROM media_group_items WHERE group_id = :id ORDER BY position"
_PAGES = """
SELECT l.link, w.url, w.title, coalesce(nullif(w.description, ''), left(w.text, 300)), w.site, w.problem, w.fetched_at
FROM post_pages l JOIN web_pages w ON w.url = l.url WHERE l.post_id = :id ORDER BY l.link
"""
_VERSIONS = """
SELECT version, text, entities, edited_at, seen_at FROM (
  SELECT version, text, entities, edited_at, seen_at FROM post_versions WHERE post_id = :id
  UNION ALL SELECT version, text, entities, edited_at, NULL FROM posts WHERE id = :id) v
ORDER BY version DESC LIMIT :limit
"""
_COUNTERS = """
SELECT at, views, forwards, replies, reactions FROM (
  SELECT at, views, forwards, replies, reactions FROM post_counters WHERE post_id = :id
  UNION ALL SELECT counters_at, views, forwards, replies, reactions FROM posts WHERE id = :id) n
ORDER BY at DESC LIMIT :limit
"""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a page of a list ended."""

    posted_at: datetime
    post_id: UUID


class PostViews(Store):
    """Reads as a tenant: what it may not see is not found."""

    async def get(self, tenant_id: UUID, wanted: UUID) -> PostView | None:
        async with as_tenant(self._database, tenant_id) as connection:
            row = (await connection.execute(text(_ONE), {"id": wanted})).one_or_none()
            return await _view(connection, row) if row is not None else None

    async def newest(
        self,
        tenant_id: UUID,
        *,
        limit: int,
        channel_id: int | None = None,
        since: datetime | None = None,
        before: datetime | None = None,
        after: Place | None = None,
        thread: int | None = None,
    ) -> list[PostLine]:
        """Without comments, unless it is their group that is asked for.

        `since`, `before`: when they were posted. `thread`: the id of a topic.
        """
        values = {
            "channel": channel_id,
            "since": since,
            "before": before,
            "thread": thread,
            "at": after.posted_at if after else None,
            "id": after.post_id if after else None,
        }
        conditions = {
            "since": " AND p.posted_at >= :since",
            "before": " AND p.posted_at < :before",
            "thread": f" AND {TOPIC_OF_POST} = :thread",
            "at": " AND p.posted_at <= :at AND (p.posted_at, p.id) < (:at, CAST(:id AS uuid))",
        }
        narrowed = "".join(condition for name, condition in conditions.items() if values[name] is not None)
        channels = "c.status <> 'linked'" if channel_id is None else "c.id = :channel"
        used = {name: value for name, value in values.items() if value is not None}
        statement = _NEWEST.format(line=_LINE, narrowed=narrowed, channels=channels)
        return [
            as_value(PostLine, row, channel=_channel_of(row))
            for row in await self._rows(statement, {**used, "limit": limit}, tenant=tenant_id)
        ]

    async def versions(self, tenant_id: UUID, wanted: UUID) -> list[Version]:
        """The newest first; empty: there is no such post."""
        rows = await self._rows(_VERSIONS, {"id": wanted, "limit": MOST_VERSIONS}, tenant=tenant_id)
        return [Version(row.version, row.text, entities_of(row.entities), row.edited_at, row.seen_at) for row in rows]

    async def counters(self, tenant_id: UUID, wanted: UUID) -> list[Counted]:
        """The oldest first; empty: there is no such post."""
        rows = await self._rows(_COUNTERS, {"id": wanted, "limit": MOST_COUNTERS}, tenant=tenant_id)
        counted = [Counted(row.at, row.views, row.forwards, row.replies, sum(row.reactions.values())) for row in rows]
        return counted[::-1]

    async def path(self, tenant_id: UUID, wanted: UUID) -> list[Recorded]:
        """How it came here; empty: there is no such post."""
        async with as_tenant(self._database, tenant_id) as connection:
            return await path_of(connection, wanted)


async def _view(connection: AsyncConnection, row: Row[Any]) -> PostView:
    album: tuple[UUID, ...] = ()
    if row.album_id is not None:
        album = tuple(one.post_id for one in await connection.execute(text(_ALBUM), {"id": row.album_id}))
    pages = await connection.execute(text(_PAGES), {"id": row.id})
    return as_value(
        PostView,
        row,
        channel=_channel_of(row),
        entities=entities_of(row.entities),
        author=row.details.get("author"),
        files=tuple(await files_of(connection, album or [row.id])),
        album=album,
        caption=await _caption(connection, album) if album and not row.text else None,
        found=findings_of(row.tags, row.provider),
        pages=tuple(LinkedPage(*page) for page in pages),
        forward=await _forward(connection, row.details.get("forward")),
        reply_to=await _answered(connection, row.channel_id, row.details.get("reply_to")),
        poll=poll_of(row.details),
        service=service_of(row.details),
        thread=await _thread(connection, row.id),
    )


def _channel_of(row: Found) -> ChannelName:
    return ChannelName(row.channel_id, row.title, row.username)


async def _thread(connection: AsyncConnection, wanted: UUID) -> ForumTopic | None:
    row = (await connection.execute(text(_THREAD), {"id": wanted})).one_or_none()
    return None if row is None else as_value(ForumTopic, row)


async def _caption(connection: AsyncConnection, album: tuple[UUID, ...]) -> Caption | None:
    row = (await connection.execute(text(_CAPTION), {"ids": list(album)})).one_or_none()
    return Caption(row.id, row.text, entities_of(row.entities)) if row is not None else None


async def _forward(connection: AsyncConnection, origin: dict[str, Any] | None) -> ForwardedFrom | None:
    if not origin:
        return None
    channel_id, message_id = origin.get("channel_id"), origin.get("message_id")
    channel = post = None
    if channel_id:
        statement = text(
            "SELECT c.id, c.title, c.username, p.id FROM channels c LEFT JOIN posts p ON p.channel_id = c.id"
            " AND p.message_id = :message WHERE c.id = :channel"
        )
        values = {"channel": channel_id, "message": message_id or 0}
        row = (await connection.execute(statement, values)).one_or_none()
        channel, post = (ChannelName(*row[:3]), row[3]) if row is not None else (None, None)
    posted_at = origin.get("posted_at")
    return ForwardedFrom(
        channel_id=channel_id,
        message_id=message_id,
        name=origin.get("name") or origin.get("author"),
        posted_at=datetime.fromisoformat(posted_at) if posted_at else None,
        channel=channel,
        post_id=post,
    )


async def _answered(connection: AsyncConnection, channel_id: int, answered: dict[str, Any] | None) -> AnswerTo | None:
    if not answered or not answered.get("message_id"):
        return None
    message_id = answered["message_id"]
    wanted = post_id(answered.get("channel_id") or channel_id, message_id)
    statement = text("SELECT id, left(text, :most) AS text FROM posts WHERE id = :id")
    row = (await connection.execute(statement, {"id": wanted, "most": EXCERPT})).one_or_none()
    if row is None:
        return AnswerTo(message_id=message_id, post_id=None, text="")
    return AnswerTo(message_id=message_id, post_id=row.id, text=row.text)


_FILES = """
SELECT m.post_id, m.position, m.kind, m.status, m.reason, coalesce(o.mime, m.mime) AS mime,
  coalesce(o.size, m.size) AS size, m.width, m.height, m.duration, m.name, m.sha256, r.data::text AS seen
FROM post_media m JOIN posts p ON p.id = m.post_id LEFT JOIN media_objects o ON o.sha256 = m.sha256
LEFT JOIN picture_results r ON r.sha256 = m.sha256
WHERE m.post_id = ANY(:ids) ORDER BY p.message_id, m.position
"""
_OBJECT = """
SELECT o.sha256, o.size, o.storage_key,
  (SELECT m.name FROM post_media m WHERE m.sha256 = o.sha256 AND m.name IS NOT NULL LIMIT 1) AS name
FROM media_objects o WHERE o.sha256 = :sha256 AND o.evicted_at IS NULL
"""


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A file in the media store, as a tenant may have it."""

    sha256: str
    size: int
    storage_key: str
    name: str | None  # as one of the posts calls it


class PostFiles(Store):
    """Files of posts, as far as a tenant sees the posts."""

    async def kept(self, tenant_id: UUID, sha256: str) -> KeptFile | None:
        """None unless the tenant sees a post that has this file, now."""
        row = await self._row(_OBJECT, {"sha256": sha256}, tenant=tenant_id)
        return KeptFile(*row) if row is not None else None

    async def of_posts(self, tenant_id: UUID, post_ids: Sequence[UUID]) -> dict[UUID, list[ShownFile]]:
        """In the order of an album's posts."""
        found: dict[UUID, list[ShownFile]] = {}
        if post_ids:
            async with as_tenant(self._database, tenant_id) as connection:
                for file in await files_of(connection, post_ids):
                    found.setdefault(file.post_id, []).append(file)
        return found


async def files_of(connection: AsyncConnection, post_ids: Sequence[UUID]) -> list[ShownFile]:
    rows = await connection.execute(text(_FILES), {"ids": list(post_ids)})
    return [_file(row) for row in rows]


def _file(row: Row[Any]) -> ShownFile:
    fields = row._asdict()
    seen = fields.pop("seen")
    return ShownFile(**fields, seen=msgspec.json.decode(seen, type=Seen) if seen else None)
