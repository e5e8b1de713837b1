"""Topics of groups that are forums, and whose turn it is to be asked for them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import text

from telegram_assistant.domain.accounts import Reach
from telegram_assistant.domain.source import GENERAL, Forum
from telegram_assistant.stores.postgres.accounts import readable
from telegram_assistant.stores.postgres.channels import COLUMNS, Channel, channel_of
from telegram_assistant.stores.postgres.database import Store

# Every message of a topic names the first message of it, which has the topic's id.
TOPIC_OF_POST = (
    "coalesce((SELECT t.id FROM forum_topics t WHERE t.channel_id = p.channel_id AND t.id ="
    f" coalesce((p.details #>> '{{reply_to,thread_id}}')::bigint, p.message_id)), {GENERAL})"
)
_GROUP = "CASE WHEN channels.is_group THEN channels.id ELSE channels.linked_id END"
_ITS_GROUP = f"channel_id = (SELECT {_GROUP} FROM channels WHERE id = :id)"


@dataclass(frozen=True, slots=True)
class ForumTopic:
    """A topic as it is kept; `deleted_at`: since when Telegram does not list it any more."""

    channel_id: int
    id: int
    title: str
    closed: bool
    hidden: bool
    deleted_at: datetime | None


_COLUMNS = ", ".join(ForumTopic.__dataclass_fields__)


class ForumTopics(Store):
    """For capture, which works for all tenants, and for pages, which show a tenant what it sees."""

    async def due(
        self, now: datetime, *, forums: timedelta, others: timedelta, limit: int, reach: Reach | None = None
    ) -> list[Channel]:
        """Groups, and channels whose comments are read, that were last looked at longer ago than that."""
        condition, able = readable(reach)
        statement = (
            f"SELECT {COLUMNS} FROM channels WHERE status = 'active'"
            " AND (is_group OR (read_comments AND linked_id IS NOT NULL)) AND (topics_at IS NULL OR"
            " topics_at < CASE WHEN EXISTS (SELECT 1 FROM forum_topics t WHERE"
            f" t.channel_id = {_GROUP}) THEN CAST(:forums AS timestamptz) ELSE :others END)"
            f" AND {condition} ORDER BY topics_at NULLS FIRST, id LIMIT :limit"
        )
        values = {"forums": now - forums, "others": now - others, "limit": limit, **able}
        return [channel_of(row) for row in await self._rows(statement, values)]

    async def save(self, channel_id: int, forum: Forum | None, now: datetime) -> None:
        """As Telegram lists them. One that it does not list any more keeps its title, for its posts are kept."""
        topics = () if forum is None else forum.topics
        ids = [topic.id for topic in topics]
        put = text(
            "INSERT INTO forum_topics (channel_id, id, title, closed, hidden) SELECT :group, n.* FROM"
            " unnest(CAST(:ids AS bigint[]), CAST(:titles AS text[]), CAST(:closed AS bool[]), CAST(:hidden AS bool[]))"
            " AS n(id, title, closed, hidden) WHERE EXISTS (SELECT 1 FROM channels WHERE id = :group)"
            " ON CONFLICT (channel_id, id) DO UPDATE SET title = excluded.title, closed = excluded.closed,"
            " hidden = excluded.hidden, deleted_at = NULL"
        )
        gone = text(
            f"UPDATE forum_topics SET deleted_at = :now WHERE {_ITS_GROUP} AND deleted_at IS NULL"
            " AND NOT id = ANY(CAST(:ids AS bigint[]))"
        )
        async with self._database.begin() as connection:
            if forum is not None:
                titles, closed = [topic.title for topic in topics], [topic.closed for topic in topics]
                values = {"group": forum.group_id, "ids": ids, "titles": titles, "closed": closed}
                await connection.execute(put, {**values, "hidden": [topic.hidden for topic in topics]})
            await connection.execute(gone, {"id": channel_id, "now": now, "ids": ids})
        await self.looked(channel_id, now)

    async def looked(self, channel_id: int, now: datetime) -> None:
        """Its next turn comes when the others had theirs."""
        await self._run("UPDATE channels SET topics_at = :now WHERE id = :id", {"id": channel_id, "now": now})

    async def of_channel(self, tenant_id: UUID, channel_id: int) -> list[ForumTopic]:
        """Of a group, or of a channel's discussion group; those that are gone at the end."""
        statement = (
            f"SELECT {_COLUMNS} FROM forum_topics WHERE {_ITS_GROUP} ORDER BY deleted_at IS NOT NULL, lower(title), id"
        )
        return await self._all(ForumTopic, statement, {"id": channel_id}, tenant=tenant_id)
