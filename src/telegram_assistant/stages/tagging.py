"""`tagging` (SPEC 4.5) and `retagging` (4.4): what a model makes of a post's words, and again when vision read more.

A loop is impossible: tagging reads what capture publishes, retagging what vision publishes, and both publish
`posts.tagged`, which neither of them nor vision reads. `tag_persistence` (4.6) stores the tags, of `kind` "tags" in
`post_enrichment`, and publishes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any
from uuid import UUID, uuid4

from telegram_assistant.ai.spend import paid_by
from telegram_assistant.bus.stage import Done, Outcome, each
from telegram_assistant.bus.streams import Publisher
from telegram_assistant.domain.events import PostParsed, PostRetag, PostTagged, PostVisionAnalyzed, Trigger
from telegram_assistant.domain.models import Seen, Tagged, Tagger
from telegram_assistant.errors import Skip
from telegram_assistant.names import POSTS_RETAG, POSTS_TAGGED
from telegram_assistant.stores.postgres.budgets import Budgets
from telegram_assistant.stores.postgres.enrichment import Enrichment, Enrichments, Pictures, StoredPosts

TAGS = "tags"
# What knew more is not overwritten by what knew less, whichever comes first.
RANKS = {Trigger.INITIAL: 0, Trigger.VISION_RETAG: 1, Trigger.MANUAL: 2}
LONGEST = 4000  # characters of words from pictures that a post is given


@dataclass(frozen=True)
class Tagging:
    """What both stages need."""

    tagger: Tagger
    budgets: Budgets
    clock: Callable[[], datetime]
    min_chars: int = 80
    at_once: int = 4


async def tag_posts(events: Sequence[PostParsed], *, tagging: Tagging) -> list[Outcome]:
    """Every post goes on: one with too few words has no tags."""
    payers = await tagging.budgets.watchers({event.channel_id for event in events})

    async def one(event: PostParsed) -> Done:
        if len(event.text.strip()) < tagging.min_chars:
            found, note = Tagged(), f"fewer than {tagging.min_chars} characters: no tags"
        else:
            with paid_by(payers[event.channel_id]):
                found = await tagging.tagger.tag(event.text)
            note = ", ".join(found.tags) or "no tags"
        return Done((_event(event, found, tagging, Trigger.INITIAL, event.urls),), note=note)

    return await each(events, one, at_once=tagging.at_once)


async def retag_posts(
    events: Sequence[PostVisionAnalyzed | PostRetag], *, tagging: Tagging, stored_posts: StoredPosts, pictures: Pictures
) -> list[Outcome]:
    """Where vision read something that the tags do not know of, or on request."""
    posts = await stored_posts.read([event.post_id for event in events])
    seen = await pictures.of_posts(list(posts.values()))
    payers = await tagging.budgets.watchers({post.channel_id for post in posts.values()})

    async def one(event: PostVisionAnalyzed | PostRetag) -> Done:
        post = posts.get(event.post_id)
        if post is None or post.deleted:
            raise Skip("the post is gone")
        if post.content_hash != event.content_hash:
            raise Skip("the post was edited meanwhile, and comes again")
        read = picture_words(seen.get(post.post_id, ()))
        trigger = Trigger.MANUAL if isinstance(event, PostRetag) else Trigger.VISION_RETAG
        if not read and trigger is Trigger.VISION_RETAG:
            raise Skip("vision added no words")
        with paid_by(payers[post.channel_id]):
            found = await tagging.tagger.tag(post.text, read)
        note = ", ".join(found.tags) or "no tags"
        return Done((_event(event, found, tagging, trigger, post.urls),), note=note)

    return await each(events, one, at_once=tagging.at_once)


def picture_words(pictures: Sequence[tuple[str, Seen]]) -> str:
    return "\n".join(seen.words for _, seen in pictures if seen.words)[:LONGEST]


async def ask_retag(
    publisher: Publisher, stored_posts: StoredPosts, post_ids: Sequence[UUID], clock: Callable[[], datetime]
) -> list[UUID]:
    """Have stored posts tagged again, as they are now; which of them are there."""
    posts = [post for post in (await stored_posts.read(post_ids)).values() if not post.deleted]
    now = clock()
    events = [
        PostRetag(
            trace_id=uuid4().hex,
            occurred_at=now,
            idempotency_key=f"{POSTS_RETAG}:{post.post_id}:{post.content_hash}:{now.isoformat()}",
            tenant_id=post.tenant_id,
            channel_id=post.channel_id,
            post_id=post.post_id,
            content_hash=post.content_hash,
        )
        for post in posts
    ]
    if events:
        await publisher.publish(POSTS_RETAG, events)
    return [post.post_id for post in posts]


def tags_hash(tags: Sequence[str]) -> str:
    """SHA-256 of the sorted set."""
    return sha256("\n".join(sorted(set(tags))).encode()).hexdigest()


def _event(
    event: PostParsed | PostVisionAnalyzed | PostRetag,
    found: Tagged,
    tagging: Tagging,
    trigger: Trigger,
    urls: tuple[str, ...],
) -> PostTagged:
    identity = tagging.tagger.identity
    asked = f":{event.idempotency_key}" if trigger is Trigger.MANUAL else ""  # each time anew
    return PostTagged(
        trace_id=event.trace_id,
        occurred_at=tagging.clock(),
        idempotency_key=f"{POSTS_TAGGED}:{event.post_id}:{event.content_hash}:{trigger}{asked}",
        tenant_id=event.tenant_id,
        channel_id=event.channel_id,
        post_id=event.post_id,
        content_hash=event.content_hash,
        tags=found.tags,
        tags_hash=tags_hash(found.tags),
        topics=found.topics,
        entities=found.entities,
        language=found.language,
        provider=identity.provider,
        model=identity.model,
        latency_ms=found.usage.latency_ms,
        trigger=trigger,
        urls=urls,
    )


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
