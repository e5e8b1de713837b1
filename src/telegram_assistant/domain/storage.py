"""Quotas of storage: what counts, when to warn, and what is said about a file that finds no room. Values only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

MEGABYTE = 1_000_000  # as pages show sizes
COUNTED = ("media", "vision", "pages")  # posts themselves are never refused, so they do not count
WARNING_PERCENT = 80
MOST_QUOTA_MB = 1_000_000_000
REFUSED = "the storage quota of "  # how the reason of each refused file begins


class Standing(StrEnum):
    """How a tenant stands with its quota."""

    OK = "ok"
    WARNING = "warning"
    FULL = "full"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """What a tenant may use, and what it uses."""

    tenant_id: UUID
    tenant: str
    megabytes: int  # 0: as much as there is
    used: int  # bytes of what counts
    measured_at: datetime | None = None

    @property
    def limit(self) -> int | None:
        return self.megabytes * MEGABYTE if self.megabytes else None

    @property
    def percent(self) -> float:
        return 0.0 if self.limit is None else 100.0 * self.used / self.limit

    @property
    def left(self) -> int | None:
        return None if self.limit is None else max(0, self.limit - self.used)

    @property
    def standing(self) -> Standing:
        if self.limit is None or self.percent < WARNING_PERCENT:
            return Standing.OK
        return Standing.FULL if self.used >= self.limit else Standing.WARNING


@dataclass(slots=True)
class Room:
    """What may still be stored for those who watch a channel. None: as much as there is."""

    left: int | None = None
    reason: str = ""

    def takes(self, size: int | None) -> bool:
        """A file of unknown size is taken while there is any room at all."""
        return self.left is None or max(size or 0, 1) <= self.left

    def take(self, size: int) -> None:
        if self.left is not None:
            self.left = max(0, self.left - size)


def room_of(quotas: Sequence[Quota]) -> Room:
    """A file is kept once for all who watch its channel: it is refused when none of them has room."""
    left = [quota.left for quota in quotas]
    known = [one for one in left if one is not None]
    if not quotas or len(known) < len(left):
        return Room()
    names = ", ".join(f"{quota.tenant} ({quota.megabytes} MB)" for quota in quotas)
    return Room(max(known), f"{REFUSED}{names} is used up")
