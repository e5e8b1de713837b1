"""`tag_persistence` (SPEC 4.6): tags into `post_enrichment` with `kind='tags'`; publishes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from telegram_assistant.bus.stage import Done, Outcome
from telegram_assistant.domain.events import PostTagged, Trigger
from telegram_assistant.stores.postgres.enrichment import Enrichment, Enrichments

TAGS = "tags"
# What knew more is not overwritten by what knew less, in whatever order they come.
RANKS = {Trigger.INITIAL: 0, Trigger.VISION_RETAG: 1, Trigger.MANUAL: 2}


async def save_tags(events: Sequence[PostTagged], *, enrichments: Enrichments) -> list[Outcome]:
    """Tags of words that the post no longer has are left out: the edited post is on its way."""
    found = [Enrichment(event.post_id, event.content_hash, tags_of(event), event.provider) for event in events]
    changed = await enrichments.save(TAGS, found)
    return [Done(note="saved" if event.post_id in changed else "known, or out of date") for event in events]


def tags_of(event: PostTagged) -> dict[str, Any]:
    """As they are stored, and as indexing reads them."""
    return {
        "tags": list(event.tags),
        "tags_hash": event.tags_hash,
        "topics": list(event.topics),
        "entities": [{"kind": entity.kind, "name": entity.name} for entity in event.entities],
        "language": event.language,
        "model": event.model,
        "trigger": event.trigger,
        "rank": RANKS[event.trigger],
    }
