"""Channels that an export tells of: their rows, and who may see them."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import text

from telegram_assistant.stores.postgres.channel_settings import derive_settings
from telegram_assistant.stores.postgres.channels import CAN_BE_READ, ONLY_EXPORTED
from telegram_assistant.stores.postgres.database import Store

# It is not visited. When an account or a preview finds it, it goes on in this row.
_ADD = text(
    "INSERT INTO channels (id, tenant_id, title, is_group, access_hash)"
    f" VALUES (:id, :owner, :title, :group, '{ONLY_EXPORTED}')"
    " ON CONFLICT (id) DO NOTHING"
)
# All of it is asked for, from the first post that the export holds: what it does not hold is unknown. An account that
# reads the channel one day goes on after its last post, and a backfill reads the rest.
_ASK = text(
    "UPDATE channels SET requested_from = least(requested_from, :lowest), cursor_id = greatest(cursor_id, :highest)"
    f" WHERE id = :id AND NOT {CAN_BE_READ}"
)
_WATCH = text(
    "INSERT INTO subscriptions (tenant_id, user_id, channel_id) VALUES (:tenant, :user, :id) ON CONFLICT DO NOTHING"
)


class ImportedChannels(Store):
    """The table `channels`, for importing."""

    async def titled(self, title: str) -> list[int]:
        """Channels that are called so."""
        statement = "SELECT id FROM channels WHERE title = :title AND status <> 'removed' ORDER BY id LIMIT 2"
        return [row.id for row in await self._rows(statement, {"title": title})]

    async def watch(
        self,
        channel_id: int,
        title: str,
        *,
        ids: tuple[int, int],
        tenant_id: UUID,
        user_id: UUID,
        private: bool,
        group: bool,
    ) -> None:
        """Make the row where there is none. A private one belongs to the tenant that brings it.

        `ids`: the lowest and the highest that the export holds.
        """
        values = {"id": channel_id, "tenant": tenant_id, "user": user_id}
        row = {"id": channel_id, "title": title, "owner": tenant_id if private else None, "group": group}
        async with self._database.begin() as connection:
            await connection.execute(_ADD, row)
            await connection.execute(_ASK, {"id": channel_id, "lowest": ids[0], "highest": ids[1]})
            if (await connection.execute(_WATCH, values)).rowcount:
                await derive_settings(connection, channel_id)

    async def others_watch(self, channel_id: int, tenant_id: UUID) -> bool:
        statement = "SELECT EXISTS (SELECT FROM subscriptions WHERE channel_id = :id AND tenant_id <> :tenant)"
        return bool(await self._value(statement, {"id": channel_id, "tenant": tenant_id}))
