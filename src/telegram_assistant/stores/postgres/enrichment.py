"""What stages read of posts, and what they found out: tags, albums, what pictures show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from telegram_assistant.domain.access import SYSTEM_TENANT
from telegram_assistant.domain.models import Identity, Seen
from telegram_assistant.domain.pictures import Fingerprint, Known, bands, distance
from telegram_assistant.domain.post import post_id
from telegram_assistant.stores.postgres.database import Store, as_jsonb, raw_transaction

# Only findings about the words that the post has now; a finding of higher rank is not overwritten.
_SAVE = """
INSERT INTO post_enrichment AS e (post_id, kind, content_hash, data, provider)
SELECT n.post_id, $1, n.content_hash, n.data::jsonb, n.provider
FROM unnest($2::uuid[], $3::text[], $4::text[], $5::text[]) AS n(post_id, content_hash, data, provider)
JOIN posts p ON p.id = n.post_id AND p.content_hash = n.content_hash
ON CONFLICT (post_id, kind) DO UPDATE SET content_hash = excluded.content_hash, data = excluded.data,
  provider = excluded.provider, updated_at = now()
WHERE (e.content_hash, e.data, e.provider) IS DISTINCT FROM (excluded.content_hash, excluded.data, excluded.provider)
  AND NOT (e.content_hash = excluded.content_hash
           AND coalesce((e.data->>'rank')::int, 0) > coalesce((excluded.data->>'rank')::int, 0))
RETURNING post_id
"""


@dataclass(frozen=True, slots=True)
class Enrichment:
    """One finding about one post. `rank` in the data: of two findings about the same words the higher one stays."""

    post_id: UUID
    content_hash: str
    data: Mapping[str, Any]
    provider: str


class Enrichments(Store):
    """The table `post_enrichment`."""

    async def save(self, kind: str, found: Sequence[Enrichment]) -> set[UUID]:
        """The posts for which something changed."""
        latest: dict[tuple[UUID, str], Enrichment] = {}
        for one in found:
            # By their words too: only the table knows which words the post has now.
            about = one.post_id, one.content_hash
            known = latest.get(about)
            if known is None or int(one.data.get("rank", 0)) >= int(known.data.get("rank", 0)):
                latest[about] = one
        rows = [latest[about] for about in sorted(latest)]
        async with raw_transaction(self._database) as connection:
            changed = await connection.fetch(
                _SAVE,
                kind,
                [row.post_id for row in rows],
                [row.content_hash for row in rows],
                [as_jsonb(row.data) for row in rows],
                [row.provider for row in rows],
            )
        return {row["post_id"] for row in changed}

    async def of_posts(self, kind: str, post_ids: Sequence[UUID]) -> dict[UUID, Enrichment]:
        statement = (
            "SELECT post_id, content_hash, data, provider FROM post_enrichment"
            " WHERE kind = :kind AND post_id = ANY(:ids)"
        )
        rows = await self._rows(statement, {"kind": kind, "ids": list(post_ids)})
        return {row.post_id: Enrichment(*row) for row in rows}


_READ = """
SELECT p.id AS post_id, p.channel_id, p.message_id, p.posted_at, p.text, p.urls, p.content_hash, p.grouped_id,
       p.details, p.deleted_at IS NOT NULL AS deleted, p.edited_at IS NOT NULL AS edited, c.tenant_id,
       c.title AS channel_title, c.username AS channel_username, i.group_id AS album_id, i.position AS album_place,
       (SELECT json_agg(json_build_object('position', m.position, 'kind', m.kind, 'sha256', m.sha256,
                 'mime', coalesce(o.mime, m.mime, ''), 'size', coalesce(o.size, m.size, 0), 'width', m.width,
                 'height', m.height, 'status', m.status, 'reason', m.reason, 'storage_key', o.storage_key)
               ORDER BY m.position)::text
        FROM post_media m LEFT JOIN media_objects o ON o.sha256 = m.sha256 WHERE m.post_id = p.id) AS files
FROM posts p JOIN channels c ON c.id = p.channel_id LEFT JOIN media_group_items i ON i.post_id = p.id
WHERE p.id = ANY($1)
"""


_SYSTEM = UUID(SYSTEM_TENANT)
_OF_TENANT = (
    "FROM posts p JOIN channels c ON c.id = p.channel_id WHERE coalesce(c.tenant_id, $2) = $1 AND p.deleted_at IS NULL"
)


class File(msgspec.Struct, frozen=True):
    """A file of a post, as far as it got."""

    position: int
    kind: str
    mime: str
    size: int
    status: str  # pending | stored | skipped | failed
    sha256: str | None = None
    width: int | None = None
    height: int | None = None
    reason: str | None = None
    storage_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPost:
    """A post with its channel, files and album, as the stages need it."""

    post_id: UUID
    tenant_id: UUID
    channel_id: int
    channel_title: str
    channel_username: str | None
    message_id: int
    posted_at: datetime
    text: str
    urls: tuple[str, ...]
    content_hash: str
    grouped_id: int | None
    album_id: UUID | None
    album_place: int | None  # from 0
    details: dict[str, Any]
    deleted: bool
    edited: bool
    files: tuple[File, ...]

    @property
    def forward(self) -> tuple[int | None, int | None]:
        """Channel and message that it was forwarded from."""
        origin = self.details.get("forward") or {}
        return origin.get("channel_id"), origin.get("message_id")

    @property
    def replies_to(self) -> UUID | None:
        answered = self.details.get("reply_to") or {}
        if not answered.get("message_id"):
            return None
        return post_id(answered.get("channel_id") or self.channel_id, answered["message_id"])


class StoredPosts(Store):
    """Reads posts for the stages."""

    async def read(self, post_ids: Sequence[UUID]) -> dict[UUID, StoredPost]:
        """Those that are there; a post of a channel that was erased is not."""
        async with raw_transaction(self._database) as connection:
            rows = await connection.fetch(_READ, list(post_ids))
        return {row["post_id"]: _stored_post(row) for row in rows}

    async def tenants(self) -> list[UUID]:
        """Whose indexes there are: the system's for public channels, and those of tenants with private ones."""
        async with raw_transaction(self._database) as connection:
            rows = await connection.fetch("SELECT DISTINCT coalesce(tenant_id, $1) AS id FROM channels", _SYSTEM)
        return sorted({row["id"] for row in rows} | {_SYSTEM})

    async def count(self, tenant_id: UUID) -> int:
        async with raw_transaction(self._database) as connection:
            return int(await connection.fetchval(f"SELECT count(*) {_OF_TENANT}", tenant_id, _SYSTEM))

    async def ids_after(self, tenant_id: UUID, after: UUID | None, *, limit: int) -> list[UUID]:
        """Posts that belong into a tenant's indexes, in pieces."""
        statement = f"SELECT p.id {_OF_TENANT} AND p.id > $3 ORDER BY p.id LIMIT $4"
        async with raw_transaction(self._database) as connection:
            rows = await connection.fetch(statement, tenant_id, _SYSTEM, after or UUID(int=0), limit)
        return [row["id"] for row in rows]


def _stored_post(row: Any) -> StoredPost:
    values = {
        **row,
        "tenant_id": row["tenant_id"] or _SYSTEM,
        "details": msgspec.json.decode(row["details"]) if isinstance(row["details"], str) else row["details"],
        "files": msgspec.json.decode(row["files"]) if row["files"] else (),
    }
    return msgspec.convert(values, StoredPost)


MOST_CANDIDATES = 100

# A picture's own result is not marked as shared: two processes that look at once would find each other's.
_PUT = """
INSERT INTO picture_results AS r (sha256, identity, fingerprint, bands, shared, data)
VALUES (:sha256, :identity, CAST(:fingerprint AS jsonb), :bands, :shared, CAST(:data AS jsonb))
ON CONFLICT (sha256) DO UPDATE SET identity = excluded.identity, fingerprint = excluded.fingerprint,
  bands = excluded.bands, shared = excluded.shared AND (r.shared OR r.identity <> excluded.identity),
  data = excluded.data, created_at = now()
"""


class Pictures(Store):
    """The table `picture_results`."""

    async def by_hash(self, hashes: Sequence[str], identity: Identity | None = None) -> dict[str, Seen]:
        """Results by SHA-256; with `identity` only those of this model."""
        statement = (
            "SELECT sha256, data::text AS data FROM picture_results WHERE sha256 = ANY(:hashes)"
            " AND (CAST(:identity AS text) IS NULL OR identity = :identity)"
        )
        rows = await self._rows(statement, {"hashes": list(hashes), "identity": str(identity) if identity else None})
        return {row.sha256: msgspec.json.decode(row.data, type=Seen) for row in rows}

    async def of_posts(self, posts: Sequence[StoredPost]) -> dict[UUID, list[tuple[str, Seen]]]:
        """Each picture of each post that was looked at, by its SHA-256."""
        hashes = {file.sha256 for post in posts for file in post.files if file.sha256}
        found = await self.by_hash(sorted(hashes))
        return {
            post.post_id: [(file.sha256, found[file.sha256]) for file in post.files if file.sha256 in found]
            for post in posts
        }

    async def near(self, fingerprint: Fingerprint, identity: Identity) -> list[Known]:
        """Pictures that may be this one, scaled or compressed anew, nearest first; the caller decides."""
        if fingerprint.plain:
            return []
        statement = (
            "SELECT sha256, fingerprint::text AS fingerprint, data::text AS data FROM picture_results"
            " WHERE bands && CAST(:bands AS int[]) AND identity = :identity AND NOT shared"
            " ORDER BY created_at LIMIT :most"
        )
        values = {"bands": list(bands(fingerprint.phash)), "identity": str(identity), "most": MOST_CANDIDATES}
        rows = await self._rows(statement, values)
        found = [
            Known(
                row.sha256,
                msgspec.json.decode(row.fingerprint, type=Fingerprint),
                msgspec.json.decode(row.data, type=Seen),
            )
            for row in rows
        ]
        return sorted(found, key=lambda known: distance(known.fingerprint.phash, fingerprint.phash))

    async def put(
        self,
        sha256: str,
        seen: Seen,
        *,
        identity: Identity,
        fingerprint: Fingerprint | None = None,
        shared: bool = False,
    ) -> None:
        values = {
            "sha256": sha256,
            "identity": str(identity),
            "fingerprint": as_jsonb(fingerprint) if fingerprint else None,
            "bands": list(bands(fingerprint.phash)) if fingerprint and not fingerprint.plain else [],
            "shared": shared,
            # SPEC 8 has it among the others; reading takes it from `usage`.
            "data": as_jsonb({**msgspec.to_builtins(seen), "tokens_used": seen.tokens_used}),
        }
        await self._run(_PUT, values)
