"""The one loop that every stage runs in: reads in batches, takes over from the dead, tries again, acknowledges last.

Nothing here knows what a stage does. An engine that is away ends the loop, which the supervisor starts again: what was
read and not acknowledged is read again first.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, cast

import msgspec
from redis.asyncio import Redis
from redis.asyncio.client import Pipeline
from redis.exceptions import RedisError

from telegram_assistant.bus.commit import BatchCommit, Handled
from telegram_assistant.bus.retry_queue import RetryQueue, Waiting
from telegram_assistant.bus.stage import Outcome, Stage
from telegram_assistant.bus.streams import FIELD, decode, leave, make_group
from telegram_assistant.bus.supervisor import Task, heed_stop
from telegram_assistant.bus.tracing import TRACES
from telegram_assistant.domain.events import EVENTS, DeadLetter, Event, Letters, StepLog
from telegram_assistant.errors import Fatal, Reject, Retry, Skip, in_words
from telegram_assistant.freshness import Freshness
from telegram_assistant.log import get_logger
from telegram_assistant.metrics import STAGE_DURATION
from telegram_assistant.names import stream
from telegram_assistant.stores.outage import is_outage

BLOCK_MS = 1000  # shorter than the client's socket timeout
NEWER_SECONDS = 60.0
AWAY_SECONDS = 10.0
PUT_OFF_SECONDS = 300.0  # who asks for more than this is not away: a budget is used up until midnight, say
MOST_DELIVERIES = 4  # of an entry or event whose handling ends the process

log = get_logger(__name__)


class Away(Retry):
    """Something that the stage needs does not answer: no event of it can be handled now."""


class Unforeseen(Retry):
    """An event ended with an unforeseen error."""


class _Envelope(msgspec.Struct):
    idempotency_key: str


@dataclass(frozen=True, slots=True)
class Delivery:
    """Entries of one stream that came together."""

    event: str
    entries: tuple[tuple[str, str], ...]  # id and content


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerTimes:
    """How long the loop waits for what. Tests wait less."""

    block_ms: int = BLOCK_MS
    linger: float = 0.1  # seconds between two reads when little comes: in quick succession it is taken together
    idle_ms: int = 60_000  # an untouched entry of this age belongs to a dead consumer
    beat: float = 15.0  # seconds between signs of life for what is being handled
    lease: float = 120.0  # seconds for which what was taken from the retry queue is left to its taker
    stop: float = 4.0  # seconds that a stop waits for what is being handled; the rest is repeated by another

    @classmethod
    def with_lease(cls, lease: float) -> ConsumerTimes:
        """So many seconds without a sign of life, and what a process was handling goes to another."""
        return cls(idle_ms=int(1000 * lease), beat=lease / 4, lease=2 * lease)


class Consumer:
    """One per stage and process; its name is its process's, and unique."""

    def __init__(
        self,
        redis: Redis,
        stage: Stage,
        *,
        name: str,
        letters: Letters | None = None,
        steps: StepLog | None = None,
        times: ConsumerTimes | None = None,
        freshness: Freshness | None = None,
    ) -> None:
        self._freshness = freshness or Freshness()
        self._redis = redis
        self._stage = stage
        self._name = name
        self._times = times or ConsumerTimes()
        self._queue = RetryQueue(redis, stage.name, lease=self._times.lease)
        self._commit = BatchCommit(redis, stage, self._queue, letters, steps)
        self._entries = 1  # read at once
        self._progress: Callable[[], None] = lambda: None
        self._flying: dict[str, set[str]] = {event: set() for event in stage.handlers}
        self._held: set[str] = set()  # taken from the retry queue
        self._odd: set[str] = set()  # keys of some that failed with unforeseen errors, since the last that did not

    async def run(self, task: Task) -> None:
        """A supervised job. Stopping finishes what is under way, and leaves the rest to others."""
        for event in self._stage.handlers:
            await make_group(self._redis, event, self._stage.name)
        task.ready()
        self._progress = task.progress
        work: set[asyncio.Future[None]] = set()
        beating = asyncio.ensure_future(self._beat())
        blameless = False  # what is under way when the loop ends
        try:
            await self._own_pending()
            await self._read(work)
        except asyncio.CancelledError:
            blameless = True
            if work:
                await asyncio.wait(work, timeout=self._times.stop)
            raise
        except Exception as exc:
            blameless = is_outage(exc)
            raise
        finally:
            beating.cancel()
            for one in work:
                one.cancel()
            await asyncio.gather(beating, *work, return_exceptions=True)
            if blameless and self._held:
                with suppress(RedisError, OSError):  # then their lease ends by itself
                    await self._queue.give_back(list(self._held), time.time())
            self._held.clear()
            for ids in self._flying.values():
                ids.clear()

    async def close(self) -> None:
        """After a clean stop the name is not needed any more."""
        await leave(self._redis, self._stage.handlers, self._stage.name, self._name)

    async def _read(self, work: set[asyncio.Future[None]]) -> None:
        claimed = lingered = -float("inf")
        while True:
            if time.monotonic() - claimed > self._times.idle_ms / 2000:
                claimed = time.monotonic()
                await self._claim(work)
            await self._room_for_more(work)
            self._progress()
            waiting = await self._queue.take(time.time(), self._stage.batch)
            if waiting:  # by turns with what is new: neither keeps the other waiting
                self._start(work, self._again(waiting))
            else:
                await asyncio.sleep(max(0.0, lingered + self._times.linger - time.monotonic()))
            deliveries = await self._next(">", block=not waiting)
            if all(len(delivery.entries) < self._entries for delivery in deliveries):
                lingered = time.monotonic()
            for delivery in deliveries:
                self._flying[delivery.event].update(id_ for id_, _ in delivery.entries)
            for delivery in deliveries:
                await self._room_for_more(work)
                self._start(work, self._handle(delivery))

    async def _next(self, after: str, *, block: bool = True) -> list[Delivery]:
        streams: dict[Any, Any] = {stream(event): after for event in self._stage.handlers}
        answer = await self._redis.xreadgroup(
            self._stage.name, self._name, streams, count=self._entries, block=self._times.block_ms if block else None
        )
        names = {stream(event): event for event in self._stage.handlers}
        deliveries = []
        for name, entries in cast("list[Any]", answer or []):
            kept = await self._readable(names[name], entries)
            if kept:
                deliveries.append(Delivery(names[name], kept))
        return deliveries

    async def _readable(self, event: str, entries: Sequence[tuple[str, dict[str, str]]]) -> tuple[tuple[str, str], ...]:
        """Those with events in them. Of one that was trimmed meanwhile nothing is left; one that never was ours goes to
        the dead letters as it came. Neither may stay pending."""
        trimmed = [id_ for id_, fields in entries if not fields]
        foreign = [(id_, fields) for id_, fields in entries if fields and FIELD not in fields]
        reason = f"the entry has no field {FIELD!r}"
        await self._commit.bury(
            [self._unreadable(event, id_, msgspec.json.encode(fields).decode(), reason) for id_, fields in foreign]
        )
        if odd := [*trimmed, *(id_ for id_, _ in foreign)]:
            await self._redis.xack(stream(event), self._stage.name, *odd)
        return tuple((id_, fields[FIELD]) for id_, fields in entries if fields and FIELD in fields)

    async def _own_pending(self) -> None:
        """What this process read before its loop failed."""
        while deliveries := await self._next("0", block=False):
            for delivery in deliveries:
                await self._handle(delivery)

    async def _claim(self, work: set[asyncio.Future[None]]) -> None:
        """Take over what a consumer left that died."""
        for event in self._stage.handlers:
            answer = await self._redis.xautoclaim(
                stream(event), self._stage.name, self._name, min_idle_time=self._times.idle_ms, count=self._entries
            )
            entries = await self._readable(event, answer[1])
            if not entries:
                continue
            log.info("claimed", stage=self._stage.name, entries=len(entries))
            deadly = await self._deadly(event, [id_ for id_, _ in entries])
            rest = tuple(entry for entry in entries if entry[0] not in deadly)
            if rest:
                await self._room_for_more(work)
                self._start(work, self._handle(Delivery(event, rest)))
            if deadly:
                await self._take_apart(Delivery(event, tuple(entry for entry in entries if entry[0] in deadly)))

    async def _deadly(self, event: str, ids: Sequence[str]) -> set[str]:
        """Entries that were delivered so often that one of their events must be ending its process."""
        found = set()
        for id_ in ids:
            for one in await self._redis.xpending_range(stream(event), self._stage.name, min=id_, max=id_, count=1):
                if int(one["times_delivered"]) > MOST_DELIVERIES:
                    found.add(id_)
        return found

    async def _take_apart(self, delivery: Delivery) -> None:
        """Each event waits alone from now on, where it is counted before it is handled."""
        now = time.time()
        async with self._redis.pipeline(transaction=True) as pipe:
            for id_, content in delivery.entries:
                for event in await self._decoded(delivery.event, id_, content):
                    waits = Waiting(
                        event=delivery.event,
                        payload=msgspec.Raw(msgspec.json.encode(event)),
                        key=event.idempotency_key,
                        since=now,
                        reason="handling its batch ended the process",
                    )
                    self._queue.put(pipe, waits, now)
                _ = pipe.xack(stream(delivery.event), self._stage.name, id_)
            await pipe.execute()

    async def _handle(self, delivery: Delivery) -> None:
        ids = [id_ for id_, _ in delivery.entries]
        self._flying[delivery.event].update(ids)
        events = [
            event for id_, content in delivery.entries for event in await self._decoded(delivery.event, id_, content)
        ]
        self._fit(len(ids), len(events))
        handled = await self._handle_events(delivery.event, events, [None] * len(events))
        await self._commit.settle(handled, lambda pipe: self._acknowledge(pipe, delivery.event, ids))
        self._flying[delivery.event].difference_update(ids)

    def _fit(self, entries: int, events: int) -> None:
        """Read as many entries as make a batch: one holds a single live post, or a hundred of a backfill."""
        fitting = self._stage.batch * entries // max(1, events)
        self._entries = max(1, min(fitting, 2 * self._entries, self._stage.batch))

    async def _again(self, waiting: Sequence[tuple[Waiting, int]]) -> None:
        ids = [one.id for one, _ in waiting]
        self._held.update(ids)
        dead: list[DeadLetter] = []
        newer: list[Waiting] = []
        readable: dict[str, list[tuple[Waiting, Event]]] = {name: [] for name in self._stage.handlers}
        for one, taken in waiting:
            if taken > MOST_DELIVERIES:
                dead.append(self._deadly_letter(one, taken))
                continue
            try:
                event = self._waiting_event(one)
            except Reject as exc:
                dead.append(self._unreadable(one.event, one.key, _text(one.payload), str(exc)))
            except Retry:
                newer.append(one)
            else:
                readable[one.event].append((one, event))
        await self._commit.bury(dead)
        handled: list[Handled] = []
        for name, some in readable.items():
            handled += await self._handle_events(name, [event for _, event in some], [one for one, _ in some])
        await self._commit.settle(handled, lambda pipe: self._let_go(pipe, ids, newer))

    def _waiting_event(self, one: Waiting) -> Event:
        if one.event not in self._stage.handlers:
            raise Reject(f"{self._stage.name} does not read {one.event}")
        (event,) = decode(EVENTS[one.event], f"[{_text(one.payload)}]")
        return event

    async def _handle_events(
        self, name: str, events: Sequence[Event], before: Sequence[Waiting | None]
    ) -> list[Handled]:
        handled: list[Handled] = []
        for start in range(0, len(events), self._stage.batch):
            chunk = events[start : start + self._stage.batch]
            began = time.perf_counter()
            with self._freshness.trying("stage", self._stage.name) as attempt:
                outcomes = await self._outcomes(name, chunk)
                attempt.error = self._failure(chunk, outcomes)
            seconds = time.perf_counter() - began
            STAGE_DURATION.labels(self._stage.name).observe(seconds)
            TRACES.batch(self._stage.name, name, chunk, outcomes, seconds)
            self._progress()
            share = seconds / len(chunk)
            earlier = before[start : start + self._stage.batch]
            handled += [
                Handled(name, event, outcome, known, share)
                for event, outcome, known in zip(chunk, outcomes, earlier, strict=True)
            ]
        return handled

    def _failure(self, events: Sequence[Event], outcomes: Sequence[Outcome]) -> str | None:
        """What keeps this stage from its work: something is away, or every event fails with an unforeseen error.

        One such event alone proves nothing but that it is odd: it is tried again and buried in the end.
        """
        failures = [one for one in outcomes if isinstance(one, Away)]
        if failures:
            return str(failures[0])
        odd = {
            event.idempotency_key for event, one in zip(events, outcomes, strict=True) if isinstance(one, Unforeseen)
        }
        self._odd = {*self._odd, *odd} if len(odd) == len(events) else set()
        if len(self._odd) <= 1:
            return None
        self._odd = set(sorted(self._odd)[:2])
        return str(outcomes[-1])

    async def _outcomes(self, name: str, events: Sequence[Event]) -> Sequence[Outcome]:
        """An unforeseen error must not spoil the other events: they are handled one by one then.

        A Retry that is raised, not returned, speaks of all of them: something that the stage needs is away, which is
        no event's fault and uses up no attempt. Unless it may be the fault of one among them, which then shows alone.
        """
        try:
            return await self._stage.handlers[name](events)
        except Fatal:
            raise
        except Retry as exc:
            if exc.own:
                return [exc] if len(events) == 1 else await self._one_by_one(name, events)
            after = AWAY_SECONDS if exc.after is None else exc.after
            away = Away(str(exc), after=after) if after < PUT_OFF_SECONDS else Retry(str(exc), after=after)
            away.__cause__ = exc.__cause__
            return [away] * len(events)
        except Exception as exc:
            if is_outage(exc):
                raise
            if len(events) > 1:
                return await self._one_by_one(name, events)
            if isinstance(exc, Skip | Reject):
                return [exc]
            failure = Unforeseen(in_words(exc))
            failure.__cause__ = exc
            return [failure]

    async def _one_by_one(self, name: str, events: Sequence[Event]) -> list[Outcome]:
        return [outcome for event in events for outcome in await self._outcomes(name, [event])]

    async def _decoded(self, event: str, id_: str, content: str) -> list[Event]:
        """What can be read of an entry. One unreadable event does not take its batch with it."""
        try:
            return decode(EVENTS[event], content)
        except Reject as exc:
            parts = _parts(content)
            if len(parts) > 1:
                found = [await self._decoded(event, f"{id_}#{n}", f"[{part}]") for n, part in enumerate(parts)]
                return [one for some in found for one in some]
            await self._commit.bury([self._unreadable(event, id_, content, str(exc))])
        except Retry as exc:
            await self._leave_to_newer(event, content, str(exc))
        return []

    async def _leave_to_newer(self, event: str, content: str, reason: str) -> None:
        """During an upgrade the older process meets events of the newer one, and lets them wait for it."""
        now = time.time()
        log.warning("event_is_newer", stage=self._stage.name, reason=reason)
        async with self._redis.pipeline(transaction=True) as pipe:
            for payload in msgspec.json.decode(content, type=list[msgspec.Raw]):
                key = msgspec.json.decode(payload, type=_Envelope).idempotency_key
                waits = Waiting(event=event, payload=payload, key=key, since=now, reason=reason)
                self._queue.put(pipe, waits, now + NEWER_SECONDS)
            await pipe.execute()

    def _unreadable(self, event: str, id_: str, content: str, reason: str) -> DeadLetter:
        return DeadLetter(
            stage=self._stage.name,
            event=event,
            key=id_,
            payload=content,
            reason=reason,
            traceback=None,
            attempts=1,
            trace_id=None,
            tenant_id=None,
        )

    def _deadly_letter(self, one: Waiting, taken: int) -> DeadLetter:
        reason = f"the process ended each of the {taken - 1} times that it handled this"
        return replace(self._unreadable(one.event, one.key, _text(one.payload), reason), attempts=taken - 1)

    def _let_go(self, pipe: Pipeline, ids: Sequence[str], newer: Sequence[Waiting]) -> None:
        """Before it is written: a sign of life after it would move the time when they are due."""
        self._held.difference_update(ids)
        self._queue.remove(pipe, ids)
        for one in newer:
            self._queue.put(pipe, one, time.time() + NEWER_SECONDS)

    def _acknowledge(self, pipe: Pipeline, event: str, ids: Sequence[str]) -> None:
        _ = pipe.xack(stream(event), self._stage.name, *ids)

    async def _room_for_more(self, work: set[asyncio.Future[None]]) -> None:
        """Wait until another batch may begin; what failed is raised here."""
        while len(work) >= self._stage.concurrency:
            await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
            _collect(work)
        _collect(work)

    def _start(self, work: set[asyncio.Future[None]], coroutine: Coroutine[Any, Any, None]) -> None:
        work.add(asyncio.ensure_future(coroutine))

    async def _beat(self) -> None:
        """Signs of life for what takes long, so that no other consumer takes it over."""
        while True:
            heed_stop()
            await asyncio.sleep(self._times.beat)
            try:
                await self._give_sign()
            except (RedisError, OSError) as exc:  # the next one may be heard; this loop is not started again
                log.warning("no_sign_of_life", stage=self._stage.name, reason=str(exc))

    async def _give_sign(self) -> None:
        for event, ids in self._flying.items():
            if ids:
                await self._redis.xclaim(stream(event), self._stage.name, self._name, 0, list(ids), justid=True)
        if self._held:
            await self._queue.renew(list(self._held), time.time() + self._queue.lease)


def _collect(work: set[asyncio.Future[None]]) -> None:
    for one in [one for one in work if one.done()]:
        work.discard(one)
        one.result()


def _text(payload: msgspec.Raw) -> str:
    return bytes(payload).decode()


def _parts(content: str) -> list[str]:
    try:
        return [_text(part) for part in msgspec.json.decode(content, type=list[msgspec.Raw])]
    except (msgspec.MsgspecError, RecursionError):
        return []
