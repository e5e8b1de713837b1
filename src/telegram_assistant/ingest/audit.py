"""The audit: read known ids again and compare. What disagrees is repaired, counted and shown.

The proof says what should be true; the audit looks whether it is. Half of it goes through the ids that are said to be
empty, in turn: a post that shows too late for any visit to read its place again is found there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from random import Random

from telegram_assistant.bus.supervisor import Task
from telegram_assistant.domain.audit import next_ids, sample_ids, stride
from telegram_assistant.domain.ledger import Coverage, LedgerState
from telegram_assistant.domain.pacing import Priority
from telegram_assistant.errors import Skip
from telegram_assistant.ingest.saver import Saver
from telegram_assistant.ingest.second_look import look_at
from telegram_assistant.ingest.source import PAGE_LIMIT, SourceError
from telegram_assistant.ingest.visits import Accounts
from telegram_assistant.log import get_logger
from telegram_assistant.metrics import AUDIT_DISAGREEMENTS, AUDITED_IDS
from telegram_assistant.stores.postgres.channels import Channel, Channels

SAMPLE = PAGE_LIMIT  # one request
PAUSE_SECONDS = 1.0  # between channels: an audit is never urgent

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Finding:
    """What an audit of one channel found. Everything counted here is repaired already."""

    audited: int
    missing: int  # was there and not stored
    edited: int
    deleted: int

    @property
    def disagreements(self) -> int:
        return self.missing + self.edited + self.deleted


class Auditor:
    """A supervised job, every few hours over all channels; and one channel on demand."""

    def __init__(
        self,
        channels: Channels,
        saver: Saver,
        accounts: Accounts,
        *,
        every_seconds: float,
        clock: Callable[[], datetime],
        rng: Random | None = None,
    ) -> None:
        self._channels = channels
        self._saver = saver
        self._accounts = accounts
        self._every_seconds = every_seconds
        self._clock = clock
        self._rng = rng or Random()  # noqa: S311 - a sample, no secret
        self._reached: dict[int, int] = {}  # by channel, the id up to which the empty ones were gone through

    async def run(self, task: Task) -> None:
        task.ready()
        while True:
            await asyncio.sleep(self._every_seconds)
            for channel in await self._channels.all():
                if channel.status == "active":
                    await self._audit_calmly(channel)
                    await asyncio.sleep(PAUSE_SECONDS)
                task.progress()

    async def audit(self, channel: Channel) -> Finding:
        """Read a sample again; the saver finds and repairs what differs, as with any reading."""
        ledger = await self._channels.ledger(channel.id)
        empty = await self._next_empty(channel.id, ledger)
        others = ledger.coverage.subtract(Coverage.of_ids(empty))
        ids = [*empty, *sample_ids(others, ledger.newest_id, SAMPLE - len(empty), self._rng)]
        if not ids:
            return Finding(0, 0, 0, 0)
        source, peer = await self._accounts.reader(channel, priority=Priority.BACKFILL)
        told, saved = await look_at(self._saver, source, peer, ids, clock=self._clock, before_page=_go_on)
        finding = Finding(told, len(saved.new) + len(saved.restored), len(saved.edited), len(saved.deleted))
        AUDITED_IDS.inc(finding.audited)
        for kind in ("missing", "edited", "deleted"):
            AUDIT_DISAGREEMENTS.labels(kind).inc(getattr(finding, kind))
        level = log.warning if finding.missing else log.info
        level("audited", channel=channel.shown, ids=finding.audited, disagreements=finding.disagreements)
        return finding

    async def _next_empty(self, channel_id: int, ledger: LedgerState) -> list[int]:
        """The next ids that hold nothing. A process that starts begins anywhere, so that all get their turn."""
        reached = self._reached.get(channel_id, self._rng.randint(0, max(0, ledger.newest_id)))
        ahead = stride(ledger.coverage, ledger.newest_id, reached)
        empty = next_ids(await self._saver.empty_of(channel_id, ahead), reached, SAMPLE // 2)
        if len(empty) == SAMPLE // 2:
            self._reached[channel_id] = empty[-1]
        elif not ahead.is_empty:
            self._reached[channel_id] = ahead.ranges[-1][1] - 1
        return empty

    async def _audit_calmly(self, channel: Channel) -> None:
        try:
            await self.audit(channel)
        except (SourceError, Skip) as exc:
            log.warning("audit_failed", channel=channel.shown, reason=str(exc))


async def _go_on() -> None:
    """One request: there is no lease to keep."""
