"""The world's clock: real time, faster time, or time that stands still until it is moved."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta


class Clock:
    """Starts at a moment and runs `speed` times as fast as real time; speed 0 stands still."""

    def __init__(self, start: datetime | None = None, speed: float = 1.0) -> None:
        self._base = start or datetime.now(UTC)
        self._since = time.monotonic()
        self.speed = speed

    def __call__(self) -> datetime:
        return self._base + timedelta(seconds=(time.monotonic() - self._since) * self.speed)

    def advance_to(self, moment: datetime) -> None:
        """Go forward to a moment; a clock that is already there or later is left alone."""
        if moment > self():
            self._base, self._since = moment, time.monotonic()

    def set_speed(self, speed: float) -> None:
        """Run on from here at another speed."""
        self._base, self._since = self(), time.monotonic()
        self.speed = speed
