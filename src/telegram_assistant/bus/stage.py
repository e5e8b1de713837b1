"""A stage: functions over batches of events, one for each event that it reads (SPEC 4). The loop is in `consumer`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar
from weakref import WeakValueDictionary

from structlog.contextvars import bound_contextvars

from telegram_assistant.domain.events import Event
from telegram_assistant.errors import Reject, Retry, Skip


@dataclass(frozen=True, slots=True)
class Done:
    """An event was dealt with; `events` are published, `note` is what a trace says of it."""

    events: tuple[Event, ...] = ()
    note: str = ""
    again: Retry | None = None  # a part of it is still to be done, later


# Four words for how one event ended. Fatal and unforeseen errors are raised.
Outcome: TypeAlias = Done | Retry | Skip | Reject
Handler: TypeAlias = Callable[[Sequence[Any]], Awaitable[Sequence[Outcome]]]


E = TypeVar("E", bound=Event)


async def each(events: Sequence[E], work: Callable[[E], Awaitable[Done]], *, at_once: int) -> list[Outcome]:
    """For stages that deal with one event after the other: what one raises is its own outcome."""
    places = asyncio.Semaphore(at_once)

    async def outcome(event: E) -> Outcome:
        async with places:
            try:
                with bound_contextvars(trace_id=event.trace_id):  # for what is logged on the way
                    return await work(event)
            except (Retry, Skip, Reject) as exc:
                return exc

    return await asyncio.gather(*(outcome(event) for event in events))


@dataclass(frozen=True, kw_only=True)
class Stage:
    """What the loop needs to know. A handler gives one outcome for each event, in their order."""

    name: str
    handlers: Mapping[str, Handler]  # by the name of the event
    batch: int = 100  # events at once
    concurrency: int = 2  # batches at once
    attempts: int = 6  # of one event, before it goes to the dead letters
    first_delay: float = 1.0  # seconds before the second attempt; each further one waits four times as long
    longest_delay: float = 900.0

    def delay(self, attempts: int) -> float:
        return min(self.first_delay * 4.0 ** (attempts - 1), self.longest_delay)


class KeyedLocks:
    """A lock for each name, kept while it is held or awaited."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def lock(self, name: str) -> asyncio.Lock:
        return self._locks.setdefault(name, asyncio.Lock())
