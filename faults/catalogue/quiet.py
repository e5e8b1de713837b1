"""No fault at all: what a health page says on an ordinary day must be nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from faults.installation import Installation
from faults.trial import Fault, Notice, Scope
from telegram_simulator.faults import Fault as Rule

MINUTES = 20
REQUESTS = 2  # of a look
DAY = 86_400.0  # seconds
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


def too_many_looks(seconds: float) -> Notice:
    """As many as visiting every channel on every tick would take, and a fifth more: pages of a re-read, retries.

    A look that finds nothing takes two: one for what is newer, and one that proves that there is nothing.
    """

    async def proof(lane: Installation) -> str | None:
        looks = sum(call.method == "messages.getHistory" for call in lane.telegram.simulator.rpc_log)
        allowed = 1.2 * REQUESTS * lane.size.channels * (seconds / TICK + 1)
        return f"{looks} requests for history where {allowed:.0f} are allowed" if looks > allowed else None

    return proof


FAULTS = (
    Fault(
        name="Twenty ordinary minutes",
        mark="N9 N27",
        scope=Scope.QUIET,
        broken=ordinary,
        lasts=MINUTES * 60.0,
        proof=too_many_looks(MINUTES * 60.0),
    ),
    Fault(
        name="An ordinary day",
        mark="N9 N27",
        scope=Scope.QUIET,
        broken=ordinary,
        lasts=DAY,
        every=10.0,
        hurried=True,
        proof=too_many_looks(DAY),
    ),
)
