"""Digests: the job `digests` (SPEC 5.1) plans, builds and sends issues; the maker writes one for a period or preview.

Each step is written down before the next begins, so a process that dies in between leaves nothing undone or doubled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.config import Settings
from telegram_assistant.domain.digests import (
    Change,
    Content,
    Correction,
    Digest,
    Frequency,
    Issue,
    Sentence,
    Told,
    Way,
    Wish,
    corrections,
    last_until,
    next_after,
)
from telegram_assistant.domain.models import Answerer
from telegram_assistant.domain.retries import Backoff
from telegram_assistant.errors import Reject, Retry
from telegram_assistant.jobs.digest_sections import in_sections
from telegram_assistant.jobs.digest_writing import Citing, Evidence, Found, Interests, Stories, Story, Writer
from telegram_assistant.language.inflection import Inflection
from telegram_assistant.language.lexemes import Lexicon
from telegram_assistant.language.taxonomy import load_taxonomy
from telegram_assistant.log import get_logger
from telegram_assistant.metrics import DIGEST_ISSUES
from telegram_assistant.search.planning import Planner
from telegram_assistant.stores.postgres.digests import DigestIssues, DigestPosts, Digests, Reader, Sending
from telegram_assistant.stores.postgres.search import SearchDocuments
from telegram_assistant.stores.postgres.visible_posts import VisiblePosts

AT_ONCE = 500  # digests that are planned together
LONGEST_PERIOD = timedelta(days=35)  # after a long silence no more is told
LEASE = timedelta(minutes=20)  # longer than a run may take
MODEL_ATTEMPTS = 4  # then the issue is made of the posts' own words
BUILD_AGAIN = Backoff(base=60.0, factor=3.0, cap=6 * 3600.0)
SENT_AT_ONCE = 50
SEND_ATTEMPTS = 6
SEND_AGAIN = Backoff(base=60.0, factor=4.0, cap=6 * 3600.0)
SENT_WAYS = (Way.EMAIL, Way.BOT)  # the page and the feed are read where they are
UNFINISHED = "it was not finished in several attempts"
TOO_SLOW = "the model took longer than {:g} s"
REMEMBERED = timedelta(days=14)  # so long a story is not told again
PERIODS = {
    Frequency.DAILY: timedelta(days=1),
    Frequency.WEEKLY: timedelta(days=7),
    Frequency.MONTHLY: timedelta(days=31),
}

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds, together less than a run of the job may take: what is cut off there would begin anew each time."""

    building: float = 180.0  # after that no other issue is begun in this run
    issue: float = 480.0
    sending: float = 60.0  # the same for sending: no digest waits for a mail server that hangs
    parcel: float = 90.0


@dataclass(frozen=True)
class DigestJob:
    """The process that holds the lock of the jobs calls it every minute."""

    digests: Digests
    issues: DigestIssues
    desk: DigestMaker
    deliveries: Sequence[Delivery]
    clock: Callable[[], datetime]
    page: Callable[[Issue], str | None]
    limits: Limits = Limits()

    async def __call__(self, _moment: datetime) -> str | None:
        due, built, sent = await self.plan(), await self.build(), await self.send()
        return f"{due} due, {built} built, {sent} sent" if due or built or sent else None

    async def plan(self) -> int:
        """An issue for each digest whose time has come; however many times were missed, for the last of them."""
        planned = 0
        while True:
            now = self.clock()
            due = await self.digests.due(now, limit=AT_ONCE)
            for digest in due:
                planned += await self._plan(digest, now)
            if len(due) < AT_ONCE:
                return planned

    async def build(self) -> int:
        built, elapsed = 0, _stopwatch()
        while elapsed() < self.limits.building:
            issue = await self.issues.take(self.clock(), lease=LEASE)
            if issue is None:
                break
            built += await self._build(issue)
        return built

    async def send(self) -> int:
        sent, elapsed = 0, _stopwatch()
        kinds = [way.value for way in SENT_WAYS]
        for sending, issue in await self.issues.to_send(self.clock(), kinds, limit=SENT_AT_ONCE):
            if elapsed() >= self.limits.sending:
                break
            sent += await self._send(sending, issue)
        return sent

    async def _plan(self, digest: Digest, now: datetime) -> bool:
        schedule = digest.wish.schedule
        try:
            slot = max(last_until(schedule, now), digest.next_at or now)
            since = last_until(schedule, slot - timedelta(microseconds=1))
            next_at = next_after(schedule, now)
        except ValueError as exc:
            await self.digests.give_up(digest, str(exc))
            return False
        return await self.issues.plan(digest, slot, since=since, earliest=slot - LONGEST_PERIOD, next_at=next_at)

    async def _build(self, issue: Issue) -> bool:
        digest = await self.digests.any(issue.digest_id)
        if digest is None:
            return False
        try:
            content = await self._content(digest, issue)
        except Exception as exc:
            # One digest that cannot be built must not keep the others waiting.
            if not isinstance(exc, Retry):
                log.exception("digest_not_built", issue=str(issue.id), attempt=issue.attempts)
            delay = timedelta(seconds=BUILD_AGAIN.delay(issue.attempts))
            await self.issues.put_off(issue, str(exc) or type(exc).__name__, self.clock() + delay)
            DIGEST_ISSUES.labels("postponed").inc()
            return False
        send = [way.value for way in SENT_WAYS if way in digest.wish.ways]
        done = await self.issues.built(issue, content, now=self.clock(), send=send)
        DIGEST_ISSUES.labels("built").inc(done)
        return done

    async def _content(self, digest: Digest, issue: Issue) -> Content:
        """Without the model where it failed too often, or is so slow that other users would get no digest."""
        why = (issue.error or UNFINISHED) if issue.attempts > MODEL_ATTEMPTS else ""
        try:
            async with asyncio.timeout(self.limits.issue):
                return await self._make(digest, issue, why)
        except TimeoutError:
            if why:
                raise
            return await self._make(digest, issue, TOO_SLOW.format(self.limits.issue))

    async def _make(self, digest: Digest, issue: Issue, without_model: str) -> Content:
        return await self.desk.build(
            digest.tenant_id,
            digest.user_id,
            digest.wish,
            issue.since,
            issue.until,
            digest_id=digest.id,
            without_model=without_model,
        )

    async def _send(self, sending: Sending, issue: Issue) -> bool:
        try:
            await self._bring_in_time(sending.kind, issue)
        except Reject as exc:
            await self.issues.not_sent(sending, str(exc), again_at=None)
        except Exception as exc:
            # One that cannot be sent must not keep the others waiting.
            if not isinstance(exc, Retry):
                log.exception("digest_not_sent", issue=str(issue.id), kind=sending.kind)
            await self.issues.not_sent(sending, str(exc) or type(exc).__name__, again_at=self._again_at(sending, exc))
        else:
            await self.issues.sent(sending, self.clock())
            DIGEST_ISSUES.labels("sent").inc()
            return True
        DIGEST_ISSUES.labels("refused").inc()
        return False

    def _again_at(self, sending: Sending, error: Exception) -> datetime | None:
        attempt = sending.attempts + 1
        after = error.after if isinstance(error, Retry) else None
        delay = timedelta(seconds=after or SEND_AGAIN.delay(attempt))
        return self.clock() + delay if attempt < SEND_ATTEMPTS else None

    async def _bring_in_time(self, kind: str, issue: Issue) -> None:
        try:
            async with asyncio.timeout(self.limits.parcel):
                await self._bring(kind, issue)
        except TimeoutError as exc:
            raise Retry(f"It was not taken within {self.limits.parcel:g} s") from exc

    async def _bring(self, kind: str, issue: Issue) -> None:
        delivery = next((one for one in self.deliveries if one.name == kind), None)
        if delivery is None:
            raise Reject(f"There is no {kind} here: ask an admin to set it up, then send it again")
        digest = await self.digests.any(issue.digest_id)
        reader = await self.digests.reader(digest) if digest else None
        if digest is None or reader is None or reader.disabled:
            raise Reject("Its reader is gone")
        shown = await self.desk.show(issue)
        await delivery.send(Parcel(digest=digest, issue=issue, reader=reader, shown=shown, page=self.page(issue)))


def _stopwatch() -> Callable[[], float]:
    """Seconds since now. Of the loop: the job's own clock stands still in between."""
    time = asyncio.get_running_loop().time
    began = time()
    return lambda: time() - began


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """An issue that is to be delivered."""

    digest: Digest
    issue: Issue
    reader: Reader
    shown: ShownIssue
    page: str | None  # where it can be read with its receipts; None: we do not know our own address


class Delivery(Protocol):
    """A way to bring it. `name` is that of the way: email, bot."""

    @property
    def name(self) -> str: ...

    async def send(self, parcel: Parcel) -> None:
        """Raises Retry when it may work later, Reject with a sentence for the reader when it will not."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownIssue:
    """An issue as a reader sees it today."""

    content: Content
    corrections: tuple[Correction, ...] = ()
    unsaid: frozenset[tuple[str, int]] = frozenset()  # a sentence, and a post that was edited and says it no more

    def corrections_of(self, sentence: Sentence) -> list[Correction]:
        return [one for one in self.corrections if one.source in sentence.sources]


@dataclass(frozen=True)
class DigestMaker:
    """Makes and shows. `keeps_deleted`: whether words of deleted posts may still be shown."""

    stories: Stories
    writer: Writer
    issues: DigestIssues
    posts: DigestPosts
    clock: Callable[[], datetime]
    keeps_deleted: bool = True
    interests: Interests | None = None

    async def build(
        self,
        tenant_id: UUID,
        user_id: UUID,
        wish: Wish,
        since: datetime,
        until: datetime,
        *,
        digest_id: UUID | None = None,
        without_model: str = "",
    ) -> Content:
        """`without_model`: why the language model is not to be asked. Raises Retry when it is away."""
        told = await self.issues.told(tenant_id, digest_id, since=until - REMEMBERED) if digest_id else set()
        likes: Mapping[str, float] = await self.interests.weights(tenant_id, user_id) if self.interests else {}
        found = await self.stories.find(tenant_id, wish, since, until, told=sorted(told), interests=likes)
        return await self._write(tenant_id, found, wish, without_model)

    async def preview(
        self,
        tenant_id: UUID,
        user_id: UUID,
        wish: Wish,
        *,
        digest_id: UUID | None = None,
        period: timedelta | None = None,
    ) -> tuple[datetime, datetime, Content]:
        """What it would say if it were due now. `period`: what it looks back at, if not as far as it is due."""
        until = self.clock()
        since = until - (period or PERIODS[wish.schedule.frequency])
        content = await self.build(tenant_id, user_id, wish, since, until, digest_id=digest_id)
        return since, until, content

    async def show(self, issue: Issue) -> ShownIssue:
        return await self.shown(issue.tenant_id, issue.content or Content())

    async def shown(self, tenant_id: UUID, content: Content) -> ShownIssue:
        """With corrections; what only deleted posts say is not repeated, if that is the rule here."""
        now = await self.posts.now(tenant_id, [one.post_id for one in content.cited])
        found = corrections(content, now)
        edited = any(one.change is Change.EDITED for one in found)
        unsaid = await asyncio.to_thread(self._unsaid, content, found) if edited else frozenset()
        if self.keeps_deleted:
            return ShownIssue(content=content, corrections=found, unsaid=unsaid)
        lost = {one.source for one in found if one.change in {Change.DELETED, Change.GONE}}
        kept = tuple(_without(story, lost) for story in content.stories)
        return ShownIssue(content=replace(content, stories=kept), corrections=found, unsaid=unsaid)

    def _unsaid(self, content: Content, found: tuple[Correction, ...]) -> frozenset[tuple[str, int]]:
        edited = {one.source: one.text for one in found if one.change is Change.EDITED}
        return frozenset(
            (sentence.text, source)
            for story in content.stories
            for sentence in story.sentences
            for source in sentence.sources
            if source in edited and not self.writer.evidence.says(sentence.text, edited[source])
        )

    async def _write(self, tenant_id: UUID, found: Found, wish: Wish, without_model: str) -> Content:
        citing = Citing()
        told: list[tuple[Story, Told]] = []
        wordless = 0
        for story in found.stories:
            if len(told) == wish.most:
                break
            written = await self.writer.tell(tenant_id, story, citing, wish.language, by_model=not without_model)
            if written is None:
                wordless += 1
            else:
                told.append((story, written))
        over = len(found.stories) - len(told) - wordless
        return Content(
            stories=in_sections(told, wish, self.stories.taxonomy),
            cited=citing.cited,
            coverage=replace(found.coverage, told=len(told), wordless=wordless, over_limit=over),
            written_by="" if without_model else self.writer.model,
            without_model=without_model if self.writer.model else "",
        )


def _without(story: Told, lost: set[int]) -> Told:
    """Sentences that nothing is left of stay as an empty line: their receipts are still shown."""
    kept = tuple(replace(one, text="") if set(one.sources) <= lost else one for one in story.sentences)
    return replace(story, sentences=kept)


def open_digest_maker(
    settings: Settings,
    database: AsyncEngine,
    clock: Callable[[], datetime],
    *,
    answerer: Answerer | None = None,
    lexicon: Lexicon | None = None,
    inflection: Inflection | None = None,
    interests: Interests | None = None,
) -> DigestMaker:
    """Without an answerer, digests are made of the posts' own words."""
    inflection = inflection or Inflection()
    documents, posts = SearchDocuments(database), DigestPosts(database)
    planner = Planner(documents, VisiblePosts(database), lexicon or Lexicon(inflection))
    patience = timedelta(seconds=2 * max(settings.polling_bound_sec, settings.parser_scheduler_interval_sec))
    return DigestMaker(
        Stories(posts, documents, planner, load_taxonomy(settings.ai_topics_file), patience=patience),
        Writer(Evidence(inflection), answerer),
        DigestIssues(database),
        posts,
        clock=clock,
        keeps_deleted=settings.retention_deleted == "keep",
        interests=interests,
    )
