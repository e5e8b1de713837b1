"""The door to a remote model: how many at once, how often again, when to leave it alone, when a person has to act."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from telegram_assistant.domain.retries import Backoff
from telegram_assistant.errors import AssistantError, Reject, Retry
from telegram_assistant.log import get_logger
from telegram_assistant.metrics import AI_BLOCKED

Result = TypeVar("Result")
_logger = get_logger(__name__)


class Kind(StrEnum):
    """What is wrong with a request."""

    DOWN = "down"  # no connection, too slow, 5xx, an answer that is none: another attempt may succeed
    LIMITED = "limited"  # 429: the server names a time, or not
    BLOCKED = "blocked"  # the key, the account or the model: only a person can change it
    REFUSED = "refused"  # this very input is not wanted
    MALFORMED = "malformed"  # answered, twice, but not in the form that was asked for


class Trouble(Exception):
    """A provider's failure, already sorted; the gate makes Retry or Reject of it."""

    def __init__(self, kind: Kind, message: str, *, after: float | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.after = after


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How much is tried before the work is handed back."""

    concurrency: int = 4
    attempts: int = 3
    backoff: Backoff = Backoff(base=0.5, cap=8.0)  # noqa: RUF009 - frozen
    waits_here: float = 5.0  # seconds: a longer Retry-After is left to the caller
    failures: int = 5  # in a row, before the door is shut
    shut: float = 30.0
    longest_shut: float = 600.0
    blocked: float = 300.0  # seconds until a blocked model is asked again


class Gate:
    """One for each provider and ability, shared by all callers."""

    def __init__(
        self, provider: str, ability: str, patience: Patience, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._name = (provider, ability)
        self._patience = patience
        self._clock = clock
        self._places = asyncio.Semaphore(patience.concurrency)
        self._failures = 0
        self._times_shut = 0
        self._opens_at = 0.0
        self._reason = ""
        self._probing = False
        self._blocked = False

    @property
    def trouble(self) -> str | None:
        """Why the model is not asked now; None while all is well."""
        return self._reason or None

    @property
    def blocked(self) -> bool:
        """Whether a person has to act."""
        return self._blocked

    async def run(self, request: Callable[[], Awaitable[Result]]) -> Result:
        """The request's result. Raises Retry or Reject."""
        self._check_open()
        async with self._places:
            self._check_open()
            probe = self._probing = bool(self._reason)
            try:
                return await self._attempts(request)
            finally:
                if probe:
                    self._probing = False

    async def _attempts(self, request: Callable[[], Awaitable[Result]]) -> Result:
        attempt = 1
        while True:
            try:
                result = await request()
            except Trouble as trouble:
                wait = self._wait_after(trouble, attempt)
                if wait is None:
                    raise self._given_up(trouble) from trouble
                await asyncio.sleep(wait)
                attempt += 1
            else:
                self._succeeded()
                return result

    def _wait_after(self, trouble: Trouble, attempt: int) -> float | None:
        """Seconds until the next attempt here, or None."""
        if attempt >= self._patience.attempts or trouble.kind not in {Kind.DOWN, Kind.LIMITED}:
            return None
        wait = self._patience.backoff.delay(attempt) if trouble.after is None else trouble.after
        return wait if wait <= self._patience.waits_here or trouble.after is None else None

    def _given_up(self, trouble: Trouble) -> AssistantError:
        message = f"{self._name[0]}, {self._name[1]}: {trouble}"
        match trouble.kind:
            case Kind.REFUSED:
                self._succeeded()  # it is there, and it answers others
                return Reject(message)
            case Kind.MALFORMED:
                self._failed(message)  # when all answers are so, the model is not fit for this, and posts should wait
                return Reject(message)
            case Kind.BLOCKED:
                message = f"a person has to act: {message}"
                self._set_blocked(now=True)
                self._shut(message, self._patience.blocked)
            case Kind.LIMITED:
                self._shut(message, trouble.after or self._patience.backoff.cap)
            case _:
                self._failed(message)
        return Retry(message, after=self._remaining() or trouble.after)

    def _check_open(self) -> None:
        if (remaining := self._remaining()) > 0:
            raise Retry(self._reason, after=remaining)
        if self._reason and self._probing:
            raise Retry(f"{self._reason}; it is being tried again just now", after=self._patience.backoff.cap)

    def _remaining(self) -> float:
        return max(0.0, self._opens_at - self._clock())

    def _succeeded(self) -> None:
        if self._reason:
            _logger.info("a model answers again", provider=self._name[0], ability=self._name[1])
        self._failures = self._times_shut = 0
        self._reason, self._opens_at = "", 0.0
        self._set_blocked(now=False)

    def _failed(self, message: str) -> None:
        self._failures += 1
        if self._failures >= self._patience.failures or self._reason:
            seconds = min(self._patience.longest_shut, self._patience.shut * 2**self._times_shut)
            self._times_shut += 1
            self._shut(message, seconds)

    def _shut(self, message: str, seconds: float) -> None:
        self._reason, self._opens_at = message, self._clock() + seconds
        _logger.warning("a model is left alone for a while", reason=message, seconds=seconds)

    def _set_blocked(self, *, now: bool) -> None:
        self._blocked = now
        AI_BLOCKED.labels(*self._name).set(now)
