"""Entries that nobody should have put on a stream, and whether each was buried with a reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import Any
from uuid import UUID, uuid5

from redis.asyncio import Redis

from telegram_assistant.bus.streams import FIELD, encode
from telegram_assistant.domain.events import PostDeleted
from telegram_assistant.names import stream
from telegram_assistant.stages import groups

HUGE = 4 * 2**20
NAMESPACE = UUID(int=7)
NOT_OURS = "no field with events"
READ = tuple(dict.fromkeys(event for event, _ in groups()))


def _of_another_type(random: Random) -> bytes:
    """Whole and well-formed, but on the wrong stream."""
    event = PostDeleted(
        trace_id=f"{random.getrandbits(64):x}",
        occurred_at=datetime(2026, 1, 1, tzinfo=UTC),
        idempotency_key=f"poison:{random.getrandbits(64):x}",
        tenant_id=NAMESPACE,
        post_id=uuid5(NAMESPACE, str(random.random())),
    )
    return encode([event])


KINDS: dict[str, Callable[[Random], bytes]] = {
    "no JSON": lambda _: b"}{ nonsense",
    "no text": lambda random: b"\xff\xfe" + random.randbytes(40),
    "no batch": lambda _: b'{"post_id": 1}',
    "numbers": lambda _: b"[1, 2, 3]",
    "a broken event": lambda _: b'[{"trace_id": 5, "idempotency_key": null}]',
    "another type": _of_another_type,
    NOT_OURS: lambda _: b"[]",
    "huge": lambda _: b'["' + b"x" * HUGE + b'"]',
}
TYPE_FITS = {"posts.deleted"}  # where the event of another type would be at home


@dataclass(frozen=True)
class Dose:
    """One poisoned entry."""

    event: str
    entry: str  # its id
    kind: str

    @property
    def readers(self) -> list[str]:
        return [stage for event, stage in groups() if event == self.event]


async def pour(redis: Redis, random: Random) -> Dose:
    """Put one on a stream, whichever."""
    kind = random.choice(list(KINDS))
    event = random.choice([event for event in READ if kind != "another type" or event not in TYPE_FITS])
    content: Any = KINDS[kind](random)
    entry = await redis.xadd(stream(event), {"data" if kind == NOT_OURS else FIELD: content})
    return Dose(event, str(entry), kind)
