"""The tables as migrations made them, read from the database's own catalogue."""

from __future__ import annotations

from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import AsyncEngine

KEPT_BY_ALEMBIC = "alembic_version"


async def read_schema(database: AsyncEngine) -> MetaData:
    """All tables of ours; `sorted_tables` begins with those that others refer to."""
    schema = MetaData()
    async with database.connect() as connection:
        await connection.run_sync(schema.reflect, only=lambda name, _: name != KEPT_BY_ALEMBIC)
    return schema
