"""Digests that people asked for: read as their tenant, and only by whom they belong to."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.digest_schedule import Frequency, Schedule
from telegram_assistant.domain.digests import MOST_DIGESTS, Digest, Language, Way, Wish
from telegram_assistant.errors import Reject
from telegram_assistant.stores.postgres.database import as_tenant

_WISH = (
    *("name", "topics", "channels", "frequency", "weekday", "day", "minute", "zone", "language", "most"),
    *("deliveries", "enabled"),
)
COLUMNS = ", ".join(
    f"d.{name}" for name in ("id", "tenant_id", "user_id", *_WISH, "feed_version", "next_at", "trouble")
)
_MINE = f"SELECT {COLUMNS}, d.created_at FROM digests d WHERE d.user_id = :user"
_OWN = "id = :id AND tenant_id = :tenant AND user_id = :user"


@dataclass(frozen=True, slots=True)
class Reader:
    """Whom a digest is for, as far as it is brought to them."""

    name: str
    email: str | None
    telegram_user_id: int | None
    disabled: bool


class Digests:
    """The table `digests`. Tenants may read it and nothing else: it is written here, for one user at a time."""

    def __init__(self, database: AsyncEngine) -> None:
        self._database = database

    async def of_user(self, tenant_id: UUID, user_id: UUID) -> list[Digest]:
        """The oldest first."""
        async with as_tenant(self._database, tenant_id) as connection:
            rows = await connection.execute(text(f"{_MINE} ORDER BY d.created_at, d.id"), {"user": user_id})
            return [digest_of(row) for row in rows]

    async def get(self, tenant_id: UUID, user_id: UUID, digest_id: UUID) -> Digest | None:
        async with as_tenant(self._database, tenant_id) as connection:
            rows = await connection.execute(text(f"{_MINE} AND d.id = :id"), {"user": user_id, "id": digest_id})
            row = rows.one_or_none()
        return None if row is None else digest_of(row)

    async def any(self, digest_id: UUID) -> Digest | None:
        """Whosever it is: for the feed, whose address is the credential, and for sending."""
        statement = text(f"SELECT {COLUMNS}, d.created_at FROM digests d WHERE d.id = :id")
        async with self._database.connect() as connection:
            row = (await connection.execute(statement, {"id": digest_id})).one_or_none()
        return None if row is None else digest_of(row)

    async def reader(self, digest: Digest) -> Reader | None:
        statement = text("SELECT name, email, telegram_user_id, disabled FROM users WHERE id = :id")
        async with self._database.connect() as connection:
            row = (await connection.execute(statement, {"id": digest.user_id})).one_or_none()
        return None if row is None else Reader(*row)

    async def add(self, tenant_id: UUID, user_id: UUID, wish: Wish, *, next_at: datetime) -> UUID:
        """Raises Reject for one too many."""
        values = {"tenant": tenant_id, "user": user_id, "next": next_at, **_values(wish)}
        names = ", ".join(_WISH)
        async with self._database.begin() as connection:
            # The lock is on the user: two requests at once may not both be the last that is allowed.
            await connection.execute(text("SELECT 1 FROM users WHERE id = :user FOR UPDATE"), {"user": user_id})
            count = await connection.execute(
                text("SELECT count(*) FROM digests WHERE user_id = :user"), {"user": user_id}
            )
            if count.scalar_one() >= MOST_DIGESTS:
                raise Reject(f"there are {MOST_DIGESTS} digests already; remove one first")
            made = await connection.execute(
                text(
                    f"INSERT INTO digests (tenant_id, user_id, next_at, {names})"
                    f" VALUES (:tenant, :user, :next, {', '.join(f':{name}' for name in _WISH)}) RETURNING id"
                ),
                values,
            )
            found: UUID = made.scalar_one()
        return found

    async def change(self, digest: Digest, wish: Wish, *, next_at: datetime) -> None:
        changes = ", ".join(f"{name} = :{name}" for name in _WISH)
        statement = f"UPDATE digests SET {changes}, next_at = :next, trouble = '' WHERE {_OWN}"
        await self._write(statement, digest, next=next_at, **_values(wish))

    async def remove(self, digest: Digest) -> None:
        await self._write(f"DELETE FROM digests WHERE {_OWN}", digest)

    async def new_feed(self, digest: Digest) -> None:
        """From now on the feed has another address, and the old one is none."""
        await self._write(f"UPDATE digests SET feed_version = feed_version + 1 WHERE {_OWN}", digest)

    async def due(self, now: datetime, *, limit: int) -> list[Digest]:
        """Of all tenants, those that wait longest first."""
        statement = text(
            f"SELECT {COLUMNS}, d.created_at FROM digests d JOIN users u ON u.id = d.user_id"
            " WHERE d.enabled AND d.next_at <= :now AND NOT u.disabled ORDER BY d.next_at, d.id LIMIT :limit"
        )
        async with self._database.connect() as connection:
            return [digest_of(row) for row in await connection.execute(statement, {"now": now, "limit": limit})]

    async def give_up(self, digest: Digest, trouble: str) -> None:
        """It cannot be made any more until its owner changes it."""
        await self._write(
            f"UPDATE digests SET next_at = NULL, trouble = :trouble WHERE {_OWN}", digest, trouble=trouble
        )

    async def _write(self, statement: str, digest: Digest, **values: Any) -> None:
        own = {"id": digest.id, "tenant": digest.tenant_id, "user": digest.user_id}
        async with self._database.begin() as connection:
            await connection.execute(text(statement), {**values, **own})


def digest_of(row: Row[Any]) -> Digest:
    schedule = Schedule(
        frequency=Frequency(row.frequency), weekday=row.weekday, day=row.day, minute=row.minute, zone=row.zone
    )
    wish = Wish(
        name=row.name,
        topics=tuple(row.topics),
        channels=tuple(row.channels),
        schedule=schedule,
        language=Language(row.language),
        most=row.most,
        ways=tuple(Way(one) for one in row.deliveries),
        enabled=row.enabled,
    )
    return Digest(
        id=row.id,
        tenant_id=row.tenant_id,
        user_id=row.user_id,
        wish=wish,
        feed_version=row.feed_version,
        next_at=row.next_at,
        trouble=row.trouble,
        created_at=row.created_at,
    )


def _values(wish: Wish) -> dict[str, Any]:
    return {
        "name": wish.name,
        "topics": list(wish.topics),
        "channels": list(wish.channels),
        "frequency": wish.schedule.frequency.value,
        "weekday": wish.schedule.weekday,
        "day": wish.schedule.day,
        "minute": wish.schedule.minute,
        "zone": wish.schedule.zone,
        "language": wish.language.value,
        "most": wish.most,
        "deliveries": [way.value for way in wish.ways],
        "enabled": wish.enabled,
    }
