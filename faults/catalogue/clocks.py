"""Faults of the wall clock: of one process, by libfaketime, while all the others have the right time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bench.load_roles import Slot
from faults.hurry import LIBRARY
from faults.installation import Installation
from faults.trial import Break, Fault, Scope

SETTLED = 20.0  # seconds after a start, and after the clock is right again


async def _restarted(slot: Slot, environment: dict[str, str]) -> None:
    await slot.stop()
    slot.environment = environment
    await slot.start()
    await asyncio.sleep(SETTLED)


def ahead(offset: str, seconds: float) -> Break:
    """The clock of ingest is off by so much, for so many seconds (0: until it is noticed)."""

    @asynccontextmanager
    async def broken(lane: Installation) -> AsyncIterator[None]:
        slot, clock = lane.slot("ingest"), lane.folder / "clock"
        clock.write_text("+0", encoding="ascii")
        usual = dict(slot.environment)
        fake = {"LD_PRELOAD": str(LIBRARY), "FAKETIME_TIMESTAMP_FILE": str(clock), "FAKETIME_CACHE_DURATION": "1"}
        await _restarted(slot, usual | fake | {"FAKETIME_DONT_FAKE_MONOTONIC": "1"})
        clock.write_text(offset, encoding="ascii")
        try:
            if seconds:
                await asyncio.sleep(seconds)
                clock.write_text("+0", encoding="ascii")
            yield
        finally:
            clock.write_text("+0", encoding="ascii")
            await asyncio.sleep(SETTLED)
            await _restarted(slot, usual)

    return broken


FAULTS = (
    Fault(
        name="The clock is a day ahead for 8 seconds",
        mark="N2",
        scope=Scope.NOTHING,
        broken=ahead("+1d", 8),
        layout="apart",
        lasts=60,
    ),
    Fault(
        name="The clock is a day ahead",
        mark="N2",
        scope=Scope.SYSTEM,
        broken=ahead("+1d", 0),
        layout="apart",
        says="clock",
    ),
    Fault(
        name="The clock is an hour behind",
        mark="N2",
        scope=Scope.SYSTEM,
        broken=ahead("-1h", 0),
        layout="apart",
        says="clock",
    ),
)
