"""What another producer writes into the envelope of an event must not stand in the way of the others (SPEC 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest

from telegram_assistant.bus.stage import Done, Outcome
from telegram_assistant.bus.streams import Publisher
from telegram_assistant.domain.events import Event, MediaSettled
from telegram_assistant.errors import Reject
from telegram_assistant.names import MEDIA_SETTLED, VISION_ANALYSIS
from tests.integration.stages.desk import SYSTEM, Desk, post
from tests.integration.stages.loop import run_stage

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="session")]


def settled(post_id: UUID, key: str) -> MediaSettled:
    return MediaSettled(
        trace_id="t",
        occurred_at=datetime(2026, 11, 1, tzinfo=UTC),
        idempotency_key=key,
        tenant_id=SYSTEM,
        channel_id=77,
        post_id=post_id,
        content_hash="",
    )


async def test_an_odd_envelope_is_parked_and_the_rest_goes_on(desk: Desk) -> None:
    one = post(1)
    await desk.save(one)
    handled: list[str] = []

    async def handle(events: Sequence[Event]) -> list[Outcome]:
        handled.extend(told.idempotency_key for told in events)
        return [Done() if told.idempotency_key == "good" else Reject("never") for told in events]

    good = settled(one.id, "good")
    odd = [replace(good, trace_id="a\0b"), settled(one.id, "nul\0"), settled(one.id, "x" * 100_000)]
    odd += [replace(good, content_hash="a\0b"), replace(good, trace_id="x" * 100_000)]
    for bad in odd:
        await Publisher(desk.redis).publish(MEDIA_SETTLED, [bad])
    await Publisher(desk.redis).publish(MEDIA_SETTLED, [good])
    await run_stage(desk, VISION_ANALYSIS, {MEDIA_SETTLED: handle})
    assert handled == ["good"]
    letters = await desk.letters.find()
    assert len(letters) == len(odd)
    assert all("a name in its envelope is too long, or has a NUL in it" in letter.reason for letter in letters)
