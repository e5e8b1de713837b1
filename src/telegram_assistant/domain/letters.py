"""What the loop hands over when an event is settled: dead letters and steps. The stores satisfy these by shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """An event that cannot be handled, with everything that it takes to understand why, and to try it again."""

    stage: str
    event: str  # its name
    key: str  # its idempotency key, or the entry's id where it could not be read
    payload: str  # JSON, or what came instead
    reason: str
    traceback: str | None
    attempts: int
    trace_id: str | None
    tenant_id: UUID | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What a stage did for a post: the latest for each stage is kept."""

    post_id: UUID
    stage: str
    outcome: str  # done | skipped | waiting | dead
    note: str
    trace_id: str
    content_hash: str
    duration_ms: float


class Letters(Protocol):
    """Where dead letters go. A letter of the same stage, event and key replaces the older one."""

    async def add(self, letters: Sequence[DeadLetter]) -> None: ...


class StepLog(Protocol):
    """How a post came here."""

    async def record(self, steps: Sequence[Step]) -> None: ...
