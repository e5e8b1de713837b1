"""Posts with their documents, as ingest and indexing leave them, for a few channels and tenants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.access import SYSTEM_TENANT, SYSTEM_USER
from telegram_assistant.domain.post import post_id
from telegram_assistant.language.documents import Source, make_document, parts_of
from telegram_assistant.language.lexemes import Lexicon
from telegram_assistant.stores.postgres.search import SearchDocuments

SYSTEM = UUID(SYSTEM_TENANT)
NEWS, SPORT = 100, 200
POSTED = datetime(2026, 11, 1, 12, tzinfo=UTC)


@dataclass
class Archive:
    """What is stored, and who may see it."""

    database: AsyncEngine
    lexicon: Lexicon
    users: dict[UUID, UUID] = field(default_factory=lambda: {SYSTEM: UUID(SYSTEM_USER)})

    def __post_init__(self) -> None:
        self.documents = SearchDocuments(self.database)

    async def tenant(self, name: str) -> UUID:
        tenant, user = uuid4(), uuid4()
        await self.run("INSERT INTO tenants (id, name) VALUES (:id, :name)", id=tenant, name=name)
        await self.run(
            "INSERT INTO users (id, tenant_id, name, role) VALUES (:id, :tenant, :name, 'member')",
            id=user,
            tenant=tenant,
            name=name,
        )
        self.users[tenant] = user
        return tenant

    async def channel(self, number: int, name: str, *seers: UUID, owner: UUID | None = None) -> None:
        await self.run(
            "INSERT INTO channels (id, title, username, tenant_id) VALUES (:id, :title, :name, :owner)",
            id=number,
            title=name.title(),
            name=name,
            owner=owner,
        )
        for tenant in seers:
            await self.run(
                "INSERT INTO subscriptions (tenant_id, user_id, channel_id) VALUES (:tenant, :user, :channel)",
                tenant=tenant,
                user=self.users[tenant],
                channel=number,
            )

    async def post(self, number: int, words: str = "", *, channel: int = NEWS, **fields: Any) -> UUID:
        """`fields`: of the document; `sections` beside the text, `when` in days after the first."""
        posted_at = POSTED + timedelta(days=fields.pop("when", 0), minutes=number)
        await self.run(
            "INSERT INTO posts (id, channel_id, message_id, posted_at, text, content_hash, edited_at, deleted_at)"
            " VALUES (:id, :channel, :number, :at, :text, '', :edited, :deleted)",
            id=post_id(channel, number),
            channel=channel,
            number=number,
            at=posted_at,
            text=words,
            edited=posted_at if "edited" in fields.get("marks", ()) else None,
            deleted=posted_at if "deleted" in fields.get("marks", ()) else None,
        )
        source = self.source(number, words, channel=channel, posted_at=posted_at, **fields)
        await self.index(source)
        return source.post_id

    async def picture(self, post: UUID, sha256: str, *, words: str = "") -> None:
        """A stored photo; `words`: what was read on it."""
        await self.run(
            "INSERT INTO media_objects (sha256, mime, size, storage_key) VALUES (:sha, 'image/jpeg', 1, :sha)",
            sha=sha256,
        )
        await self.run(
            "INSERT INTO post_media (post_id, position, kind, sha256, status)"
            " VALUES (:post, 0, 'photo', :sha, 'stored')",
            post=post,
            sha=sha256,
        )
        if words:
            await self.run(
                "INSERT INTO picture_results (sha256, identity, bands, data) VALUES (:sha, '', '{}',"
                " jsonb_build_object('description', '', 'ocr', jsonb_build_object('text', CAST(:words AS text))))",
                sha=sha256,
                words=words,
            )

    def source(
        self,
        number: int,
        words: str,
        *,
        channel: int = NEWS,
        posted_at: datetime = POSTED,
        sections: Sequence[tuple[str, str]] = (),
        **fields: Any,
    ) -> Source:
        return Source(
            post_id=post_id(channel, number),
            channel_id=channel,
            posted_at=posted_at,
            text=words,
            parts=parts_of([("A", words), *sections]),
            **fields,
        )

    async def index(self, *sources: Source, whole: bool = True) -> set[UUID]:
        return await self.documents.put([make_document(source, self.lexicon, whole=whole) for source in sources])

    async def run(self, statement: str, **values: Any) -> None:
        async with self.database.begin() as connection:
            await connection.execute(text(statement), values)

    async def rows(self, statement: str, **values: Any) -> list[Any]:
        async with self.database.connect() as connection:
            return list(await connection.execute(text(statement), values))
