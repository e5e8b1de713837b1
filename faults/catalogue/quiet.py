"""No fault at all: what a health page says on an ordinary day must be nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from faults.installation import Installation
from faults.trial import Fault, Scope
from telegram_simulator.faults import Fault as Rule

MINUTES = 20
REQUESTS = 2  # of a look
TICK = 300.0  # seconds, as by default


@asynccontextmanager
async def ordinary(lane: Installation) -> AsyncIterator[None]:
    """Posts come in, now and then Telegram asks for a short wait, and one connection of a hundred requests is cut."""
    rules = (
        Rule("flood", "messages.getHistory", seconds=5, probability=0.02),
        Rule("drop", "messages.getHistory", probability=0.01),
        Rule("slow", "*", seconds=2, probability=0.05),
    )
    lane.telegram.simulator.rpc_log.clear()
    lane.telegram.simulator.faults.add(*rules)
    yield
    lane.telegram.simulator.faults.clear()


async def too_many_looks(lane: Installation) -> str | None:
    """As many as visiting every channel on every tick would take, and a fifth more: pages of a re-read, retries.

    A look that finds nothing takes two: one for what is newer, and one that proves that there is nothing.
    """
    looks = sum(call.method == "messages.getHistory" for call in lane.telegram.simulator.rpc_log)
    allowed = 1.2 * REQUESTS * lane.size.channels * (MINUTES * 60 / TICK + 1)
    return f"{looks} requests for history where {allowed:.0f} are allowed" if looks > allowed else None


FAULTS = (
    Fault(
        name="Twenty ordinary minutes",
        mark="N9 N27",
        scope=Scope.QUIET,
        broken=ordinary,
        lasts=MINUTES * 60.0,
        proof=too_many_looks,
    ),
)
