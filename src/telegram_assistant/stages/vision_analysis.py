"""`vision_analysis` (SPEC 4.3): every picture of a post and album, once per file, in however many posts.

A post is told as analysed when none of its files is waited for any more; what was left out is stored with its reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from telegram_assistant.ai.spend import paid_by
from telegram_assistant.ai.vision.describer import known_result
from telegram_assistant.ai.vision.policy import Decision, PictureFacts, Policy, Provider
from telegram_assistant.bus.stage import Done, KeyedLocks, Outcome, each
from telegram_assistant.domain.events import MediaSettled, PostParsed, PostVisionAnalyzed
from telegram_assistant.domain.models import Describer, Picture, Seen
from telegram_assistant.domain.pictures import Fingerprint, completed
from telegram_assistant.errors import Reject, Skip
from telegram_assistant.names import POSTS_VISION_ANALYZED
from telegram_assistant.stores.media import MediaStore
from telegram_assistant.stores.postgres.budgets import Budgets
from telegram_assistant.stores.postgres.enrichment import (
    Enrichment,
    Enrichments,
    File,
    Pictures,
    StoredPost,
    StoredPosts,
)

VISION = "vision"
PENDING = "pending"
STORED = "stored"


class LocalDescriber(Describer, Protocol):
    """Measures on this machine; knows a picture again after scaling and recompression."""

    async def fingerprint(self, picture: Picture) -> Fingerprint: ...


@dataclass(frozen=True)
class Vision:
    """What looking at a picture takes."""

    local: LocalDescriber
    remote: Describer | None
    pictures: Pictures
    store: MediaStore
    policy: Policy
    budgets: Budgets
    clock: Callable[[], datetime]
    at_once: int = 3
    locks: KeyedLocks = field(default_factory=KeyedLocks)

    async def look(self, file: File, post: StoredPost, position: int) -> Decision:
        """Make sure that there is a result; what was decided about it."""
        facts = self._facts(file, post, position, None)
        decision = self.policy.decide(facts)
        if not decision.allowed or file.sha256 is None or file.storage_key is None:
            return decision
        async with self.locks.lock(file.sha256):
            if await self._is_seen(file.sha256, decision):
                return decision
            picture = Picture(sha256=file.sha256, mime=file.mime, content=await self._content(file.storage_key))
            local: Seen | None = None
            if self.policy.needs_score(decision):
                local = await self._measured(picture)
                decision = self.policy.decide(self._facts(file, post, position, local.nsfw_score))
                if not decision.allowed or await self._is_seen(file.sha256, decision):
                    return decision
            await self._see(picture, decision, local)
        return decision

    async def _is_seen(self, sha256: str, decision: Decision) -> bool:
        return bool(await self.pictures.by_hash([sha256], self._describer(decision).identity))

    async def _measured(self, picture: Picture) -> Seen:
        known = await self.pictures.by_hash([picture.sha256], self.local.identity)
        return known.get(picture.sha256) or await self.local.describe(picture)

    async def _see(self, picture: Picture, decision: Decision, local: Seen | None) -> None:
        describer = self._describer(decision)
        mine = await self.local.fingerprint(picture)
        # What is written on both is compared where reading here is cheaper than asking.
        reader = self.local if decision.provider is Provider.REMOTE else None
        shared = await known_result(picture, mine, self.pictures, describer.identity, reader=reader)
        seen = shared or await self._described(picture, decision, local)
        await self.pictures.put(
            picture.sha256, seen, identity=describer.identity, fingerprint=mine, shared=shared is not None
        )

    async def _described(self, picture: Picture, decision: Decision, local: Seen | None) -> Seen:
        if decision.provider is Provider.LOCAL or self.remote is None:
            return local or await self.local.describe(picture)
        seen = await self.remote.describe(picture)
        return completed(seen, local or await self.local.describe(picture))

    def _facts(self, file: File, post: StoredPost, position: int, score: float | None) -> PictureFacts:
        return PictureFacts(
            mime=file.mime,
            size=file.size,
            channel_id=post.channel_id,
            username=post.channel_username,
            width=file.width,
            height=file.height,
            position=position,
            nsfw_score=score,
            remote=self.remote is not None,
        )

    def _describer(self, decision: Decision) -> Describer:
        remote = self.remote if decision.provider is Provider.REMOTE else None
        return remote or self.local

    async def _content(self, key: str) -> bytes:
        return b"".join([piece async for piece in self.store.stream(key)])


async def analyse_posts(
    events: Sequence[PostParsed | MediaSettled], *, vision: Vision, stored_posts: StoredPosts, enrichments: Enrichments
) -> list[Outcome]:
    """Told by the post itself and by each of its files; the last one finds nothing left to wait for."""
    with_files = [event.post_id for event in events if not isinstance(event, PostParsed) or event.has_media]
    posts = await stored_posts.read(with_files) if with_files else {}
    payers = await vision.budgets.watchers({post.channel_id for post in posts.values()})

    async def one(event: PostParsed | MediaSettled) -> Done:
        if isinstance(event, PostParsed) and not event.has_media:
            raise Skip("")
        post = posts.get(event.post_id)
        if post is None or post.deleted:
            raise Skip("the post is gone")
        if post.content_hash != event.content_hash:
            raise Skip("the post was edited meanwhile, and comes again")
        waited_for = [file for file in post.files if file.status == PENDING]
        if waited_for:
            raise Skip(f"{len(waited_for)} of its files are still on their way; it comes again with the last")
        with paid_by(payers[post.channel_id]):
            found = [await _picture(vision, file, post) for file in post.files]
        await enrichments.save(VISION, [Enrichment(post.post_id, post.content_hash, {"pictures": found}, VISION)])
        return _analyzed(event, post, found, vision)

    return await each(events, one, at_once=vision.at_once)


async def _picture(vision: Vision, file: File, post: StoredPost) -> dict[str, Any]:
    entry = {"position": file.position, "sha256": file.sha256, "kind": file.kind}
    if file.status != STORED:
        return {**entry, "seen": False, "rule": file.status, "reason": file.reason or "it was not downloaded"}
    try:
        decision = await vision.look(file, post, _place_in_album(post, file))
    except (Skip, Reject) as exc:
        return {**entry, "seen": False, "rule": "content", "reason": str(exc)}
    return {**entry, "seen": decision.allowed, "rule": decision.rule, "reason": decision.reason}


def _place_in_album(post: StoredPost, file: File) -> int:
    """Items of an album are posts of their own, with ids one after the other; the policy counts them from 0."""
    return file.position if post.album_place is None else post.album_place


def _analyzed(
    event: PostParsed | MediaSettled, post: StoredPost, found: Sequence[dict[str, Any]], vision: Vision
) -> Done:
    seen = sum(bool(one["seen"]) for one in found)
    left_out = [f"{one['kind']}: {one['reason']}" for one in found if not one["seen"]]
    analyzed = PostVisionAnalyzed(
        trace_id=event.trace_id,
        occurred_at=vision.clock(),
        idempotency_key=f"{POSTS_VISION_ANALYZED}:{post.post_id}:{post.content_hash}",
        tenant_id=event.tenant_id,
        channel_id=post.channel_id,
        post_id=post.post_id,
        content_hash=post.content_hash,
        pictures=seen,
        left_out=len(left_out),
        grouped_id=post.grouped_id,
    )
    return Done((analyzed,), note="; ".join([f"{seen} seen", *left_out]))
