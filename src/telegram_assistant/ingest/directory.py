"""What accounts were told about usernames and invites: each is asked for once, because Telegram limits it hardest."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from weakref import WeakValueDictionary

from telegram_assistant.domain.channel import ChannelRef
from telegram_assistant.domain.retries import Failure
from telegram_assistant.domain.source import ChannelInfo, SourceError
from telegram_assistant.ingest.seats import Connection

FOUND_SECONDS = 600.0  # until then the caller has stored the answer
MISSING_SECONDS = 600.0
MANY = 1000


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
