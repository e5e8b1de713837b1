"""What was seen on pictures: one result per file, shared by all posts and tenants, and by near duplicates."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.models import Identity
from telegram_assistant.domain.pictures import Fingerprint, Known, bands, distance
from telegram_assistant.domain.understanding import Seen
from telegram_assistant.stores.postgres.jsonb import as_jsonb

MOST_CANDIDATES = 100

# A result that is its picture's own stays so: two processes that look at once would find each other's.
_PUT = """
INSERT INTO picture_results AS r (sha256, identity, fingerprint, bands, shared, data)
VALUES (:sha256, :identity, CAST(:fingerprint AS jsonb), :bands, :shared, CAST(:data AS jsonb))
ON CONFLICT (sha256) DO UPDATE SET identity = excluded.identity, fingerprint = excluded.fingerprint,
  bands = excluded.bands, shared = excluded.shared AND (r.shared OR r.identity <> excluded.identity),
  data = excluded.data, created_at = now()
"""


class Pictures:
    """The table `picture_results`."""

    def __init__(self, database: AsyncEngine) -> None:
        self._database = database

    async def of(self, hashes: Sequence[str], identity: Identity | None = None) -> dict[str, Seen]:
        """Results by SHA-256; with `identity` only those of this model."""
        statement = text(
            "SELECT sha256, data::text AS data FROM picture_results WHERE sha256 = ANY(:hashes)"
            " AND (CAST(:identity AS text) IS NULL OR identity = :identity)"
        )
        async with self._database.connect() as connection:
            rows = await connection.execute(
                statement, {"hashes": list(hashes), "identity": str(identity) if identity else None}
            )
            return {row.sha256: msgspec.json.decode(row.data, type=Seen) for row in rows}

    async def near(self, fingerprint: Fingerprint, identity: Identity) -> list[Known]:
        """Pictures that may be this one, scaled or compressed anew, nearest first; the caller decides."""
        if fingerprint.plain:
            return []
        statement = text(
            "SELECT sha256, fingerprint::text AS fingerprint, data::text AS data FROM picture_results"
            " WHERE bands && CAST(:bands AS int[]) AND identity = :identity AND NOT shared"
            " ORDER BY created_at LIMIT :most"
        )
        values = {"bands": list(bands(fingerprint.phash)), "identity": str(identity), "most": MOST_CANDIDATES}
        async with self._database.connect() as connection:
            rows = await connection.execute(statement, values)
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
        async with self._database.begin() as connection:
            await connection.execute(text(_PUT), values)
