"""Saved searches, looked at whenever something was indexed: what is new is told once, to the page and to webhooks.

The position in time is kept in the table; a little of what lies before is read again each time, because what began
to be written earlier may be seen later. The key of the table keeps an alert from being told twice.
A webhook gets one POST, signed, at public addresses only, never redirected.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from redis.asyncio import Redis

from telegram_assistant.bus.supervisor import Task
from telegram_assistant.crawl.network import Poster
from telegram_assistant.domain.query import parse_query
from telegram_assistant.domain.results import Shown
from telegram_assistant.domain.retries import Backoff
from telegram_assistant.domain.saved_search import Parcel, SavedSearch
from telegram_assistant.domain.urls import Url
from telegram_assistant.errors import Fatal, Reject, Retry
from telegram_assistant.ingest.lock import Lock
from telegram_assistant.language.documents import Candidate, Changed
from telegram_assistant.log import get_logger
from telegram_assistant.names import alerts_told
from telegram_assistant.search.planning import Planner
from telegram_assistant.stores.postgres.saved_searches import OVERLAP, SavedSearches, SearchAlerts
from telegram_assistant.stores.postgres.search import SearchDocuments
from telegram_assistant.stores.postgres.visible_posts import VisiblePosts
from telegram_assistant.stores.sealed import Sealer

PAUSE = 2.0  # seconds between two looks
LOCK_TTL = 60.0  # seconds; longer than one round takes
FRESH = timedelta(days=7)  # an older post is no news, whenever it comes
BEFORE = timedelta(days=1)  # so much older than the saved search a post may be
SAME_STORY = timedelta(hours=24)
PAGE = 2_000
MOST_PARCELS, OF_ONE = 20, 3
ATTEMPTS = 6
BACKOFF = Backoff(base=30.0, factor=4.0, cap=6 * 3600.0)
PRUNED_EVERY = 3600.0  # seconds
LONGEST_TEXT = 1_000

log = get_logger(__name__)


@dataclass
class Alerts:
    """Finds and delivers. One process does it at a time, the one that holds the lock."""

    saved: SavedSearches
    found: SearchAlerts
    documents: SearchDocuments
    posts: VisiblePosts
    planner: Planner
    webhooks: Webhooks
    sealer: Sealer
    redis: Redis
    lock: Lock
    _seen: dict[UUID, datetime] = field(default_factory=dict)
    _pruned: float = -PRUNED_EVERY

    async def run(self, task: Task) -> None:
        """The job of a supervised task."""
        task.ready()
        try:
            while True:
                if await self.lock.hold():
                    await self.once()
                    await self._prune()
                task.progress()
                await asyncio.sleep(PAUSE)
        finally:
            await self.lock.release()

    async def once(self) -> int:
        """One round; how many alerts were told."""
        told = await self.look()
        await self.deliver()
        return told

    async def look(self) -> int:
        """Everything that changed since, against every saved search."""
        since, now = await self.saved.position()
        last = await self.documents.last_change() if since is not None else None
        if since is None or last is None or last <= since - OVERLAP:
            return 0
        told = 0
        seen: dict[UUID, datetime] = {}
        after: Changed | None = None
        searches: list[SavedSearch] = []
        while True:
            page = await self.documents.changed(since - OVERLAP, posted_after=now - FRESH, after=after, limit=PAGE)
            fresh = [one for one in page if self._seen.get(one.post_id) != one.changed_at]
            # After the posts: so a search that was saved before a post was written is among them.
            searches = await self.saved.active()
            for search in searches if fresh else ():
                told += await self._look_for(search, fresh, now)
            seen |= {one.post_id: one.changed_at for one in page}
            if len(page) < PAGE:
                break
            after = page[-1]
        await self.saved.checked([search.id for search in searches], now)
        self._seen = seen
        return told

    async def _look_for(self, search: SavedSearch, fresh: Sequence[Changed], now: datetime) -> int:
        """What was there when the search was saved, its owner has seen."""
        wanted = [
            one.post_id
            for one in fresh
            if one.changed_at > search.checked_at - OVERLAP
            and one.indexed_at >= search.created_at
            and one.posted_at >= search.created_at - BEFORE
        ]
        if not wanted:
            return 0
        planned = await self.planner.plan(search.tenant_id, parse_query(search.query, now=now))
        if planned.plan.excludes:  # what is not said of a post yet may still be
            whole = {one.post_id for one in fresh if one.whole}
            wanted = [post_id for post_id in wanted if post_id in whole]
        matching = await self.documents.matching(planned.plan, wanted)
        if not matching:
            return 0
        told = await self.found.told(search.id, matching[0].posted_at - SAME_STORY, matching[-1].posted_at + SAME_STORY)
        new = await self.found.add(search.id, _stories(matching, told))
        if new:
            log.info("alerts_found", search=str(search.id), posts=len(new))
            message = json.dumps({"search_id": str(search.id), "user_id": str(search.user_id), "posts": len(new)})
            await self.redis.publish(alerts_told(search.tenant_id), message)
        return len(new)

    async def deliver(self) -> int:
        """What is due, to the webhooks."""
        parcels = await self.found.due(most=MOST_PARCELS, each=OF_ONE)
        await asyncio.gather(*(self._deliver(parcel) for parcel in parcels))
        return len(parcels)

    async def _deliver(self, parcel: Parcel) -> None:
        shown = (await self.posts.posts(parcel.tenant_id, [parcel.post_id])).get(parcel.post_id)
        if shown is None or shown.deleted:
            await self.found.failed(parcel, "the post is gone", None)
            return
        try:
            secret = self.sealer.unseal(parcel.secret, owner=secret_owner(parcel.search_id))
        except Fatal:
            # It is no session that cannot be opened, and nothing to stop for.
            await self.found.failed(parcel, "the key of this installation is another one: set the webhook anew", None)
            return
        try:
            await self.webhooks.send(parcel.url, secret, alert_body(parcel, shown))
        except Reject as exc:
            await self.found.failed(parcel, str(exc), None)
        except Retry as exc:
            attempt = parcel.attempts + 1
            await self.found.failed(parcel, str(exc), None if attempt >= ATTEMPTS else BACKOFF.delay(attempt))
        else:
            await self.found.delivered(parcel)

    async def _prune(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._pruned >= PRUNED_EVERY:
            self._pruned = now
            await self.found.prune()


def secret_owner(search_id: UUID) -> str:
    """Whose secret it is: sealed for one search it opens for no other."""
    return f"webhook:{search_id}"


def alert_body(parcel: Parcel, post: Shown) -> bytes:
    """What a webhook gets."""
    return json_body(
        {
            "type": "alert",
            "saved_search": {"id": str(parcel.search_id), "name": parcel.name, "query": parcel.query},
            "found_at": parcel.found_at.isoformat(),
            "post": {
                "id": str(post.post_id),
                "url": post.url,
                "channel": post.channel_title,
                "posted_at": post.posted_at.isoformat(),
                "text": post.text[:LONGEST_TEXT],
            },
        }
    )


def trial_body(search: SavedSearch) -> bytes:
    """What a webhook gets as a test."""
    return json_body(
        {"type": "test", "saved_search": {"id": str(search.id), "name": search.name, "query": search.query}}
    )


def json_body(value: object) -> bytes:
    """Half a character of a stranger's text must not stop it."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


def _stories(matching: Sequence[Candidate], told: Sequence[Candidate]) -> list[tuple[UUID, UUID | None]]:
    """Each post with the one that told the same before, within a day."""
    heads = list(told)
    known = {one.post_id for one in heads}
    found: list[tuple[UUID, UUID | None]] = []
    for one in matching:
        if one.post_id in known:
            continue
        head = next((other for other in heads if _same(one, other)), None)
        found.append((one.post_id, head.post_id if head else None))
        if head is None:
            heads.append(one)
    return found


def _same(one: Candidate, other: Candidate) -> bool:
    if one.album_id is not None and one.album_id == other.album_id:
        return True
    near = abs(one.posted_at - other.posted_at) <= SAME_STORY
    return near and one.story_id is not None and one.story_id == other.story_id


SIGNATURE = "X-TGA-Signature"
LONGEST_URL = 2_000


def new_secret() -> str:
    return f"whsec_{secrets.token_urlsafe(32)}"


def signature(secret: str, moment: datetime, body: bytes) -> str:
    """`t=<seconds>,v1=<HMAC-SHA256 of "<seconds>.<body>">`: an old request cannot be sent again as a new one."""
    seconds = str(int(moment.timestamp()))
    signed = hmac.new(secret.encode(), f"{seconds}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={seconds},v1={signed}"


@dataclass(frozen=True)
class Webhooks:
    """Sends, and signs what it sends."""

    poster: Poster
    clock: Callable[[], datetime]

    def checked(self, text: str) -> str:
        """The address as it will be asked. Raises Reject for one that never will be."""
        return str(self._permitted(text))

    async def send(self, url: str, secret: str, body: bytes) -> int:
        """The status of the answer, always 2xx. Raises Retry; Reject where another try would be the same."""
        here = self._permitted(url)
        signed = {SIGNATURE: signature(secret, self.clock(), body)}
        status = (await self.poster.post(here, body, signed, read=False)).status
        if 300 <= status < 400:
            raise Retry(f"{here.host} answered {status}: redirects are not followed")
        if not 200 <= status < 300:
            raise Retry(f"{here.host} answered {status}")
        return status

    def _permitted(self, text: str) -> Url:
        if len(text) > LONGEST_URL:
            raise Reject(f"the address is longer than {LONGEST_URL} characters")
        return self.poster.permitted(text)
