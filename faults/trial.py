"""One fault put into a running installation: noticed after, what it said, recovered after, what was lost."""

from __future__ import annotations

import asyncio
import re
import traceback
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from time import monotonic
from typing import Any, TypeAlias

from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from faults.installation import Installation, Layout
from faults.state import Losses, index_losses, losses
from faults.telegram import MANY

EVERY = 1.0  # seconds between two looks
CALM_LOOKS = 3  # in a row
LISTENS = 60.0  # seconds after a start, until live updates come
LATER = 45.0  # seconds beyond its limit that a fault is still watched, to say how late it was noticed


class Scope(StrEnum):
    """How much a fault stops; how soon it must be noticed follows from it."""

    SYSTEM = "system"
    ACCOUNT = "account"
    STAGE = "stage"
    INDEX = "index"
    CHANNEL = "channel"
    NOTHING = "nothing"  # it is mended by the system itself before a person could do anything
    QUIET = "quiet"  # nothing is broken, and nothing may be said


LIMITS: dict[Scope, float | None] = {
    Scope.SYSTEM: 120.0,
    Scope.ACCOUNT: 300.0,
    Scope.STAGE: 300.0,
    Scope.INDEX: 300.0,
    Scope.CHANNEL: 1200.0,  # or twice the promise of that channel, which is known when it breaks
    Scope.NOTHING: None,
    Scope.QUIET: None,
}

# Channels whose ledger is not whole up to where they were read (G1), but for what is known to be unreadable.
UNKNOWN = """
SELECT username FROM channels WHERE status = 'active' AND cursor_id > 0
AND NOT coverage + coalesce((SELECT range_agg(int8range(message_id, message_id, '[]')) FROM unreadable_messages u
                             WHERE u.channel_id = channels.id), '{}')
    @> int8range(least(coalesce(requested_from, cursor_id), cursor_id), cursor_id + 1)
"""

Break: TypeAlias = Callable[[Installation], AbstractAsyncContextManager[None]]
Notice: TypeAlias = Callable[[Installation], Awaitable[str | None]]  # a sentence, or None


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Declared once. `broken` puts it in; what follows its `yield` heals it, if anything must."""

    name: str
    broken: Break
    scope: Scope
    says: str = "."  # what a sentence of the health page must match, without regard to case
    mark: str = ""
    layout: Layout = "one"
    lasts: float = 20.0  # seconds at least, noticed or not
    every: float = 1.0  # seconds between two looks
    hurried: bool = False  # only under a clock that runs faster
    indexes: bool = False  # whether the indexes themselves are compared afterwards
    notice: Notice | None = None  # in place of a sentence on the health page
    proof: Notice | None = None  # afterwards: what is wrong in spite of all
    quick: bool = False  # also a test of `make test`
    replaced: bool = False  # the installation is not used again afterwards

    @property
    def limit(self) -> float | None:
        return LIMITS[self.scope]


@dataclass
class Outcome:
    """A line of the table."""

    fault: Fault
    noticed: float | None = None
    said: str = ""
    recovered: float | None = None
    losses: Losses = field(default_factory=lambda: Losses(0, 0, 0))
    error: str = ""
    promise: float | None = None  # of a channel
    slack: float = 1.0
    left: list[str] = field(default_factory=list)  # troubles that stayed

    @property
    def limit(self) -> float | None:
        limit = self.fault.limit if self.promise is None else 2 * self.promise
        return None if limit is None else limit * self.slack

    @property
    def good(self) -> bool:
        limit = self.limit
        in_time = limit is None or (self.noticed is not None and self.noticed <= limit)
        return in_time and self.recovered is not None and not self.losses and not self.error

    @property
    def why(self) -> str:
        """What is wrong, in a few words."""
        limit = self.limit
        wrong = [self.error] if self.error else []
        if limit is not None and self.noticed is None:
            wrong.append("not noticed")
        elif limit is not None and self.noticed is not None and self.noticed > limit:
            wrong.append(f"noticed later than {limit:.0f} s")
        if self.recovered is None:
            wrong.append(f"not recovered: {'; '.join(self.left)[:300]}")
        if self.losses:
            wrong.append(f"lost, doubled, stranded: {self.losses}")
        return "; ".join(wrong)


def sentences(details: dict[str, Any]) -> list[str]:
    """What a health page complains of."""
    return [one if isinstance(one, str) else " ".join(map(str, one.values())) for one in details["troubles"]]


async def complaints(lane: Installation) -> list[str]:
    return [sentence for details in await lane.health() for sentence in sentences(details)]


async def said(lane: Installation, fault: Fault) -> str | None:
    """The sentence that tells of this fault."""
    if fault.notice is not None:
        return await fault.notice(lane)
    return next((one for one in await complaints(lane) if re.search(fault.says, one, re.IGNORECASE)), None)


async def well(lane: Installation) -> list[str]:
    """What still keeps it from being as if nothing had happened."""
    troubles = await complaints(lane)
    try:
        found = await losses(lane)
    except (OSError, SQLAlchemyError, RedisError) as exc:
        return [*troubles, f"the database: {type(exc).__name__}"]
    unknown = [row.username for row in await lane.rows(UNKNOWN)]
    return [
        *troubles,
        *([f"lost, doubled, stranded: {found}"] if found else []),
        *([f"ids of {unknown[0]} and {len(unknown) - 1} more are unknown"] if unknown else []),
    ]


async def until_well(lane: Installation, seconds: float) -> tuple[float | None, list[str]]:
    """After how many seconds all is well and stays so, at most so many. Nothing is posted meanwhile, nor after it."""
    began, calm, since = monotonic(), 0, 0.0
    for channel in lane.telegram.channels[:: max(1, len(lane.telegram.channels) // 6)]:
        lane.telegram.post(channel)  # being well means that what is new comes in too
    lane.telegram.posting.clear()  # what is on its way is not lost, and something always is
    while True:
        wrong = await well(lane)
        if not wrong:
            since = since if calm else monotonic() - began
            calm += 1
            if calm >= CALM_LOOKS:
                return since, []
        else:
            calm = 0
            if monotonic() - began > seconds:
                return None, wrong
        await asyncio.sleep(EVERY)


async def ready(lane: Installation) -> None:
    """Wait until faults may be put into it."""
    if lane.size.channels > MANY:
        await asyncio.sleep(LISTENS)  # what is posted before is found by visits, and these take a quarter of an hour
    _, wrong = await until_well(lane, lane.size.ready_seconds)
    if wrong:
        raise RuntimeError(f"it was not well before any fault: {'; '.join(wrong)}")


async def tried(lane: Installation, fault: Fault) -> Outcome:
    """Put it in, wait until it is noticed, heal it, wait until all is well, and count."""
    outcome = Outcome(fault, slack=lane.size.slack)
    lane.telegram.posting.set()
    try:
        async with fault.broken(lane):
            await _notice(lane, outcome)
        outcome.recovered, outcome.left = await until_well(lane, lane.size.recovery)
        outcome.losses = await losses(lane)
        if fault.proof is not None:
            outcome.error = await fault.proof(lane) or ""
        if fault.scope is Scope.QUIET and outcome.said:
            outcome.error = f"an alarm: {outcome.said}"
        if fault.indexes and outcome.recovered is not None:
            outcome.losses += await index_losses(lane)
    except Exception as exc:  # noqa: BLE001 - a fault that cannot be tried is a red line, and the others go on
        outcome.error = f"{type(exc).__name__}: {exc}"[:300]
        traceback.print_exc()
    return outcome


async def _notice(lane: Installation, outcome: Outcome) -> None:
    """Look until it is noticed and lasted long enough, or it is clear that it never will be."""
    began, fault = monotonic(), outcome.fault
    if fault.scope is Scope.CHANNEL:
        outcome.promise = await lane.promise()
    patience = fault.lasts if outcome.limit is None else outcome.limit + LATER
    while (passed := monotonic() - began) < patience:
        if (outcome.noticed is None or fault.notice is None) and (sentence := await said(lane, fault)):
            outcome.noticed = outcome.noticed or monotonic() - began
            if fault.scope is Scope.QUIET and sentence != outcome.said:
                print(f"after {passed / 60:.0f} min: {sentence}", flush=True)
            outcome.said = sentence.replace(str(lane.folder), "…")  # what it says in the end is most to the point
        if outcome.noticed is not None and passed >= fault.lasts:
            return
        await asyncio.sleep(fault.every)
