"""What the pictures of an album show together; kept with the post that stands for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from uuid import UUID

from telegram_assistant.domain.events import AlbumAssembled, AlbumParsed
from telegram_assistant.domain.models import MOST_LABELS, Seen
from telegram_assistant.errors import Skip
from telegram_assistant.stages.index_entry import ALBUM
from telegram_assistant.stages.picture_words import PictureWords
from telegram_assistant.stages.vision_analysis import VISION
from telegram_assistant.stores.postgres.enrichment import Enrichment, Enrichments, StoredPost, StoredPosts

LONGEST = 8000


@dataclass(frozen=True, slots=True)
class Summary:
    """Of all pictures that were looked at."""

    post_id: UUID
    text: str
    labels: tuple[str, ...]
    ocr_text: str
    has_meme: bool
    fingerprint: str


class AlbumSummaries:
    """Makes them from what is stored of the items."""

    def __init__(self, stored_posts: StoredPosts, enrichments: Enrichments, seen: PictureWords) -> None:
        self._stored_posts = stored_posts
        self._enrichments = enrichments
        self._seen = seen

    async def make(self, album: AlbumParsed) -> Summary:
        """Raises Skip when no item is left."""
        posts = await self._stored_posts.of(album.post_ids)
        items = [posts[id_] for id_ in album.post_ids if id_ in posts and not posts[id_].deleted]
        if not items:
            raise Skip("every item of the album is gone")
        found = await self._seen.pictures_of(items)
        seen = [one for item in items for _, one in found[item.post_id]]
        return Summary(
            post_id=_speaker(items).post_id,
            text=_text(seen),
            labels=tuple(
                label for label, _ in Counter(label for one in seen for label in one.labels).most_common(MOST_LABELS)
            ),
            ocr_text="\n".join(one.ocr.text for one in seen if one.ocr and one.ocr.text)[:LONGEST],
            has_meme=any(one.is_meme for one in seen),
            fingerprint=sha256(repr([(item.post_id, item.content_hash) for item in items]).encode()).hexdigest()[:16],
        )

    async def looked_at(self, post_ids: Sequence[UUID]) -> dict[UUID, int]:
        """Items that vision is done with, as they are now, and how many of their pictures it has seen."""
        found = await self._enrichments.of(VISION, post_ids)
        posts = await self._stored_posts.of(list(found))
        return {
            post_id: sum(bool(picture["seen"]) for picture in found[post_id].data["pictures"])
            for post_id, post in posts.items()
            if post.content_hash == found[post_id].content_hash
        }

    async def keep(self, event: AlbumAssembled) -> None:
        """With the post that stands for the album, for its page and its entry in the indexes."""
        post = (await self._stored_posts.of([event.post_id])).get(event.post_id)
        if post is None:
            return
        data = {
            "album_id": str(event.album_id),
            "items_count": event.items_count,
            "items_analyzed": event.items_analyzed,
            "partial": event.partial,
            "vision_summary": event.vision_summary,
            "vision_labels": list(event.vision_labels),
            "vision_ocr_text": event.vision_ocr_text,
            "has_meme": event.has_meme,
        }
        await self._enrichments.save(ALBUM, [Enrichment(event.post_id, post.content_hash, data, "album_assembler")])


def _speaker(items: list[StoredPost]) -> StoredPost:
    """The item with the caption, or else the first."""
    return next((item for item in items if item.text), items[0])


def _text(seen: list[Seen]) -> str:
    described = dict.fromkeys(one.description for one in seen if one.description)
    kinds = Counter(one.classification.value for one in seen)
    shown = ", ".join(f"{kind}: {count}" for kind, count in sorted(kinds.items()))
    return "\n".join([*([shown] if shown else []), *described])[:LONGEST]
