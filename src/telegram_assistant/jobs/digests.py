"""The job `digests` (SPEC 5.1): what is due becomes an issue, issues are built, and built ones are brought to readers.

Each step is written down before the next begins, so a process that dies in between leaves nothing undone or doubled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from telegram_assistant.domain.digests import Content, Digest, Issue, Way, last_until, next_after
from telegram_assistant.domain.retries import Backoff
from telegram_assistant.errors import Reject, Retry
from telegram_assistant.jobs.digest_delivery import Delivery, Parcel
from telegram_assistant.jobs.digest_desk import DigestDesk
from telegram_assistant.log import get_logger
from telegram_assistant.metrics import DIGEST_ISSUES
from telegram_assistant.stores.postgres.digests import DigestIssues, Digests, Sending

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

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds, together less than a run of the job may take: what is cut off there would begin anew each time."""

    building: float = 180.0  # after that no other issue is begun in this run
    issue: float = 480.0
    sending: float = 60.0  # the same for sending: nobody's digest waits for a mail server that hangs
    parcel: float = 90.0


class DigestJob:
    """Called every minute by whoever holds the lock of the jobs."""

    def __init__(
        self,
        digests: Digests,
        issues: DigestIssues,
        desk: DigestDesk,
        deliveries: Sequence[Delivery],
        *,
        clock: Callable[[], datetime],
        page: Callable[[Issue], str | None],
        limits: Limits | None = None,
    ) -> None:
        self._digests = digests
        self._issues = issues
        self._desk = desk
        self._deliveries = {one.name: one for one in deliveries}
        self._clock = clock
        self._page = page
        self._limits = limits or Limits()

    async def __call__(self, _moment: datetime) -> str | None:
        due, built, sent = await self.plan(), await self.build(), await self.send()
        return f"{due} due, {built} built, {sent} sent" if due or built or sent else None

    async def plan(self) -> int:
        """An issue for each digest whose time has come; however many times were missed, for the last of them."""
        planned = 0
        while True:
            now = self._clock()
            due = await self._digests.due(now, limit=AT_ONCE)
            for digest in due:
                planned += await self._plan(digest, now)
            if len(due) < AT_ONCE:
                return planned

    async def build(self) -> int:
        built, elapsed = 0, _stopwatch()
        while elapsed() < self._limits.building:
            issue = await self._issues.take(self._clock(), lease=LEASE)
            if issue is None:
                break
            built += await self._build(issue)
        return built

    async def send(self) -> int:
        sent, elapsed = 0, _stopwatch()
        kinds = [way.value for way in SENT_WAYS]
        for sending, issue in await self._issues.to_send(self._clock(), kinds, limit=SENT_AT_ONCE):
            if elapsed() >= self._limits.sending:
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
            await self._digests.give_up(digest, str(exc))
            return False
        return await self._issues.plan(digest, slot, since=since, earliest=slot - LONGEST_PERIOD, next_at=next_at)

    async def _build(self, issue: Issue) -> bool:
        digest = await self._digests.any(issue.digest_id)
        if digest is None:
            return False
        try:
            content = await self._content(digest, issue)
        except Exception as exc:
            # One digest that cannot be built must not keep the others waiting.
            if not isinstance(exc, Retry):
                log.exception("digest_not_built", issue=str(issue.id), attempt=issue.attempts)
            delay = timedelta(seconds=BUILD_AGAIN.delay(issue.attempts))
            await self._issues.put_off(issue, str(exc) or type(exc).__name__, self._clock() + delay)
            DIGEST_ISSUES.labels("postponed").inc()
            return False
        send = [way.value for way in SENT_WAYS if way in digest.wish.ways]
        done = await self._issues.built(issue, content, now=self._clock(), send=send)
        DIGEST_ISSUES.labels("built").inc(done)
        return done

    async def _content(self, digest: Digest, issue: Issue) -> Content:
        """Without the model where it failed too often, or is so slow that nobody else would get a digest."""
        why = (issue.error or UNFINISHED) if issue.attempts > MODEL_ATTEMPTS else ""
        try:
            async with asyncio.timeout(self._limits.issue):
                return await self._make(digest, issue, why)
        except TimeoutError:
            if why:
                raise
            return await self._make(digest, issue, TOO_SLOW.format(self._limits.issue))

    async def _make(self, digest: Digest, issue: Issue, without_model: str) -> Content:
        return await self._desk.build(
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
            await self._issues.not_sent(sending, str(exc), again_at=None)
        except Exception as exc:
            # One that cannot be sent must not keep the others waiting.
            if not isinstance(exc, Retry):
                log.exception("digest_not_sent", issue=str(issue.id), kind=sending.kind)
            await self._issues.not_sent(sending, str(exc) or type(exc).__name__, again_at=self._again_at(sending, exc))
        else:
            await self._issues.sent(sending, self._clock())
            DIGEST_ISSUES.labels("sent").inc()
            return True
        DIGEST_ISSUES.labels("refused").inc()
        return False

    def _again_at(self, sending: Sending, error: Exception) -> datetime | None:
        attempt = sending.attempts + 1
        after = error.after if isinstance(error, Retry) else None
        delay = timedelta(seconds=after or SEND_AGAIN.delay(attempt))
        return self._clock() + delay if attempt < SEND_ATTEMPTS else None

    async def _bring_in_time(self, kind: str, issue: Issue) -> None:
        try:
            async with asyncio.timeout(self._limits.parcel):
                await self._bring(kind, issue)
        except TimeoutError as exc:
            raise Retry(f"It was not taken within {self._limits.parcel:g} s") from exc

    async def _bring(self, kind: str, issue: Issue) -> None:
        delivery = self._deliveries.get(kind)
        if delivery is None:
            raise Reject(f"There is no {kind} here: ask an admin to set it up, then send it again")
        digest = await self._digests.any(issue.digest_id)
        reader = await self._digests.reader(digest) if digest else None
        if digest is None or reader is None or reader.disabled:
            raise Reject("Its reader is gone")
        shown = await self._desk.show(issue)
        await delivery.send(Parcel(digest=digest, issue=issue, reader=reader, shown=shown, page=self._page(issue)))


def _stopwatch() -> Callable[[], float]:
    """Seconds since now. Of the loop: the job's own clock stands still in between."""
    time = asyncio.get_running_loop().time
    began = time()
    return lambda: time() - began
