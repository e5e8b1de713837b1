"""Plain COPY: the rows that a capture made, into tables with the same columns and indexes and nothing else to do."""

from __future__ import annotations

import time
from itertools import groupby

from bench.engines import Engines
from telegram_assistant.stores.postgres.database import raw_transaction

# All that a page makes, but for a row or two in the outbox; and how each row finds its post.
TABLES = {
    "posts": "id",
    "post_media": "post_id",
    "media_groups": "(SELECT i.post_id FROM media_group_items i WHERE i.group_id = id AND i.position = 0)",
    "media_group_items": "post_id",
}
Row = tuple[object, ...]


class Twins:
    """A twin for each table that capture fills most."""

    def __init__(self, engines: Engines) -> None:
        self._engines = engines
        self._columns: dict[str, list[str]] = {}
        self.posts = 0  # that were copied last

    async def copy(self, size: int, *, keys: bool = False) -> float:
        """Copy what is stored now, a transaction for each `size` posts of a channel; seconds that it took.

        `keys`: PostgreSQL checks the foreign keys too, as it does in the real tables.
        """
        await self._make(keys=keys)
        pages = await self._pages(size)
        began = time.perf_counter()
        for page in pages:
            async with raw_transaction(self._engines.database) as connection:
                for table, rows in page.items():
                    if rows:
                        columns = self._columns[table]
                        await connection.copy_records_to_table(f"twin_{table}", records=rows, columns=columns)
        self.posts = sum(len(page["posts"]) for page in pages)
        return time.perf_counter() - began

    async def _make(self, *, keys: bool) -> None:
        async with raw_transaction(self._engines.database) as connection:
            for table in TABLES:
                await connection.execute(f"DROP TABLE IF EXISTS twin_{table}")
                await connection.execute(f"CREATE TABLE twin_{table} (LIKE {table} INCLUDING ALL)")
                found = await connection.fetch(
                    "SELECT pg_get_constraintdef(oid) AS key FROM pg_constraint"
                    " WHERE conrelid = $1::text::regclass AND contype = 'f'",
                    table,
                )
                for row in found if keys else ():
                    await connection.execute(f"ALTER TABLE twin_{table} ADD {row['key']}")

    async def _pages(self, size: int) -> list[dict[str, list[Row]]]:
        async with raw_transaction(self._engines.database) as connection:
            placed = await connection.fetch("SELECT channel_id, id FROM posts ORDER BY channel_id, message_id")
        rows = {table: await self._rows(table) for table in TABLES}
        pages = []
        for _, found in groupby(placed, key=lambda row: row["channel_id"]):
            ids = [row["id"] for row in found]
            for start in range(0, len(ids), size):
                page = ids[start : start + size]
                pages.append({table: [row for id_ in page for row in rows[table].get(id_, ())] for table in TABLES})
        return pages

    async def _rows(self, table: str) -> dict[object, list[Row]]:
        """By post, ready to be copied."""
        async with raw_transaction(self._engines.database) as connection:
            columns = await connection.fetch(
                "SELECT attname, atttypid = 'jsonb'::regtype AS json FROM pg_attribute"
                " WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
                table,
            )
            self._columns[table] = [column["attname"] for column in columns]
            chosen = ", ".join(f"{name}::text" if json else str(name) for name, json in columns)
            statement = f"SELECT {TABLES[table]}, {chosen} FROM {table}"  # noqa: S608 - all of it is from here
            by_post: dict[object, list[Row]] = {}
            for key, *row in await connection.fetch(statement):
                by_post.setdefault(key, []).append(tuple(row))
        return by_post
