"""Asks Telegram what changed in a channel since we last knew: posts of any age that were edited or deleted too.

The history proves that nothing is missing; this tells what happened to what we have. Where Telegram cannot tell it,
every stored post is looked at again by an audit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime

from telegram_assistant.domain.ledger import Coverage
from telegram_assistant.domain.retries import Failure
from telegram_assistant.domain.source import Changes, Source, SourceError
from telegram_assistant.domain.visits import AWAY, CHANGES, NOT_TOLD, TOLD, changes_due, was_away
from telegram_assistant.ingest.saver import Reading, Saved, Saver
from telegram_assistant.log import get_logger
from telegram_assistant.metrics import DIFFERENCES
from telegram_assistant.stores.postgres.audits import Audits
from telegram_assistant.stores.postgres.channels import Channel

MOST_PARTS = 100  # of a difference in one visit; the next goes on from there
PASSING = frozenset({Failure.TRANSIENT, Failure.ACCOUNT})  # no word about the channel: the visit fails as a whole
DONE = (CHANGES, TOLD)

log = get_logger(__name__)


@dataclass(slots=True)
class CaughtUp:
    """What it changed, and what of domain.refresh is done with."""

    saved: Saved = field(default_factory=Saved)
    done: tuple[str, ...] = ()
    counted: bool = True  # False: the first page of history that is read now tells the count


class CatchingUp:
    """The first thing that a visit does, where it is time for it."""

    def __init__(self, audits: Audits, saver: Saver, *, clock: Callable[[], datetime]) -> None:
        self._audits = audits
        self._saver = saver
        self._clock = clock

    async def __call__(
        self, channel: Channel, source: Source, *, before_page: Callable[[], Awaitable[None]]
    ) -> CaughtUp:
        now, begins = self._clock(), channel.requested_from is None
        if not source.counts_changes or (not begins and not changes_due(channel.refreshed, now)):
            return CaughtUp()
        pts = await self._audits.pts(channel.id)
        if pts is None:
            if not begins:  # captured by a version that did not count, or lost before
                await self._want(channel, "lost", now, None)
            return CaughtUp(done=DONE, counted=False)
        told = CaughtUp(done=DONE)
        try:
            all_told = await self._follow(channel, source, told, pts=pts, before_page=before_page)
        except SourceError as exc:
            if exc.failure in PASSING:
                raise
            if exc.failure is Failure.FLOOD:
                log.warning("changes_postponed", reason=str(exc))
                return CaughtUp(told.saved)
            log.warning("changes_refused", failure=exc.failure.value, reason=str(exc))
            # An answer that cannot be read, or a count that Telegram does not take: the next page has another.
            lost = exc.failure is Failure.FATAL
            await self._want(channel, "lost" if lost else "refused", now, None if lost else pts)
            return CaughtUp(told.saved, done=DONE if lost else (*DONE, NOT_TOLD), counted=not lost)
        # The mark moves when the visit succeeds, so the wish is not lost; but until then one is enough.
        if (
            all_told
            and was_away(channel.refreshed, now)
            and not await self._audits.wanted_since(channel.id, now - AWAY)
        ):
            await self._want(channel, "away", now, await self._audits.pts(channel.id))
        return told

    async def _follow(
        self,
        channel: Channel,
        source: Source,
        told: CaughtUp,
        *,
        pts: int,
        before_page: Callable[[], Awaitable[None]],
    ) -> bool:
        """Whether it told everything, as far as it was asked; else an audit is wanted."""
        for _ in range(MOST_PARTS):
            await before_page()
            asked_at = self._clock()
            changes = await source.changes_since(pts)
            if changes.too_long or changes.pts < pts:  # counted anew: this is not the channel that we counted
                reason = "too_long" if changes.too_long else "lost"
                await self._want(channel, reason, asked_at, changes.pts)
                return False
            DIFFERENCES.labels("told" if changes.posts or changes.deleted else "nothing").inc()
            told.saved.add(await self._saver.save(_reading(channel, changes, asked_at)))
            if changes.final:
                return True
            pts = changes.pts
        told.done = ()  # the next visit goes on
        return False

    async def _want(self, channel: Channel, reason: str, now: datetime, pts: int | None) -> None:
        """A full audit finds what was not told."""
        DIFFERENCES.labels(reason).inc()
        log.info("full_audit_wanted", reason=reason)
        await self._audits.want(channel.id, reason, now, pts=pts)


def _reading(channel: Channel, changes: Changes, asked_at: datetime) -> Reading:
    """What is below the requested history stays out of it."""
    posts = [post for post in changes.posts if post.message_id >= (channel.requested_from or 0)]
    ids = [*(post.message_id for post in posts), *changes.deleted]
    return Reading(
        channel_id=channel.id,
        posts=posts,
        proven=Coverage.of_ids(ids),
        newest_id=max(ids, default=0),
        reached_end=False,
        asked_at=asked_at,
        pts=changes.pts,
    )
