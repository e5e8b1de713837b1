"""Which comments belong to which post, and where there are more than we hold."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text

from telegram_assistant.domain.accounts import Reach
from telegram_assistant.stores.postgres.accounts import readable
from telegram_assistant.stores.postgres.channels import COLUMNS, Channel, channel_of
from telegram_assistant.stores.postgres.database import Store


@dataclass(frozen=True, slots=True)
class Thread:
    """A post that has more comments than are stored."""

    post_id: UUID
    message_id: int
    after_id: int  # the newest stored comment, an id of the discussion group


class Comments(Store):
    """The store of comment threads; comments themselves are posts of the discussion group."""

    async def channels(self, reach: Reach | None = None) -> list[Channel]:
        condition, able = readable(reach)
        statement = (
            f"SELECT {COLUMNS} FROM channels WHERE status = 'active' AND read_comments AND {condition} ORDER BY id"
        )
        return [channel_of(row) for row in await self._rows(statement, able)]

    async def waiting(self, channel_id: int, *, since: datetime, limit: int) -> list[Thread]:
        """Recent posts whose counter says that there is more, the newest first."""
        statement = (
            "SELECT p.id, p.message_id, coalesce(known.newest, 0) FROM posts p LEFT JOIN LATERAL ("
            "SELECT count(*) AS held, max(c.message_id) AS newest FROM post_comments m"
            " JOIN posts c ON c.id = m.comment_id WHERE m.post_id = p.id) AS known ON true"
            " WHERE p.channel_id = :channel AND p.posted_at >= :since AND p.deleted_at IS NULL"
            " AND p.replies > known.held ORDER BY p.message_id DESC LIMIT :limit"
        )
        rows = await self._rows(statement, {"channel": channel_id, "since": since, "limit": limit})
        return [Thread(*row) for row in rows]

    async def add_group(self, group_id: int, of: Channel) -> None:
        """The discussion group as a place for comments: not visited by itself, and of the channel's tenant."""
        statement = text(
            "INSERT INTO channels (id, tenant_id, title, is_group, linked_id, status)"
            " VALUES (:id, :tenant, :title, true, :channel, 'linked') ON CONFLICT (id) DO NOTHING"
        )
        values = {"id": group_id, "tenant": of.tenant_id, "title": f"{of.title}: comments", "channel": of.id}
        async with self._database.begin() as connection:
            await connection.execute(statement, values)
            await connection.execute(
                text("UPDATE channels SET linked_id = :group WHERE id = :id"), {"group": group_id, "id": of.id}
            )

    async def relate(self, post_id: UUID, comment_ids: Collection[UUID]) -> None:
        statement = (
            "INSERT INTO post_comments (comment_id, post_id) SELECT unnest(CAST(:comments AS uuid[])), :post"
            " ON CONFLICT DO NOTHING"
        )
        await self._run(statement, {"comments": list(comment_ids), "post": post_id})

    async def switch(self, channel_id: int, *, on: bool) -> None:
        statement = "UPDATE channels SET read_comments = :on WHERE id = :id"
        await self._run(statement, {"id": channel_id, "on": on})
