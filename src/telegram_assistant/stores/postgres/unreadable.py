"""Messages that exist and that our reader cannot parse: looked for once, then left alone for longer and longer."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

# A first retry after an hour, then twice as long each time, at most a month.
NEXT = "CAST(:now AS timestamptz) + least(interval '1 hour' * power(2, least({tries}, 12)), interval '30 days')"


class Unreadable:
    """What was found out about a channel's messages. Another version of the reader tries all of them at once."""

    def __init__(self, database: AsyncEngine) -> None:
        self._database = database

    async def use_reader(self, reader: str, now: datetime) -> None:
        """With the start of a process: what another reader could not parse, this one may."""
        statement = text("UPDATE unreadable_messages SET reader = :reader, next_at = :now WHERE reader <> :reader")
        async with self._database.begin() as connection:
            await connection.execute(statement, {"reader": reader, "now": now})

    async def of(self, channel_id: int, now: datetime) -> dict[int, bool]:
        """By message id, whether it is left alone now."""
        statement = text("SELECT message_id, next_at > :now AS alone FROM unreadable_messages WHERE channel_id = :id")
        async with self._database.connect() as connection:
            rows = await connection.execute(statement, {"id": channel_id, "now": now})
            return {row.message_id: row.alone for row in rows}

    async def found(self, channel_id: int, ids: Collection[int], reader: str, now: datetime) -> None:
        """These could not be parsed, for the first time or again."""
        statement = text(
            "INSERT INTO unreadable_messages AS known (channel_id, message_id, reader, first_at, next_at)"
            f" SELECT :id, message_id, :reader, :now, {NEXT.format(tries='0')} FROM unnest(CAST(:ids AS bigint[])) AS"
            " message_id ON CONFLICT (channel_id, message_id) DO UPDATE SET reader = excluded.reader,"
            f" tries = known.tries + 1, next_at = {NEXT.format(tries='known.tries')}"
        )
        values = {"id": channel_id, "ids": list(ids), "reader": reader, "now": now}
        async with self._database.begin() as connection:
            await connection.execute(statement, values)

    async def forget(self, channel_id: int, ids: Collection[int]) -> None:
        """These can be read now, or are gone."""
        statement = text("DELETE FROM unreadable_messages WHERE channel_id = :id AND message_id = ANY(:ids)")
        async with self._database.begin() as connection:
            await connection.execute(statement, {"id": channel_id, "ids": list(ids)})
