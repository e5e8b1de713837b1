"""Installations side by side: each takes the next fault, and is replaced when one has left it unwell."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from faults.installation import LAYOUTS, Installation, Layout, Size, installed
from faults.state import Losses, index_losses
from faults.trial import Fault, Outcome, ready, tried

MOST_FAILURES = 2  # of installations in one lane


@dataclass
class Run:
    """All outcomes, in the order of the catalogue."""

    size: Size
    began: datetime = field(default_factory=lambda: datetime.now(UTC))
    outcomes: list[Outcome] = field(default_factory=list)
    indexes: Losses = field(default_factory=lambda: Losses(0, 0, 0))  # of all lanes at their end

    keep: Callable[[Run], None] = lambda _: None  # called after each fault
    failures: list[str] = field(default_factory=list)  # of installations, not of faults

    @property
    def seconds(self) -> float:
        return (datetime.now(UTC) - self.began).total_seconds()

    @property
    def good(self) -> bool:
        return all(outcome.good for outcome in self.outcomes) and not self.indexes and not self.failures


async def run_lanes(run: Run, faults: Sequence[Fault], *, lanes: int, where: Path | None = None) -> None:
    """Try them all; what is known stands in `run` at any moment."""
    waiting: dict[Layout, deque[Fault]] = {layout: deque() for layout in LAYOUTS}  # type: ignore[misc]
    for fault in faults:
        waiting[fault.layout].append(fault)
    shares = _shares({layout: len(some) for layout, some in waiting.items()}, lanes)
    async with asyncio.TaskGroup() as group:
        for layout, count in shares.items():
            for number in range(count):
                await asyncio.sleep(0 if number == 0 else 5)  # starting costs most
                group.create_task(_lane(run, layout, waiting[layout], where))


def _shares(waiting: dict[Layout, int], lanes: int) -> dict[Layout, int]:
    """Lanes for each layout, by how many faults wait for it; at least one where any do."""
    total = sum(waiting.values())
    wanted = {layout: max(1, round(lanes * count / total)) for layout, count in waiting.items() if count}
    return {layout: min(count, waiting[layout]) for layout, count in wanted.items()}


async def _lane(run: Run, layout: Layout, waiting: deque[Fault], where: Path | None) -> None:
    failures = 0
    while waiting and failures < MOST_FAILURES:
        try:
            async with installed(run.size, layout, where) as lane:
                _tell(f"an installation of {run.size.channels} channels starts ({' + '.join(LAYOUTS[layout])})")
                await ready(lane)
                if await _spent(run, lane, waiting):
                    run.indexes += await index_losses(lane)
        except Exception as exc:  # noqa: BLE001 - another installation may do better
            failures += 1
            run.failures.append(f"{type(exc).__name__}: {exc}"[:500])
            _tell(f"an installation failed: {run.failures[-1]}")


async def _spent(run: Run, lane: Installation, waiting: deque[Fault]) -> bool:
    """Put faults into it until there are no more, or one has spoiled it; whether it is still well."""
    while waiting:
        fault = waiting.popleft()
        outcome = await tried(lane, fault)
        run.outcomes.append(outcome)
        run.keep(run)
        _tell(_line(outcome))
        if outcome.recovered is None or outcome.losses or outcome.error or fault.replaced:
            return False
    return True


def _line(outcome: Outcome) -> str:
    noticed = "-" if outcome.noticed is None else f"{outcome.noticed:.0f} s"
    recovered = "-" if outcome.recovered is None else f"{outcome.recovered:.0f} s"
    word = "ok " if outcome.good else "RED"
    name = f"{outcome.fault.mark} {outcome.fault.name}".strip()
    tail = f"\n      said: {outcome.said}" if outcome.said else ""
    tail += "" if outcome.good else f"\n      {outcome.why}"
    return f"{word} {name}: noticed {noticed}, recovered {recovered}, lost {outcome.losses}{tail}"


def _tell(line: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} {line}", flush=True)
