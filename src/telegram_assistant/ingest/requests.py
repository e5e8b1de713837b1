"""Turns wishes into channels: asks Telegram once what @name is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

from telegram_assistant.bus.supervisor import Task
from telegram_assistant.domain.channel import parse_ref
from telegram_assistant.domain.retries import Failure
from telegram_assistant.domain.source import ReadElsewhere, SourceError
from telegram_assistant.ingest.origins import Finder
from telegram_assistant.log import get_logger
from telegram_assistant.stores.postgres.watched_channels import Request, Requests

HOLD = timedelta(minutes=2)
IDLE_SECONDS = 1.0
FIRST_DELAY = timedelta(minutes=1)
LONGEST_DELAY = timedelta(hours=6)
NO_SUCH_NAME = timedelta(days=1)  # it may be taken one day, and asking is limited hard

log = get_logger(__name__)


class ChannelRequests:
    """A supervised job beside the visits."""

    def __init__(
        self,
        requests: Requests,
        origins: Finder,
        *,
        clock: Callable[[], datetime],
        due: asyncio.Event,
    ) -> None:
        self._requests = requests
        self._origins = origins
        self._clock = clock
        self._due = due
        self._elsewhere: dict[int, datetime] = {}  # wishes left to other processes, and until when

    async def run(self, task: Task) -> None:
        task.ready()
        while True:
            await self.step()
            task.progress()
            await asyncio.sleep(IDLE_SECONDS)

    async def step(self) -> int:
        reach = await self._origins.reach()
        if reach is not None and reach.stands_by:
            return 0  # those who have an account ask
        now = self._clock()
        self._elsewhere = {number: until for number, until in self._elsewhere.items() if until > now}
        taken = await self._requests.take(now=now, hold=HOLD, limit=10, without=self._elsewhere)
        for request in taken:
            await self._fulfil(request)
        return len(taken)

    async def _fulfil(self, request: Request) -> None:
        try:
            account_id, info = await self._origins.resolve(parse_ref(request.reference), request.tenant_id)
            await self._requests.fulfil(request, info, account_id, self._clock())
        except SourceError as exc:
            delay = min(FIRST_DELAY * 2 ** min(request.attempts, 16), LONGEST_DELAY)
            if isinstance(exc, ReadElsewhere):
                self._elsewhere[request.id] = self._clock() + delay
                delay = timedelta(0)  # the process that has a fitting account takes it at once
            elif exc.failure is Failure.FLOOD:
                delay = timedelta(seconds=(exc.flood_seconds or 0) + 1)
            elif exc.failure is Failure.TRANSIENT:
                delay = timedelta(seconds=min(2**request.attempts, 60))
            elif exc.failure is Failure.GONE:
                delay = NO_SUCH_NAME
            log.warning("channel_request_failed", reference=request.reference, reason=str(exc))
            await self._requests.fail(request, str(exc), next_attempt_at=self._clock() + delay)
            return
        self._due.set()
        log.info("channel_added", reference=request.reference, channel=info.title)
