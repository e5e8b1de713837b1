"""How a batch ends: dead letters and steps are stored first; then, in one transaction of Redis, what came out is
published, what failed waits, and what came in is acknowledged. So a crash repeats work and never loses it (G3)."""

from __future__ import annotations

import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

import msgspec
from redis.asyncio import Redis
from redis.asyncio.client import Pipeline

from telegram_assistant.bus.retry_queue import RetryQueue, Waiting
from telegram_assistant.bus.stage import Done, Outcome, Stage
from telegram_assistant.bus.streams import add_to
from telegram_assistant.domain.events import DeadLetter, Event, Letters, Step, StepLog
from telegram_assistant.errors import Reject, Retry, Skip
from telegram_assistant.log import get_logger
from telegram_assistant.metrics import POSTS_PROCESSED, STAGE_EVENTS

LONGEST_WAIT = 7 * 86_400.0  # seconds for which an event may be put off

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Handled:
    """An event and how it ended."""

    name: str
    event: Event
    outcome: Outcome
    before: Waiting | None  # what happened to it earlier
    seconds: float


class BatchCommit:
    """For one stage."""

    def __init__(
        self, redis: Redis, stage: Stage, queue: RetryQueue, letters: Letters | None, steps: StepLog | None
    ) -> None:
        self._redis = redis
        self._stage = stage
        self._queue = queue
        self._letters = letters
        self._steps = steps

    async def settle(self, handled: Sequence[Handled], acknowledge: Callable[[Pipeline], None]) -> None:
        now = time.time()
        published: dict[str, list[Event]] = {}
        later: list[tuple[Waiting, float]] = []
        dead: list[DeadLetter] = []
        words = [self._sort(one, now, published, later, dead) for one in handled]
        for word, count in Counter(words).items():
            STAGE_EVENTS.labels(self._stage.name, word).inc(count)
        POSTS_PROCESSED.labels(self._stage.name, "true").inc(len(handled) - len(dead) - len(later))
        POSTS_PROCESSED.labels(self._stage.name, "false").inc(len(dead) + len(later))
        await self.bury(dead)
        if self._steps is not None:
            await self._record(self._steps, handled, words)
        async with self._redis.pipeline(transaction=True) as pipe:
            for event, events in published.items():
                add_to(pipe, event, events)
            acknowledge(pipe)
            for waits, due in later:
                self._queue.put(pipe, waits, due)
            await pipe.execute()

    async def _record(self, kept: StepLog, handled: Sequence[Handled], words: Sequence[str]) -> None:
        steps = [step for one, word in zip(handled, words, strict=True) for step in self._step(one, word)]
        if steps:
            await kept.record(steps)

    async def bury(self, dead: Sequence[DeadLetter]) -> None:
        for letter in dead:
            log.error(
                "dead_letter",
                stage=letter.stage,
                event_name=letter.event,
                trace_id=letter.trace_id,
                attempts=letter.attempts,
                reason=letter.reason,
                traceback=letter.traceback,
            )
        if dead and self._letters is not None:
            await self._letters.add(dead)

    def _sort(
        self,
        one: Handled,
        now: float,
        published: dict[str, list[Event]],
        later: list[tuple[Waiting, float]],
        dead: list[DeadLetter],
    ) -> str:
        match one.outcome:
            case Done(events=events, again=again):
                for event in events:
                    published.setdefault(event.name, []).append(event)
                return "done" if again is None else self._later(one, again, now, later, dead)
            case Skip():
                log.debug("skipped", stage=self._stage.name, trace_id=one.event.trace_id, reason=str(one.outcome))
                return "skipped"
            case Retry() as retry:
                return self._later(one, retry, now, later, dead)
            case Reject() as reject:
                dead.append(self._letter(one, reject, (one.before.attempts if one.before else 0) + 1))
                return "dead"

    def _later(
        self, one: Handled, retry: Retry, now: float, later: list[tuple[Waiting, float]], dead: list[DeadLetter]
    ) -> str:
        waits = self._waits(one, retry, now)
        if waits.attempts >= self._stage.attempts or now - waits.since > LONGEST_WAIT:
            dead.append(self._letter(one, retry, waits.attempts))
            return "dead"
        delay = retry.after if retry.after is not None else self._stage.delay(waits.attempts)
        if not any(waits.reason == told.reason for told, _ in later):  # a model that is away: once for the batch
            log.warning(
                "tried_again_later",
                stage=self._stage.name,
                trace_id=one.event.trace_id,
                attempts=waits.attempts,
                seconds=round(delay, 1),
                reason=str(retry),
                exc_info=retry.__cause__,
            )
        later.append((waits, now + delay))
        return "waiting"

    def _waits(self, one: Handled, retry: Retry, now: float) -> Waiting:
        """Only a failure uses up an attempt: a server that says when to come again was mostly only busy."""
        used = 1 if retry.failed else 0
        if one.before is not None:
            return replace(one.before, attempts=one.before.attempts + used, reason=str(retry))
        return Waiting(
            event=one.name,
            payload=msgspec.Raw(msgspec.json.encode(one.event)),
            key=one.event.idempotency_key,
            attempts=used,
            since=now,
            reason=str(retry),
        )

    def _letter(self, one: Handled, error: Exception, attempts: int) -> DeadLetter:
        cause = error.__cause__
        tenant = getattr(one.event, "tenant_id", None)
        return DeadLetter(
            stage=self._stage.name,
            event=one.name,
            key=one.event.idempotency_key,
            payload=msgspec.json.encode(one.event).decode(),
            reason=str(error) if attempts == 1 else f"{error} (after {attempts} attempts)",
            traceback="".join(traceback.format_exception(cause)) if cause is not None else None,
            attempts=attempts,
            trace_id=one.event.trace_id,
            tenant_id=tenant if isinstance(tenant, UUID) else None,
        )

    def _step(self, one: Handled, word: str) -> list[Step]:
        post_id = getattr(one.event, "post_id", None)
        nothing = isinstance(one.outcome, Skip) and not str(one.outcome)  # it was none of the stage's business
        if nothing or not isinstance(post_id, UUID):
            return []
        note = one.outcome.note if isinstance(one.outcome, Done) else str(one.outcome)
        if isinstance(one.outcome, Done) and one.outcome.again is not None:
            note = f"{note}; {one.outcome.again}"
        return [
            Step(
                post_id=post_id,
                stage=self._stage.name,
                outcome=word,
                note=note,
                trace_id=one.event.trace_id,
                content_hash=_content_hash(one, post_id),
                duration_ms=round(one.seconds * 1000, 3),
            )
        ]


def _content_hash(one: Handled, post_id: UUID) -> str:
    """Of the words that the step was about. What came out knows better than what came in, which may not say it."""
    came_out = one.outcome.events if isinstance(one.outcome, Done) else ()
    about = (event for event in (*came_out, one.event) if getattr(event, "post_id", None) == post_id)
    return next((str(event.content_hash) for event in about if hasattr(event, "content_hash")), "")
