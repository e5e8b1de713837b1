"""Where alerts go, what was delivered there, and the notices that are open."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from telegram_assistant.domain.alerting import (
    MOST_CHANNELS,
    AlertChannel,
    Condition,
    Delivery,
    Notice,
    NoticeState,
    Topic,
    Way,
)
from telegram_assistant.errors import Reject
from telegram_assistant.stores.postgres.database import Found, Store, as_jsonb, as_value

DELIVERIES_KEPT = timedelta(days=30)
WINDOW = timedelta(days=1)  # what happened while no process watched is still sent if it is not older

_CHANNEL = "id, tenant_id, kind, name, hint, topics, enabled, created_at"
_DELIVERY = (
    "d.id, d.channel_id, d.tenant_id, d.dedup_key, d.action, d.content, d.state, d.attempts, d.due_at, d.created_at,"
    " d.delivered_at, d.error"
)
_KEY = (
    "CASE n.state WHEN 'told' THEN n.key ELSE n.key || ':' || (extract(epoch FROM n.opened_at) * 1000000)::bigint END"
)
_CONTENT = "n.content || jsonb_build_object('topic', n.topic, 'at', n.opened_at)"
# Several watchers of one post, or several searches that find one, make one message.
_NOTICES = f"""
INSERT INTO alert_deliveries (channel_id, tenant_id, dedup_key, action, content)
SELECT c.id, n.tenant_id, {_KEY}, 'trigger', {_CONTENT}
FROM notices n JOIN alert_channels c ON c.tenant_id = n.tenant_id AND c.enabled AND n.topic = ANY(c.topics)
WHERE n.state IN ('open', 'told') AND n.opened_at >= c.created_at AND n.opened_at > now() - CAST(:window AS interval)
  AND NOT EXISTS (SELECT 1 FROM alert_deliveries d
    WHERE d.channel_id = c.id AND d.dedup_key = {_KEY} AND d.action = 'trigger')
ON CONFLICT DO NOTHING
"""
_RESOLVED = f"""
INSERT INTO alert_deliveries (channel_id, tenant_id, dedup_key, action, content)
SELECT d.channel_id, n.tenant_id, d.dedup_key, 'resolve', {_CONTENT}
FROM notices n JOIN alert_deliveries d ON d.tenant_id = n.tenant_id AND d.action = 'trigger' AND d.dedup_key = {_KEY}
WHERE n.state = 'resolved' AND n.resolved_at > now() - CAST(:window AS interval) AND NOT EXISTS (
  SELECT 1 FROM alert_deliveries r
  WHERE r.channel_id = d.channel_id AND r.dedup_key = d.dedup_key AND r.action = 'resolve')
ON CONFLICT DO NOTHING
"""
_FOUND = """
INSERT INTO alert_deliveries (channel_id, tenant_id, dedup_key, action, content)
SELECT DISTINCT c.id, a.tenant_id, 'search:' || a.post_id, 'trigger',
  jsonb_build_object('topic', 'search', 'post_id', a.post_id)
FROM search_alerts a JOIN alert_channels c ON c.tenant_id = a.tenant_id AND c.enabled AND 'search' = ANY(c.topics)
WHERE a.story_of IS NULL AND a.found_at >= c.created_at AND a.found_at > now() - CAST(:window AS interval)
  AND NOT EXISTS (SELECT 1 FROM alert_deliveries d
    WHERE d.channel_id = c.id AND d.dedup_key = 'search:' || a.post_id AND d.action = 'trigger')
ON CONFLICT DO NOTHING
"""
# A few of one place at once, in their order: "resolve" never before its "trigger".
_DUE = f"""
SELECT * FROM (
  SELECT {_DELIVERY}, row_number() OVER (PARTITION BY d.channel_id ORDER BY d.due_at, d.created_at, d.id) AS place
  FROM alert_deliveries d JOIN alert_channels c ON c.id = d.channel_id
  WHERE d.state = 'waiting' AND d.due_at <= now() AND c.enabled AND (d.action = 'trigger' OR NOT EXISTS (
    SELECT 1 FROM alert_deliveries t WHERE t.channel_id = d.channel_id AND t.dedup_key = d.dedup_key
      AND t.action = 'trigger' AND t.state = 'waiting'))
) due WHERE place <= :each ORDER BY channel_id, place LIMIT :most
"""


class AlertChannels(Store):
    """The table `alert_channels`. Tenants read it without the secrets; it is written here."""

    async def of_tenant(self, tenant_id: UUID) -> list[AlertChannel]:
        statement = f"SELECT {_CHANNEL} FROM alert_channels ORDER BY created_at, id"
        return [_channel(row) for row in await self._rows(statement, tenant=tenant_id)]

    async def get(self, tenant_id: UUID, channel_id: UUID) -> AlertChannel | None:
        statement = f"SELECT {_CHANNEL} FROM alert_channels WHERE id = :id"
        row = await self._row(statement, {"id": channel_id}, tenant=tenant_id)
        return None if row is None else _channel(row)

    async def add(self, channel: AlertChannel, secret: bytes) -> None:
        """`secret`: sealed. Raises Reject for one too many."""
        values = {
            "id": channel.id,
            "tenant": channel.tenant_id,
            "kind": channel.kind,
            "name": channel.name,
            "hint": channel.hint,
            "topics": list(channel.topics),
            "secret": secret,
        }
        async with self._database.begin() as connection:
            await connection.execute(text("SELECT 1 FROM tenants WHERE id = :tenant FOR UPDATE"), values)
            count = text("SELECT count(*) FROM alert_channels WHERE tenant_id = :tenant")
            if (await connection.execute(count, values)).scalar_one() >= MOST_CHANNELS:
                raise Reject(f"there are {MOST_CHANNELS} places for alerts already; remove one first")
            await connection.execute(
                text(
                    "INSERT INTO alert_channels (id, tenant_id, kind, name, hint, topics, secret)"
                    " VALUES (:id, :tenant, :kind, :name, :hint, :topics, :secret)"
                ),
                values,
            )

    async def change(
        self, channel: AlertChannel, *, topics: Sequence[Topic] | None = None, enabled: bool | None = None
    ) -> None:
        """What happened while it was off is not sent afterwards."""
        statement = (
            "UPDATE alert_channels SET topics = coalesce(CAST(:topics AS text[]), topics),"
            " created_at = CASE WHEN NOT enabled AND CAST(:enabled AS boolean) THEN now() ELSE created_at END,"
            " enabled = coalesce(CAST(:enabled AS boolean), enabled) WHERE id = :id AND tenant_id = :tenant"
        )
        wanted = None if topics is None else list(topics)
        values = {"topics": wanted, "enabled": enabled, "id": channel.id, "tenant": channel.tenant_id}
        await self._run(statement, values)

    async def remove(self, channel: AlertChannel) -> None:
        statement = "DELETE FROM alert_channels WHERE id = :id AND tenant_id = :tenant"
        await self._run(statement, {"id": channel.id, "tenant": channel.tenant_id})

    async def secret(self, channel_id: UUID) -> tuple[Way, bytes] | None:
        """What kind of place it is, and the sealed secret."""
        statement = "SELECT kind, secret FROM alert_channels WHERE id = :id"
        row = await self._row(statement, {"id": channel_id})
        return None if row is None else (Way(row.kind), row.secret)


class AlertDeliveries(Store):
    """The table `alert_deliveries`."""

    async def enqueue(self) -> int:
        """Notices that are told and have places to go to; each once."""
        async with self._database.begin() as connection:
            added = [
                (await connection.execute(text(statement), {"window": WINDOW})).rowcount
                for statement in (_NOTICES, _RESOLVED, _FOUND)
            ]
        return sum(added)

    async def due(self, *, each: int, most: int) -> list[Delivery]:
        return await self._all(Delivery, _DUE, {"each": each, "most": most})

    async def delivered(self, delivery: Delivery) -> None:
        await self._set(delivery, "state = 'delivered', delivered_at = now(), attempts = attempts + 1, error = ''")

    async def failed(self, delivery: Delivery, error: str, again_in: float | None, *, counted: bool = True) -> None:
        """After `again_in` seconds once more; None: never again."""
        await self._set(
            delivery,
            "attempts = attempts + :counted, error = :error, state = :state,"
            " due_at = now() + make_interval(secs => CAST(:wait AS double precision))",
            error=error[:500],
            wait=again_in or 0.0,
            state="dead" if again_in is None else "waiting",
            counted=int(counted),
        )

    async def hold(self, channel_id: UUID, seconds: float) -> None:
        """The place wants us to be slower: everything for it waits."""
        statement = (
            "UPDATE alert_deliveries SET due_at = greatest(due_at, now() + make_interval(secs => CAST(:wait AS"
            " double precision))) WHERE channel_id = :channel AND state = 'waiting'"
        )
        await self._run(statement, {"channel": channel_id, "wait": seconds})

    async def again(self, channel: AlertChannel) -> int:
        """What was given up is sent once more."""
        statement = (
            "UPDATE alert_deliveries SET state = 'waiting', attempts = 0, due_at = now(), created_at = now(),"
            " error = '' WHERE channel_id = :channel AND tenant_id = :tenant AND state = 'dead'"
        )
        return await self._run(statement, {"channel": channel.id, "tenant": channel.tenant_id})

    async def newest(self, tenant_id: UUID, *, limit: int) -> list[Delivery]:
        statement = f"SELECT {_DELIVERY} FROM alert_deliveries d ORDER BY d.created_at DESC, d.id LIMIT :limit"
        return await self._all(Delivery, statement, {"limit": limit}, tenant=tenant_id)

    async def searches(self, tenant_id: UUID, post_id: UUID, *, limit: int) -> list[str]:
        """The names of those that found a post."""
        statement = text(
            "SELECT DISTINCT s.name FROM search_alerts a JOIN saved_searches s ON s.id = a.search_id"
            " WHERE a.post_id = :post ORDER BY s.name LIMIT :limit"
        )
        return [row[0] for row in await self._rows(statement, {"post": post_id, "limit": limit}, tenant=tenant_id)]

    async def prune(self) -> int:
        statement = "DELETE FROM alert_deliveries WHERE created_at < now() - CAST(:kept AS interval)"
        return await self._run(statement, {"kept": DELIVERIES_KEPT})

    async def _set(self, delivery: Delivery, change: str, **values: Any) -> None:
        await self._run(f"UPDATE alert_deliveries SET {change} WHERE id = :id", {"id": delivery.id, **values})


def _channel(row: Found) -> AlertChannel:
    """Topics that another version knows are left out."""
    return as_value(AlertChannel, row, topics=[one for one in row.topics if one in set(Topic)])


NOTICES_KEPT = timedelta(days=90)

_NOTICE = "id, tenant_id, user_id, topic, key, state, content, since, opened_at, resolved_at, read_at"
_MINE = "(user_id IS NULL OR user_id = :user) AND state <> 'waiting'"
_LIST = f"""
SELECT {_NOTICE} FROM notices WHERE {_MINE}
  AND (CAST(:moment AS timestamptz) IS NULL OR (opened_at, id) < (:moment, CAST(:last AS uuid)))
ORDER BY opened_at DESC, id DESC LIMIT :limit
"""
_ADD = """
INSERT INTO notices (tenant_id, topic, key, state, content, since, opened_at)
SELECT id, :topic, :key, :state, CAST(:content AS jsonb), :now, :now FROM tenants WHERE id = :tenant
ON CONFLICT DO NOTHING
"""


class Notices(Store):
    """The table `notices`. One process settles at a time: the one that holds the lock of alerts."""

    async def settle(self, topic: Topic, found: Sequence[Condition], now: datetime) -> tuple[int, int]:
        """Open what lasts, resolve what is over; how many of each."""
        wanted = {(one.tenant_id, one.key): one for one in found}
        statement = text(f"SELECT {_NOTICE} FROM notices WHERE topic = :topic AND state IN ('waiting', 'open')")
        opened = resolved = 0
        async with self._database.begin() as connection:
            live = [as_value(Notice, row) for row in await connection.execute(statement, {"topic": topic})]
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
        """Of a post, for each user who watches it; once."""
        statement = (
            "INSERT INTO notices (tenant_id, user_id, topic, key, state, content)"
            " SELECT tenant_id, id, 'post', :key, 'told', CAST(:content AS jsonb) FROM users u"
            " WHERE id = :user AND tenant_id = :tenant"
            " AND NOT EXISTS (SELECT 1 FROM notices n WHERE n.user_id = u.id AND n.key = :key)"
        )
        values = {"tenant": tenant_id, "user": user_id, "key": key, "content": as_jsonb(content)}
        await self._run(statement, values)

    async def of_user(
        self, tenant_id: UUID, user_id: UUID, *, limit: int, after: tuple[datetime, UUID] | None = None
    ) -> list[Notice]:
        """Those for all of the tenant too; the newest first."""
        moment, last = after or (None, None)
        values = {"user": user_id, "limit": limit, "moment": moment, "last": last}
        return await self._all(Notice, _LIST, values, tenant=tenant_id)

    async def unread(self, tenant_id: UUID, user_id: UUID) -> int:
        statement = f"SELECT count(*) FROM notices WHERE {_MINE} AND read_at IS NULL"
        return int(await self._value(statement, {"user": user_id}, tenant=tenant_id))

    async def read(self, tenant_id: UUID, user_id: UUID) -> int:
        """A notice for the whole tenant counts as read when one user has read it."""
        statement = f"UPDATE notices SET read_at = now() WHERE tenant_id = :tenant AND read_at IS NULL AND {_MINE}"
        return await self._run(statement, {"tenant": tenant_id, "user": user_id})

    async def prune(self) -> int:
        statement = (
            "DELETE FROM notices WHERE state IN ('resolved', 'told')"
            " AND coalesce(resolved_at, opened_at) < now() - CAST(:kept AS interval)"
        )
        return await self._run(statement, {"kept": NOTICES_KEPT})

    async def _begin(self, connection: AsyncConnection, topic: Topic, one: Condition, now: datetime) -> int:
        at_once = one.patience <= timedelta(0)
        values = {"tenant": one.tenant_id, "topic": topic, "key": one.key, "now": now}
        content = as_jsonb({**one.content, "left": one.left})
        state = NoticeState.OPEN if at_once else NoticeState.WAITING
        added = await connection.execute(text(_ADD), {**values, "content": content, "state": state})
        return added.rowcount if at_once else 0

    async def _still(self, connection: AsyncConnection, notice: Notice, one: Condition, now: datetime) -> int:
        """While it gets better it is not stuck: the waiting time begins again."""
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
