"""What was told: things that last (opened once, resolved once) and things that happened."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from telegram_assistant.domain.alerting import Condition, Notice, NoticeState, Topic
from telegram_assistant.stores.postgres.database import as_tenant
from telegram_assistant.stores.postgres.jsonb import as_jsonb

KEPT = timedelta(days=90)

_COLUMNS = "id, tenant_id, user_id, topic, key, state, content, since, opened_at, resolved_at, read_at"
_MINE = "(user_id IS NULL OR user_id = :user) AND state <> 'waiting'"
_LIST = f"""
SELECT {_COLUMNS} FROM notices WHERE {_MINE}
  AND (CAST(:moment AS timestamptz) IS NULL OR (opened_at, id) < (:moment, CAST(:last AS uuid)))
ORDER BY opened_at DESC, id DESC LIMIT :limit
"""
_ADD = """
INSERT INTO notices (tenant_id, topic, key, state, content, since, opened_at)
SELECT id, :topic, :key, :state, CAST(:content AS jsonb), :now, :now FROM tenants WHERE id = :tenant
ON CONFLICT DO NOTHING
"""


class Notices:
    """The table `notices`. One process settles at a time: whoever holds the lock of alerts."""

    def __init__(self, database: AsyncEngine) -> None:
        self._database = database

    async def settle(self, topic: Topic, found: Sequence[Condition], now: datetime) -> tuple[int, int]:
        """What lasts is opened once, and what is well again resolved; how many of each."""
        wanted = {(one.tenant_id, one.key): one for one in found}
        statement = text(f"SELECT {_COLUMNS} FROM notices WHERE topic = :topic AND state IN ('waiting', 'open')")
        opened = resolved = 0
        async with self._database.begin() as connection:
            live = [_notice(row) for row in (await connection.execute(statement, {"topic": topic})).mappings()]
            for notice in live:
                condition = wanted.pop((notice.tenant_id, notice.key), None)
                if condition is None:
                    resolved += await self._well(connection, notice, now)
                elif notice.state is NoticeState.WAITING:
                    opened += await self._still(connection, notice, condition, now)
            for condition in wanted.values():
                opened += await self._begin(connection, topic, condition, now)
        return opened, resolved

    async def happened(self, tenant_id: UUID, user_id: UUID, key: str, content: dict[str, Any]) -> None:
        """Of a post, for whoever watches it; once."""
        statement = text(
            "INSERT INTO notices (tenant_id, user_id, topic, key, state, content)"
            " SELECT tenant_id, id, 'post', :key, 'told', CAST(:content AS jsonb) FROM users u"
            " WHERE id = :user AND tenant_id = :tenant"
            " AND NOT EXISTS (SELECT 1 FROM notices n WHERE n.user_id = u.id AND n.key = :key)"
        )
        values = {"tenant": tenant_id, "user": user_id, "key": key, "content": as_jsonb(content)}
        async with self._database.begin() as connection:
            await connection.execute(statement, values)

    async def of_user(
        self, tenant_id: UUID, user_id: UUID, *, limit: int, after: tuple[datetime, UUID] | None = None
    ) -> list[Notice]:
        """Those for all of the tenant too; the newest first."""
        moment, last = after or (None, None)
        values = {"user": user_id, "limit": limit, "moment": moment, "last": last}
        async with as_tenant(self._database, tenant_id) as connection:
            return [_notice(row) for row in (await connection.execute(text(_LIST), values)).mappings()]

    async def unread(self, tenant_id: UUID, user_id: UUID) -> int:
        statement = text(f"SELECT count(*) FROM notices WHERE {_MINE} AND read_at IS NULL")
        async with as_tenant(self._database, tenant_id) as connection:
            return int((await connection.execute(statement, {"user": user_id})).scalar_one())

    async def read(self, tenant_id: UUID, user_id: UUID) -> int:
        """What is for all is read when one has read it."""
        statement = text(
            f"UPDATE notices SET read_at = now() WHERE tenant_id = :tenant AND read_at IS NULL AND {_MINE}"
        )
        async with self._database.begin() as connection:
            return (await connection.execute(statement, {"tenant": tenant_id, "user": user_id})).rowcount

    async def prune(self) -> int:
        statement = text(
            "DELETE FROM notices WHERE state IN ('resolved', 'told')"
            " AND coalesce(resolved_at, opened_at) < now() - CAST(:kept AS interval)"
        )
        async with self._database.begin() as connection:
            return (await connection.execute(statement, {"kept": KEPT})).rowcount

    async def _begin(self, connection: AsyncConnection, topic: Topic, one: Condition, now: datetime) -> int:
        at_once = one.patience <= timedelta(0)
        values = {"tenant": one.tenant_id, "topic": topic, "key": one.key, "now": now}
        content = as_jsonb({**one.content, "left": one.left})
        state = NoticeState.OPEN if at_once else NoticeState.WAITING
        added = await connection.execute(text(_ADD), {**values, "content": content, "state": state})
        return added.rowcount if at_once else 0

    async def _still(self, connection: AsyncConnection, notice: Notice, one: Condition, now: datetime) -> int:
        """While it gets better nothing is stuck, and the time begins anew."""
        better = one.left < int(notice.content.get("left", 0))
        long = not better and now - notice.since >= one.patience
        statement = text(
            "UPDATE notices SET content = CAST(:content AS jsonb), since = :since, state = :state, opened_at = :now"
            " WHERE id = :id"
        )
        values = {
            "id": notice.id,
            "content": as_jsonb({**one.content, "left": one.left}),
            "since": now if better else notice.since,
            "state": NoticeState.OPEN if long else NoticeState.WAITING,
            "now": now,
        }
        await connection.execute(statement, values)
        return int(long)

    async def _well(self, connection: AsyncConnection, notice: Notice, now: datetime) -> int:
        if notice.state is NoticeState.WAITING:
            await connection.execute(text("DELETE FROM notices WHERE id = :id"), {"id": notice.id})
            return 0
        statement = text("UPDATE notices SET state = 'resolved', resolved_at = :now WHERE id = :id")
        await connection.execute(statement, {"id": notice.id, "now": now})
        return 1


def _notice(row: RowMapping) -> Notice:
    return Notice(**{**row, "topic": Topic(row["topic"]), "state": NoticeState(row["state"])})
