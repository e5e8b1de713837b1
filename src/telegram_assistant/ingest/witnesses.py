"""Two witnesses: a channel that an account reads is compared, by id and on a sample, with its public preview.

What differs is kept with both texts and shown until an admin has seen it; which of the two is right is not decided
here. A page that is refused, missing, or of a soft ban proves nothing: only the widget of a post, with a canary
before and after, says that it is not there. One channel at a time, each rarely, within the site's own pace.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Protocol

from telegram_assistant.bus.supervisor import Task
from telegram_assistant.domain.accounts import Priority
from telegram_assistant.domain.source import Source, SourceError
from telegram_assistant.domain.witnesses import Difference, Told, differences
from telegram_assistant.errors import Skip
from telegram_assistant.ingest.origins import Readers
from telegram_assistant.log import get_logger
from telegram_assistant.metrics import WITNESS_DIFFERENCES, WITNESS_IDS, WITNESS_UNSEEN
from telegram_assistant.stores.postgres.audits import Audits
from telegram_assistant.stores.postgres.channels import Channel, Channels
from telegram_assistant.stores.postgres.witnesses import Witnesses

SAMPLE = 10  # ids of a channel, and what else is in their albums
PAUSE_SECONDS = 30.0  # between two channels

log = get_logger(__name__)


class Accounts(Readers, Protocol):
    """The first witness."""

    async def active(self) -> list[str]: ...


class Previews(Protocol):
    """The second one."""

    @property
    def closed_for(self) -> float:
        """Seconds for which the site is left alone."""
        ...

    def witness(self, channel: Channel) -> Source:
        """Its preview, also where an account reads the channel."""
        ...


class Comparison:
    """A supervised job, shared by all processes: each channel is taken by one."""

    def __init__(
        self,
        channels: Channels,
        witnesses: Witnesses,
        audits: Audits,
        accounts: Accounts,
        previews: Previews,
        *,
        again: timedelta,
        clock: Callable[[], datetime],
    ) -> None:
        self._channels = channels
        self._witnesses = witnesses
        self._audits = audits
        self._accounts = accounts
        self._previews = previews
        self._again = again
        self._clock = clock

    async def run(self, task: Task) -> None:
        task.ready()
        while True:
            await self.step()
            WITNESS_UNSEEN.set(await self._witnesses.unseen())
            task.progress()
            await asyncio.sleep(PAUSE_SECONDS)

    async def step(self) -> bool:
        """Compare the next channel; False when none has its turn."""
        if self._previews.closed_for:
            return False
        taken = await self._witnesses.take(self._clock(), self._again, await self._accounts.active())
        channel = None if taken is None else await self._channels.get(taken)
        if channel is None:
            return False
        try:
            await self.compare(channel)
        except (SourceError, Skip) as exc:
            log.info("witness_silent", channel=channel.shown, reason=str(exc))
        return True

    async def compare(self, channel: Channel) -> list[Difference]:
        """What is new. Raises SourceError when one of the two says nothing: then nothing is known."""
        chosen = await self._audits.sample(channel.id, SAMPLE)
        ids = await self._witnesses.with_albums(channel.id, chosen)
        if not ids:
            return []
        account = await self._accounts.reader(channel, priority=Priority.BACKFILL)
        told: Told = await account.by_ids(ids)
        shown: Told = await self._previews.witness(channel).by_ids(ids)
        found = list(differences(told, shown, self._clock()))
        if found:  # it may have changed between the two questions: only what the account tells again counts
            told = {**told, **await account.by_ids(ids)}
            found = [one for one in differences(told, shown, self._clock()) if one in found]
        compared = told.keys() & shown.keys()
        WITNESS_IDS.inc(len(compared))
        new = await self._witnesses.record(channel.id, compared, found, self._clock())
        for one in new:
            WITNESS_DIFFERENCES.labels(one.kind.value).inc()
            log.warning("witnesses_differ", channel=channel.shown, message=one.message_id, kind=one.kind.value)
        return new
