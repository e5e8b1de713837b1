"""The door to a remote model: how many at once, how often again, when to leave it alone, when a person has to act."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from telegram_assistant.domain.retries import Backoff
from telegram_assistant.errors import AssistantError, Reject, Retry
from telegram_assistant.log import get_logger
from telegram_assistant.metrics import AI_BLOCKED, AI_RUBBISH

Result = TypeVar("Result")
SAME_INPUT = 2
IN_VAIN = 2  # attempts, one after the other or side by side: one alone proves little
IN_VAIN_SECONDS = 60.0  # from the first of them on; a server that hangs fails seldom, and is told all the same
UNUSED_SECONDS = 900.0  # what was asked no more for so long is told no more
_logger = get_logger(__name__)


class Kind(StrEnum):
    """What is wrong with a request."""

    DOWN = "down"  # no connection, too slow, 5xx, an answer that is none: another attempt may succeed
    LIMITED = "limited"  # 429: the server names a time, or not
    BLOCKED = "blocked"  # the key, the account or the model: only a person can change it
    REFUSED = "refused"  # this very input is not wanted
    RUBBISH = "rubbish"  # answered, but with what cannot be used: no such form, vectors of zeros


class Trouble(Exception):
    """A provider's failure, already sorted; the gate makes Retry or Reject of it."""

    def __init__(self, kind: Kind, message: str, *, after: float | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.after = after


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLimits:
    """How much is tried before the work is handed back."""

    concurrency: int = 4
    attempts: int = 3
    backoff: Backoff = Backoff(base=0.5, cap=8.0)  # noqa: RUF009 - frozen
    waits_here: float = 5.0  # seconds: a longer Retry-After is left to the caller
    failures: int = 5  # in a row, before the door is shut
    shut: float = 30.0
    longest_shut: float = 600.0
    blocked: float = 300.0  # seconds until a blocked model is asked again


_UNTIL: ContextVar[float | None] = ContextVar("until", default=None)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """All that is asked of models inside has this time together, repetitions and waiting for a place included."""
    token = _UNTIL.set(asyncio.get_running_loop().time() + seconds)
    try:
        yield
    finally:
        _UNTIL.reset(token)


class Gate:
    """One for each provider and ability, shared by all callers."""

    def __init__(
        self, provider: str, ability: str, limits: CallLimits, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._name = (provider, ability)
        self._limits = limits
        self._clock = clock
        self._places = asyncio.Semaphore(limits.concurrency)
        self._failures = 0  # in a row
        self._failing_since = 0.0
        self._vain = 0  # attempts since the last answer
        self._vain_since = self._vain_at = 0.0  # when the first of them began, when the last ended
        self._vain_reason = ""
        self._probes = 0  # in vain, since it was opened again
        self._times_shut = 0
        self._opens_at = 0.0
        self._reason = ""
        self._probing = False
        self._blocked = False

    @property
    def trouble(self) -> str | None:
        """Why the model is not asked now, or asked in vain, and for how long it has been so; None while all is well."""
        reason, since, now = self._reason, self._failing_since, self._clock()
        if self._asked_in_vain(now):
            reason, since = reason or self._vain_reason, self._vain_since
        return f"{reason} (for {(now - since) / 60:.0f} min)" if reason else None

    def _asked_in_vain(self, now: float) -> bool:
        lasts, quiet = now - self._vain_since, now - self._vain_at
        return self._vain >= IN_VAIN and lasts >= IN_VAIN_SECONDS and quiet < UNUSED_SECONDS

    @property
    def blocked(self) -> bool:
        """Whether a person has to act."""
        return self._blocked

    async def run(self, request: Callable[[], Awaitable[Result]]) -> Result:
        """The request's result. Raises Retry or Reject."""
        self._check_open()
        try:
            async with asyncio.timeout_at(_UNTIL.get()), self._places:
                self._check_open()
                probe = self._probing = bool(self._reason)
                try:
                    return await self._attempts(request)
                finally:
                    if probe:
                        self._probing = False
        except TimeoutError as exc:
            raise self._given_up(Trouble(Kind.DOWN, "no answer in the time that there was for it")) from exc

    async def _attempts(self, request: Callable[[], Awaitable[Result]]) -> Result:
        attempt = 1
        while True:
            began = self._clock()
            try:
                result = await request()
            except Trouble as trouble:
                self._note(trouble, began)
                wait = self._wait_after(trouble, attempt)
                if wait is None:
                    # In one line: a model that is away or speaks nonsense is no bug of ours, and needs no traceback.
                    raise self._given_up(trouble) from None
                await asyncio.sleep(wait)
                attempt += 1
            else:
                self._succeeded()
                return result

    def _wait_after(self, trouble: Trouble, attempt: int) -> float | None:
        """Seconds until the next attempt here, or None."""
        if attempt >= self._limits.attempts or trouble.kind not in {Kind.DOWN, Kind.LIMITED}:
            return None
        wait = self._limits.backoff.delay(attempt) if trouble.after is None else trouble.after
        return wait if wait <= self._limits.waits_here or trouble.after is None else None

    def _note(self, trouble: Trouble, began: float) -> None:
        """An attempt of three may take minutes, and five failures in a row a quarter of an hour."""
        if trouble.kind is Kind.DOWN:
            self._vain_since, self._vain_at = self._vain_since if self._vain else began, self._clock()
            self._vain += 1
            self._vain_reason = f"{self._name[0]}, {self._name[1]}: {trouble}"

    def _given_up(self, trouble: Trouble) -> AssistantError:
        message = f"{self._name[0]}, {self._name[1]}: {trouble}"
        match trouble.kind:
            case Kind.REFUSED:
                self._succeeded()  # it is there, and it answers others
                return Reject(message)
            case Kind.RUBBISH:
                return self._rubbish(message)
            case Kind.BLOCKED:
                message = f"a person has to act: {message}"
                self._set_blocked(now=True)
                self._fails()
                self._shut(message, self._limits.blocked)
            case Kind.LIMITED:
                self._fails()
                self._shut(message, trouble.after or self._limits.backoff.cap)
            case _:
                self._failed(message)
        return Retry(message, after=self._remaining() or trouble.after)

    def _rubbish(self, message: str) -> Retry:
        """The input's fault while others are answered: then its attempts are counted. Else the model's, and it waits.

        Two in a row may be the same input, first among others and then alone. One that is always answered so must not
        keep the door shut for the rest: several are let in before it is shut again.
        """
        AI_RUBBISH.labels(*self._name).inc()
        own = self._failures < SAME_INPUT and not self._reason
        self._failed(f"it answers rubbish: {message}", probes=self._limits.failures)
        return Retry(message, own=True) if own else Retry(message, after=self._remaining() or self._limits.shut)

    def _check_open(self) -> None:
        if (remaining := self._remaining()) > 0:
            raise Retry(self._reason, after=remaining)
        if self._reason and self._probing:
            raise Retry(f"{self._reason}; it is being tried again just now", after=self._limits.backoff.cap)

    def _remaining(self) -> float:
        return max(0.0, self._opens_at - self._clock())

    def _succeeded(self) -> None:
        if self._reason:
            _logger.info("a model answers again", provider=self._name[0], ability=self._name[1])
        self._failures = self._times_shut = self._probes = self._vain = 0
        self._reason, self._opens_at = "", 0.0
        self._set_blocked(now=False)

    def _fails(self) -> None:
        if not self._failures:
            self._failing_since = self._clock()
        self._failures += 1

    def _failed(self, message: str, probes: int = 1) -> None:
        self._fails()
        self._probes += bool(self._reason)
        if self._probes >= probes if self._reason else self._failures >= self._limits.failures:
            seconds = min(self._limits.longest_shut, self._limits.shut * 2**self._times_shut)
            self._times_shut += 1
            self._shut(message, seconds)

    def _shut(self, message: str, seconds: float) -> None:
        self._probes = 0
        self._reason, self._opens_at = message, self._clock() + seconds
        _logger.warning("a model is left alone for a while", reason=message, seconds=seconds)

    def _set_blocked(self, *, now: bool) -> None:
        self._blocked = now
        AI_BLOCKED.labels(*self._name).set(now)
