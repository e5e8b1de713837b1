"""Pages that posts link to: once per canonical address, and which posts led there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text

from telegram_assistant.domain.text import clean_text
from telegram_assistant.names import CRAWL_TRIGGER
from telegram_assistant.stores.postgres.database import Store, as_value

_SAVE = """
INSERT INTO web_pages (url, title, text, description, language, site, published, content_hash, etag, last_modified,
                       problem, fetched_at)
VALUES (:url, :title, :text, :description, :language, :site, :published, :content_hash, :etag, :last_modified,
        :problem, now())
ON CONFLICT (url) DO UPDATE SET title = excluded.title, text = excluded.text, description = excluded.description,
  language = excluded.language, site = excluded.site, published = excluded.published,
  content_hash = excluded.content_hash, etag = excluded.etag, last_modified = excluded.last_modified,
  problem = excluded.problem, fetched_at = now()
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page as text; never its HTML."""

    url: str  # canonical: what the page says it is called if that is the same site, else where the redirects ended
    title: str = ""
    text: str = ""
    description: str = ""
    language: str = ""
    site: str = ""
    published: str = ""
    content_hash: str = ""  # SHA-256 of the text
    etag: str | None = None
    last_modified: str | None = None
    unchanged: bool = False  # the server said 304: nothing else is filled in


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPage(Page):
    """What is known of a page, and when it was last asked for."""

    problem: str | None
    fetched_at: datetime


_COLUMNS = (
    "w.url, w.title, w.text, w.description, w.language, w.content_hash, w.etag, w.last_modified, w.problem,"
    " w.fetched_at"
)
_CURRENT = (
    "FROM unnest(CAST(:ids AS uuid[]), CAST(:hashes AS text[])) AS n(id, hash)"
    " JOIN posts p ON p.id = n.id AND p.content_hash = n.hash"
)


class Pages(Store):
    """The tables `web_pages` and `post_pages`."""

    async def get(self, link: str) -> StoredPage | None:
        """By its own address, or by any link that led to it before."""
        statement = (
            f"SELECT {_COLUMNS} FROM web_pages w WHERE w.url = :link OR w.url IN"
            " (SELECT l.url FROM post_pages l WHERE l.link = :link) ORDER BY w.fetched_at DESC LIMIT 1"
        )
        return await self._first(StoredPage, statement, {"link": link})

    async def save(self, page: Page, problem: str | None = None) -> None:
        values = {
            name: clean_text(getattr(page, name))
            for name in ("url", "title", "text", "description", "language", "site", "published", "content_hash")
        }
        extra = {"etag": page.etag, "last_modified": page.last_modified, "problem": problem}
        await self._run(_SAVE, {**values, **extra})

    async def seen_again(self, url: str) -> None:
        """The server said that nothing changed."""
        await self._run("UPDATE web_pages SET fetched_at = now() WHERE url = :url", {"url": url})

    async def link(
        self, post_id: UUID, content_hash: str, links: Sequence[tuple[str, str]], *, among: Sequence[str]
    ) -> bool:
        """The pages of a post from now on: as it links to them, and where that led.

        What was read before of the links that it has (`among`) stays, though it cannot be read now. False, and nothing
        changes, when the post is gone or has other words by now.
        """
        current = text("SELECT 1 FROM posts WHERE id = :post AND content_hash = :hash FOR SHARE")
        forget = text("DELETE FROM post_pages WHERE post_id = :post AND NOT (link = ANY(:among))")
        remember = text(
            "INSERT INTO post_pages (post_id, link, url) VALUES (:post, :link, :url)"
            " ON CONFLICT (post_id, link) DO UPDATE SET url = excluded.url"
        )
        async with self._database.begin() as connection:
            if (await connection.execute(current, {"post": post_id, "hash": content_hash})).first() is None:
                return False
            await connection.execute(forget, {"post": post_id, "among": list(among)})
            for link, url in links:
                await connection.execute(remember, {"post": post_id, "link": link, "url": url})
        return True

    async def want(self, posts: Sequence[tuple[UUID, str]]) -> None:
        """Posts with links to read, each with its words: that they were not read can be seen then."""
        statement = (
            "INSERT INTO post_enrichment AS e (post_id, kind, content_hash, data, provider)"
            f" SELECT DISTINCT ON (n.id) n.id, 'crawl', n.hash, '{{}}', '{CRAWL_TRIGGER}' {_CURRENT} ORDER BY n.id"
            " ON CONFLICT (post_id, kind) DO UPDATE SET content_hash = excluded.content_hash, updated_at = now()"
            " WHERE e.content_hash <> excluded.content_hash"
        )
        await self._run(statement, _as_arrays(posts))

    async def unlink(self, posts: Sequence[tuple[UUID, str]]) -> None:
        """Posts that have no link to read, each with the words of which that is true."""
        current = f"(SELECT n.id {_CURRENT})"
        async with self._database.begin() as connection:
            for table in ("post_pages WHERE", "post_enrichment WHERE kind = 'crawl' AND"):
                await connection.execute(text(f"DELETE FROM {table} post_id IN {current}"), _as_arrays(posts))

    async def of_posts(self, post_ids: Sequence[UUID]) -> dict[UUID, list[StoredPage]]:
        statement = (
            f"SELECT l.post_id, {_COLUMNS} FROM post_pages l JOIN web_pages w ON w.url = l.url"
            " WHERE l.post_id = ANY(:ids) ORDER BY l.post_id, w.url"
        )
        found: dict[UUID, list[StoredPage]] = {}
        for row in await self._rows(statement, {"ids": list(post_ids)}):
            found.setdefault(row.post_id, []).append(as_value(StoredPage, row))
        return found


def _as_arrays(posts: Sequence[tuple[UUID, str]]) -> dict[str, object]:
    return {"ids": [post_id for post_id, _ in posts], "hashes": [content_hash for _, content_hash in posts]}
