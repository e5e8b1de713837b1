"""`tagging` (SPEC 4.5) and `retagging` (4.4): what a model makes of a post's words, and again when vision read more.

A loop is impossible: tagging reads what capture publishes, retagging what vision publishes, and both publish
`posts.tagged`, which neither of them nor vision reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256

from telegram_assistant.ai.abilities import Tagger
from telegram_assistant.ai.spend import paid_by
from telegram_assistant.bus.stage import Done, Outcome, each
from telegram_assistant.domain.events import PostParsed, PostTagged, PostVisionAnalyzed, Trigger
from telegram_assistant.domain.understanding import Tagged
from telegram_assistant.errors import Skip
from telegram_assistant.names import POSTS_TAGGED
from telegram_assistant.stages.seen import SeenWords
from telegram_assistant.stores.postgres.budgets import Budgets
from telegram_assistant.stores.postgres.materials import Materials


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
    events: Sequence[PostVisionAnalyzed], *, tagging: Tagging, materials: Materials, seen: SeenWords
) -> list[Outcome]:
    """Only where vision read something that the tags do not know of."""
    posts = await materials.of([event.post_id for event in events])
    words = await seen.of(list(posts.values()))
    payers = await tagging.budgets.watchers({post.channel_id for post in posts.values()})

    async def one(event: PostVisionAnalyzed) -> Done:
        post = posts.get(event.post_id)
        if post is None or post.deleted:
            raise Skip("the post is gone")
        if post.content_hash != event.content_hash:
            raise Skip("the post was edited meanwhile, and comes again")
        read = words.get(post.post_id, "")
        if not read:
            raise Skip("vision added no words")
        with paid_by(payers[post.channel_id]):
            found = await tagging.tagger.tag(post.text, read)
        note = ", ".join(found.tags) or "no tags"
        return Done((_event(event, found, tagging, Trigger.VISION_RETAG, post.urls),), note=note)

    return await each(events, one, at_once=tagging.at_once)


def tags_hash(tags: Sequence[str]) -> str:
    """SHA-256 of the sorted set."""
    return sha256("\n".join(sorted(set(tags))).encode()).hexdigest()


def _event(
    event: PostParsed | PostVisionAnalyzed, found: Tagged, tagging: Tagging, trigger: Trigger, urls: tuple[str, ...]
) -> PostTagged:
    identity = tagging.tagger.identity
    return PostTagged(
        trace_id=event.trace_id,
        occurred_at=tagging.clock(),
        idempotency_key=f"{POSTS_TAGGED}:{event.post_id}:{event.content_hash}:{trigger}",
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
