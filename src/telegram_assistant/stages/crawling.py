"""`crawl_trigger` (SPEC 4.7) and `enrichment` (4.8): which links of a post deserve reading, and reading them.

Each tagged post gets one `posts.enriched`: from the trigger if there is nothing to read, else from enrichment. A page
that cannot be read now does not hold the post up: it goes on without it, and comes again when the page was read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from telegram_assistant.bus.stage import Done, KeyedLocks, Outcome, each
from telegram_assistant.crawl.budget import CrawlBudget
from telegram_assistant.crawl.reader import WebReader
from telegram_assistant.crawl.rules import CrawlRules, Subject, decide
from telegram_assistant.domain.events import PostCrawl, PostEnriched, PostTagged, Trigger
from telegram_assistant.domain.urls import NO_HOSTS, Allowance
from telegram_assistant.errors import Reject, Retry, Skip
from telegram_assistant.names import POSTS_CRAWL, POSTS_ENRICHED
from telegram_assistant.stores.postgres.enrichment import StoredPosts
from telegram_assistant.stores.postgres.interests import Interests
from telegram_assistant.stores.postgres.pages import Page, Pages

FRESH = timedelta(hours=24)
LONGEST_LINK = 2000  # characters; longer ones fit into no index of PostgreSQL
TAGGED = tuple(one.name for one in fields(PostTagged))  # what crawl and enriched carry on


@dataclass(frozen=True)
class Crawling:
    """What reading pages takes."""

    reader: WebReader
    pages: Pages
    budget: CrawlBudget
    clock: Callable[[], datetime]
    at_once: int = 4
    locks: KeyedLocks = field(default_factory=KeyedLocks)

    async def read(self, link: str, payers: Collection[UUID]) -> str:
        """The canonical address of a page that is stored now. Raises Retry, or Skip and Reject for good."""
        if len(link) > LONGEST_LINK:
            raise Skip(f"the address is longer than {LONGEST_LINK} characters")
        async with self.locks.lock(link):
            return await self._read(link, payers)

    async def _read(self, link: str, payers: Collection[UUID]) -> str:
        """Kept under the address that was asked for: where many write, a page may claim the name of another's."""
        stored = await self.pages.get(link)
        if stored is not None and self.clock() - stored.fetched_at < FRESH:
            if stored.problem is not None:
                raise Skip(stored.problem)
            return stored.url
        await self.budget.take(payers, link)
        try:
            page = await self.reader.read(link, stored if stored is not None and stored.text else None)
        except (Skip, Reject) as exc:
            await self.pages.save(Page(url=link), problem=str(exc))
            raise
        if page.unchanged and stored is not None:
            await self.pages.seen_again(stored.url)
            return stored.url
        await self.pages.save(replace(page, url=link))
        return link


async def trigger_crawls(
    events: Sequence[PostTagged],
    *,
    rules: CrawlRules,
    stored_posts: StoredPosts,
    pages: Pages,
    clock: Callable[[], datetime],
    interests: Interests | None = None,
    allow: Allowance = NO_HOSTS,
) -> list[Outcome]:
    """Words that vision added change no link: such a post goes straight on."""
    linked = [event for event in events if event.urls and event.trigger is not Trigger.VISION_RETAG]
    posts = await stored_posts.read([event.post_id for event in linked]) if linked else {}
    channels = {event.channel_id for event in linked}
    liked = await interests.of_channels(channels) if interests is not None and channels else {}
    outcomes: list[Outcome] = []
    unlinked: list[tuple[UUID, str]] = []
    wanted: list[tuple[UUID, str]] = []
    for event in events:
        post = posts.get(event.post_id)
        subject = Subject(
            text=post.text if post is not None else "",
            topics=event.topics,
            tags=event.tags,
            interests=liked.get(event.channel_id, ()),
        )
        decisions = decide(event.urls, subject, rules, allow=allow) if post is not None else ()
        links = tuple(decision.url for decision in decisions if decision.crawl)
        note = "; ".join(f"{decision.url}: {decision.reason}" for decision in decisions) or "no links to read"
        outcomes.append(Done((_crawl(event, links, clock()) if links else _enriched(event, (), clock()),), note=note))
        if event.trigger is not Trigger.VISION_RETAG:
            (wanted if links else unlinked).append((event.post_id, event.content_hash))
    if wanted:
        await pages.want(wanted)
    if unlinked:
        await pages.unlink(unlinked)  # an edit may have taken the links away
    return outcomes


async def enrich_posts(events: Sequence[PostCrawl], *, crawling: Crawling) -> list[Outcome]:
    """Read the links of each post, and let it go on."""
    payers = await crawling.budget.budgets.watchers({event.channel_id for event in events})

    async def one(event: PostCrawl) -> Done:
        read: list[tuple[str, str]] = []
        later: Retry | None = None
        notes: list[str] = []
        reading = (crawling.read(link, payers[event.channel_id]) for link in event.links)
        answers = await asyncio.gather(*reading, return_exceptions=True)
        for link, answer in zip(event.links, answers, strict=True):
            if isinstance(answer, str):
                read.append((link, answer))
                notes.append(f"{answer}: read")
            elif isinstance(answer, Retry):
                later = _sooner(later, answer)
                notes.append(f"{link}: later, {answer}")
            elif isinstance(answer, Skip | Reject):
                notes.append(f"{link}: {answer}")
            else:
                raise answer
        if not await crawling.pages.link(event.post_id, event.content_hash, read, among=event.links):
            raise Skip("the post is gone, or was edited meanwhile and comes again")
        enriched = _enriched(event, tuple(sorted({url for _, url in read})), crawling.clock())
        return Done((enriched,), note="; ".join(notes), again=later)

    return await each(events, one, at_once=crawling.at_once)


def _sooner(one: Retry | None, other: Retry) -> Retry:
    """What fails uses up an attempt; what only has to wait must not keep it from that."""
    return min((retry for retry in (one, other) if retry is not None), key=_urgency)


def _urgency(retry: Retry) -> tuple[bool, float]:
    return not retry.failed, retry.after or 0.0


def _crawl(event: PostTagged, links: tuple[str, ...], now: datetime) -> PostCrawl:
    key = f"{POSTS_CRAWL}:{event.post_id}:{event.content_hash}:{event.trigger}"
    return PostCrawl(**{**_carried(event), "occurred_at": now, "idempotency_key": key}, links=links)


def _enriched(event: PostTagged, pages: tuple[str, ...], now: datetime) -> PostEnriched:
    key = f"{POSTS_ENRICHED}:{event.post_id}:{event.content_hash}:{event.trigger}"
    return PostEnriched(**{**_carried(event), "occurred_at": now, "idempotency_key": key}, pages=pages)


def _carried(event: PostTagged) -> dict[str, Any]:
    return {name: getattr(event, name) for name in TAGGED}
