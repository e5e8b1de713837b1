"""What accounts and public previews told differently; whose turn it is to be compared."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from telegram_assistant.domain.witnesses import Difference
from telegram_assistant.stores.postgres.database import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """A difference as it is kept. It stays until an admin has seen it, also when both tell the same again."""

    id: int
    channel_id: int
    message_id: int
    kind: str
    account_text: str | None
    preview_text: str | None
    first_at: datetime
    last_at: datetime
    agreed_at: datetime | None  # since when both tell the same again
    seen_at: datetime | None  # by an admin of the tenant that asks


COLUMNS = ", ".join(name for name in Disagreement.__dataclass_fields__ if name != "seen_at")
LONGEST = 20_000  # characters of a text


class Witnesses(Store):
    """For capture, which works for all tenants, and for the page of a channel."""

    async def take(self, now: datetime, again: timedelta, accounts: Collection[str]) -> int | None:
        """The public channel, read by one of these accounts, that was compared longest ago; it is put off at once."""
        statement = (
            "UPDATE channel_audits SET witnessed_at = :now WHERE channel_id = (SELECT a.channel_id FROM channel_audits"
            " a JOIN channels c ON c.id = a.channel_id WHERE c.status = 'active' AND c.username IS NOT NULL"
            " AND NOT c.is_group AND c.captured > 0 AND jsonb_exists_any(c.access_hash, CAST(:accounts AS text[]))"
            " AND (a.witnessed_at IS NULL OR a.witnessed_at < :before)"
            " ORDER BY a.witnessed_at NULLS FIRST, a.channel_id LIMIT 1 FOR UPDATE OF a SKIP LOCKED)"
            " RETURNING channel_id"
        )
        found: int | None = await self._value(
            statement, {"now": now, "before": now - again, "accounts": list(accounts)}
        )
        return found

    async def with_albums(self, channel_id: int, ids: Sequence[int]) -> list[int]:
        """These, and what else is in their albums."""
        statement = (
            "SELECT message_id FROM posts WHERE channel_id = :id AND (message_id = ANY(:ids) OR grouped_id IN (SELECT"
            " grouped_id FROM posts WHERE channel_id = :id AND message_id = ANY(:ids) AND grouped_id IS NOT NULL))"
            " ORDER BY message_id"
        )
        return [row.message_id for row in await self._rows(statement, {"id": channel_id, "ids": list(ids)})]

    async def record(
        self, channel_id: int, compared: Collection[int], found: Collection[Difference], now: datetime
    ) -> list[Difference]:
        """Those that are new. What differed before and is told alike now says since when; nothing is removed."""
        statement = (
            "INSERT INTO witness_differences AS known (channel_id, message_id, kind, account_text, preview_text,"
            " digest, first_at, last_at) VALUES (:id, :message, :kind, :account, :preview, :digest, :now, :now)"
            " ON CONFLICT (channel_id, message_id, digest) DO UPDATE SET last_at = excluded.last_at, agreed_at = NULL"
            " RETURNING xmax = 0 AS is_new"
        )
        new = []
        for one in found:
            values: dict[str, object] = {
                "id": channel_id,
                "message": one.message_id,
                "kind": one.kind.value,
                "now": now,
            }
            values |= {"account": _cut(one.account_text), "preview": _cut(one.preview_text), "digest": one.digest}
            if await self._value(statement, values):
                new.append(one)
        agreed = set(compared) - {one.message_id for one in found}
        await self._run(
            "UPDATE witness_differences SET agreed_at = :now WHERE channel_id = :id AND agreed_at IS NULL"
            " AND message_id = ANY(:ids)",
            {"id": channel_id, "now": now, "ids": list(agreed)},
        )
        return new

    async def of_channel(self, tenant_id: UUID, channel_id: int, *, limit: int) -> list[Disagreement]:
        """First what the tenant has not looked at yet, then the newest."""
        statement = (
            f"SELECT {COLUMNS}, CAST(seen ->> CAST(:tenant AS text) AS timestamptz) AS seen_at FROM witness_differences"
            " WHERE channel_id = :id ORDER BY jsonb_exists(seen, :tenant), last_at DESC, id DESC LIMIT :limit"
        )
        return await self._all(Disagreement, statement, {"tenant": str(tenant_id), "id": channel_id, "limit": limit})

    async def mark_seen(self, tenant_id: UUID, channel_id: int, number: int, now: datetime) -> bool:
        """For this tenant: others who watch the channel see for themselves."""
        statement = (
            "UPDATE witness_differences SET seen = jsonb_build_object(CAST(:tenant AS text), CAST(:now AS text)) ||"
            " seen WHERE channel_id = :id AND id = :number"
        )
        values = {"tenant": str(tenant_id), "id": channel_id, "number": number, "now": now.isoformat()}
        return bool(await self._run(statement, values))

    async def unseen(self) -> int:
        """Those that no tenant has looked at."""
        return int(await self._value("SELECT count(*) FROM witness_differences WHERE seen = '{}'"))


def _cut(text: str | None) -> str | None:
    return text and text[:LONGEST]
