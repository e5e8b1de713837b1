"""What vision found on the pictures of posts, read from where it is kept once per picture."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from telegram_assistant.domain.models import Seen
from telegram_assistant.stores.postgres.enrichment import Pictures, StoredPost

LONGEST = 4000  # characters of words from pictures that a post is given


class PictureWords:
    """The words on and about the pictures of a post."""

    def __init__(self, pictures: Pictures) -> None:
        self._pictures = pictures

    async def pictures_of(self, posts: Sequence[StoredPost]) -> dict[UUID, list[tuple[str, Seen]]]:
        """Each picture of each post that was looked at, by its SHA-256."""
        hashes = {file.sha256 for post in posts for file in post.files if file.sha256}
        found = await self._pictures.of(sorted(hashes))
        return {
            post.post_id: [(file.sha256, found[file.sha256]) for file in post.files if file.sha256 in found]
            for post in posts
        }

    async def of(self, posts: Sequence[StoredPost]) -> dict[UUID, str]:
        seen = await self.pictures_of(posts)
        return {post_id: words(found) for post_id, found in seen.items()}


def words(pictures: Sequence[tuple[str, Seen]]) -> str:
    return "\n".join(seen.words for _, seen in pictures if seen.words)[:LONGEST]
