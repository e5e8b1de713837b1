"""What a tenant asks of a channel that it shares with others: its priority, and the time zone in which it is shown.

Capture has one of each for a channel. The priority is the highest that a tenant which watches it asks for; the zone, by
which its rhythm is learned, the one that most of them ask for, and of equals the first (decision 0002).
"""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from telegram_assistant.domain.access import SYSTEM_TENANT

DEFAULT_ZONE = "Europe/Moscow"

_CHANGE = text(
    "INSERT INTO channel_settings AS s (tenant_id, channel_id, priority, timezone)"
    " VALUES (:tenant, :channel, :priority, :timezone) ON CONFLICT (tenant_id, channel_id) DO UPDATE"
    " SET priority = coalesce(excluded.priority, s.priority), timezone = coalesce(excluded.timezone, s.timezone),"
    " changed_at = now()"
)
# Who says nothing asks for the usual. The operator's wish counts also where the system's tenant does not watch.
_DERIVE = text(
    "WITH asking AS MATERIALIZED (SELECT w.tenant_id, s.priority, s.timezone, s.changed_at FROM ("
    " SELECT DISTINCT tenant_id FROM subscriptions WHERE channel_id = :channel"
    " UNION SELECT tenant_id FROM channel_settings WHERE channel_id = :channel AND tenant_id = :system) AS w"
    " LEFT JOIN channel_settings s ON s.tenant_id = w.tenant_id AND s.channel_id = :channel)"
    " UPDATE channels SET priority = (SELECT coalesce(max(coalesce(priority, 0)), 0) FROM asking),"
    " timezone = coalesce((SELECT timezone FROM asking WHERE timezone IS NOT NULL GROUP BY timezone"
    " ORDER BY count(*) DESC, min(changed_at) LIMIT 1), :zone) WHERE id = :channel"
)


class ChannelSettings:
    """The table `channel_settings`."""

    def __init__(self, database: AsyncEngine) -> None:
        self._database = database

    async def change(
        self, tenant_id: UUID, channel_id: int, priority: int | None = None, timezone: str | None = None
    ) -> None:
        """None: as before."""
        values = {"tenant": tenant_id, "channel": channel_id, "priority": priority, "timezone": timezone}
        async with self._database.begin() as connection:
            await connection.execute(_CHANGE, values)
            await derive_settings(connection, channel_id)


async def derive_settings(connection: AsyncConnection, channel_id: int) -> None:
    """What capture uses, from what those ask for who watch the channel now."""
    # Who subscribes or changes locks the channel first: what is seen after this is what there is.
    await connection.execute(text("SELECT 1 FROM channels WHERE id = :id FOR UPDATE"), {"id": channel_id})
    values = {"channel": channel_id, "system": UUID(SYSTEM_TENANT), "zone": DEFAULT_ZONE}
    await connection.execute(_DERIVE, values)
