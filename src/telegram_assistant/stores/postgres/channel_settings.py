"""What each tenant asks of a channel: priority, time zone, group, pause; and what capture makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from sqlalchemy import TextClause, text
from sqlalchemy.ext.asyncio import AsyncConnection

from telegram_assistant.domain.access import SYSTEM_TENANT
from telegram_assistant.domain.visits import CHANGES, RECENT, covered_by
from telegram_assistant.stores.postgres.channels import CAN_BE_READ
from telegram_assistant.stores.postgres.database import Store

DEFAULT_ZONE = "Europe/Moscow"

_CHANGE = text(
    "INSERT INTO channel_settings AS s (tenant_id, channel_id, priority, timezone, group_name)"
    " VALUES (:tenant, :channel, :priority, :timezone, :group) ON CONFLICT (tenant_id, channel_id) DO UPDATE"
    " SET priority = coalesce(excluded.priority, s.priority), timezone = coalesce(excluded.timezone, s.timezone),"
    " group_name = coalesce(excluded.group_name, s.group_name), changed_at = now()"
)
_PAUSE = text(
    "INSERT INTO channel_settings AS s (tenant_id, channel_id, paused_at) VALUES (:tenant, :channel, now())"
    " ON CONFLICT (tenant_id, channel_id) DO UPDATE SET paused_at = coalesce(s.paused_at, excluded.paused_at)"
)
FIRST_GROUP = text(
    "INSERT INTO channel_settings AS s (tenant_id, channel_id, group_name) VALUES (:tenant, :channel, :group)"
    " ON CONFLICT (tenant_id, channel_id) DO UPDATE SET group_name = coalesce(s.group_name, excluded.group_name)"
)
RESUME = text("UPDATE channel_settings SET paused_at = NULL WHERE tenant_id = :tenant AND channel_id = :channel")
# A tenant without settings asks for the usual. The operator's settings count even without a subscription.
_DERIVE = text(
    "WITH asking AS MATERIALIZED (SELECT w.tenant_id, s.priority, s.timezone, s.changed_at FROM ("
    " SELECT DISTINCT tenant_id FROM subscriptions WHERE channel_id = :channel"
    " UNION SELECT tenant_id FROM channel_settings WHERE channel_id = :channel AND tenant_id = :system) AS w"
    " LEFT JOIN channel_settings s ON s.tenant_id = w.tenant_id AND s.channel_id = :channel)"
    " UPDATE channels SET priority = (SELECT coalesce(max(coalesce(priority, 0)), 0) FROM asking),"
    " timezone = coalesce((SELECT timezone FROM asking WHERE timezone IS NOT NULL GROUP BY timezone"
    " ORDER BY count(*) DESC, min(changed_at) LIMIT 1), :zone) WHERE id = :channel"
)
_ALL_PAUSED = (
    "EXISTS (SELECT FROM subscriptions WHERE channel_id = :channel)"
    " AND NOT EXISTS (SELECT FROM subscriptions w LEFT JOIN channel_settings s USING (tenant_id, channel_id)"
    " WHERE w.channel_id = :channel AND s.paused_at IS NULL)"
)
# A visit that is under way loses its lease, and what it reads from now on is not saved.
_STOP = text(
    "UPDATE channels SET status = 'paused', failures = 0, last_error = NULL, next_visit_at = NULL, leased_by = NULL,"
    f" leased_until = NULL WHERE id = :channel AND status IN ('active', 'dead') AND {_ALL_PAUSED}"
)
# As after any absence: due at once, with a promise as a new one has, and what is recent is read again.
_GO_ON = text(
    f"UPDATE channels SET status = 'active', next_visit_at = CASE WHEN {CAN_BE_READ} THEN now() END,"
    " promised_at = now() + interval '10 minutes', refreshed = refreshed - CAST(:windows AS text[])"
    f" WHERE id = :channel AND status = 'paused' AND NOT ({_ALL_PAUSED})"
)
_AUDIT_NOW = text("UPDATE channel_audits SET next_at = now() WHERE channel_id = :channel AND wanted_at IS NOT NULL")


class ChannelSettings(Store):
    """The table `channel_settings`."""

    async def change(
        self,
        tenant_id: UUID,
        channel_id: int,
        priority: int | None = None,
        timezone: str | None = None,
        group: str | None = None,
    ) -> None:
        """None: as before; an empty group: none."""
        values = {"priority": priority, "timezone": timezone, "group": group}
        await self._set(_CHANGE, tenant_id, channel_id, values)

    async def pause(self, tenant_id: UUID, channel_id: int) -> None:
        """Once all who watch the channel have paused it, it is not read."""
        await self._set(_PAUSE, tenant_id, channel_id)

    async def resume(self, tenant_id: UUID, channel_id: int) -> None:
        await self._set(RESUME, tenant_id, channel_id)

    async def _set(
        self, statement: TextClause, tenant_id: UUID, channel_id: int, values: Mapping[str, object] | None = None
    ) -> None:
        async with self._database.begin() as connection:
            await connection.execute(statement, {"tenant": tenant_id, "channel": channel_id, **(values or {})})
            await derive_settings(connection, channel_id)


async def derive_settings(connection: AsyncConnection, channel_id: int) -> None:
    """What capture uses, from what those ask for who watch the channel now."""
    # Who subscribes or changes locks the channel first: what is seen after this is what there is.
    await connection.execute(text("SELECT 1 FROM channels WHERE id = :id FOR UPDATE"), {"id": channel_id})
    values = {"channel": channel_id, "system": UUID(SYSTEM_TENANT), "zone": DEFAULT_ZONE}
    await connection.execute(_DERIVE, values)
    await connection.execute(_STOP, {"channel": channel_id})
    windows = [*covered_by(RECENT), CHANGES]
    if (await connection.execute(_GO_ON, {"channel": channel_id, "windows": windows})).rowcount:
        await connection.execute(_AUDIT_NOW, {"channel": channel_id})
