"""Turns requests into channels. What @name is, an account is asked once, because Telegram limits it hardest."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import monotonic
from weakref import WeakValueDictionary

from telegram_assistant.bus.supervisor import Task
from telegram_assistant.domain.channel import ChannelRef, parse_ref
from telegram_assistant.domain.retries import Failure
from telegram_assistant.domain.source import ChannelInfo, ReadElsewhere, SourceError
from telegram_assistant.ingest.account_in_use import Connection
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
            if not await self._fulfil(request):
                break
        return len(taken)

    async def _fulfil(self, request: Request) -> bool:
        """False: Telegram wants us to wait, and with all other names, too."""
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
            flooded = exc.failure is Failure.FLOOD and request.reference.startswith("@")
            if flooded:
                await self._requests.put_off_names(str(exc), until=self._clock() + delay)
            return not flooded
        self._due.set()
        log.info("channel_added", reference=request.reference, channel=info.title)
        return True


FOUND_SECONDS = 600.0  # until then the caller has stored the answer
MISSING_SECONDS = 600.0
MANY = 4000


@dataclass(frozen=True, slots=True)
class _Answer:
    """A channel, or why there is none."""

    until: float
    info: ChannelInfo | None
    error: str = ""


class Directory:
    """Remembers answers for some minutes, and lets only one of those who ask for the same go and ask."""

    def __init__(self, ticks: Callable[[], float] = monotonic) -> None:
        self._ticks = ticks
        self._answers: dict[tuple[str, ChannelRef], _Answer] = {}
        self._asking: WeakValueDictionary[tuple[str, ChannelRef], asyncio.Lock] = WeakValueDictionary()

    async def look_up(self, account: Connection, ref: ChannelRef) -> ChannelInfo:
        """The channel as this account sees it. Raises SourceError, for a while without asking again when it is gone."""
        key = (account.account_id, ref)
        lock = self._asking.get(key)
        if lock is None:
            lock = self._asking[key] = asyncio.Lock()
        async with lock:
            answer = self._known(key)
            if answer is None:
                answer = await self._ask(account, ref)
                self._remember(key, answer)
        if answer.info is None:
            raise SourceError(Failure.GONE, answer.error)
        return answer.info

    def learn(self, account_id: str, info: ChannelInfo) -> None:
        """A list has told of this channel: who asks for it next need not ask Telegram."""
        answer = _Answer(self._ticks() + FOUND_SECONDS, info)
        self._remember((account_id, ChannelRef(channel_id=info.id)), answer)
        if info.username:
            self._remember((account_id, ChannelRef(username=info.username)), answer)

    def knows(self, account_id: str, ref: ChannelRef) -> bool:
        return self._known((account_id, ref)) is not None

    def forget(self, account_id: str, ref: ChannelRef) -> None:
        """The answer proved wrong."""
        self._answers.pop((account_id, ref), None)

    async def _ask(self, account: Connection, ref: ChannelRef) -> _Answer:
        try:
            info = await account.resolve(ref)
        except SourceError as exc:
            if exc.failure is not Failure.GONE:
                raise  # of the account or of the moment, not of the name
            return _Answer(self._ticks() + MISSING_SECONDS, None, str(exc))
        return _Answer(self._ticks() + FOUND_SECONDS, info)

    def _known(self, key: tuple[str, ChannelRef]) -> _Answer | None:
        answer = self._answers.get(key) or self._answers.get((_ANYBODY, key[1]))
        return answer if answer is not None and answer.until > self._ticks() else None

    def _remember(self, key: tuple[str, ChannelRef], answer: _Answer) -> None:
        if len(self._answers) >= MANY:
            now = self._ticks()
            self._answers = {known: old for known, old in self._answers.items() if old.until > now}
        # Hashes differ between accounts; that a name does not exist is true for all of them.
        self._answers[(_ANYBODY, key[1]) if answer.info is None else key] = answer


_ANYBODY = ""
