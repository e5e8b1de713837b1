"""No fault at all: what a health page says on an ordinary day must be nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from faults.installation import Installation
from faults.trial import Fault, Scope
from telegram_simulator.faults import Fault as Rule


@asynccontextmanager
async def ordinary(lane: Installation) -> AsyncIterator[None]:
    """Posts come in, now and then Telegram asks for a short wait, and one connection of a hundred requests is cut."""
    rules = (
        Rule("flood", "messages.getHistory", seconds=5, probability=0.02),
        Rule("drop", "messages.getHistory", probability=0.01),
        Rule("slow", "*", seconds=2, probability=0.05),
    )
    lane.telegram.simulator.faults.add(*rules)
    yield
    lane.telegram.simulator.faults.clear()


FAULTS = (Fault(name="Twenty ordinary minutes", mark="N9", scope=Scope.QUIET, broken=ordinary, lasts=1200),)
