"""Takeout sessions: who may export, from when on, and with which id. Errors are Telegram's own."""

from __future__ import annotations

import math
import secrets
from datetime import datetime, timedelta

from telegram_simulator.errors import RpcError


class Takeouts:
    """One for each key. The first request is put off by `delay` seconds, unless another device allows it."""

    def __init__(self, delay: float = 0.0) -> None:
        self.delay = delay
        self.open: dict[int, int] = {}  # key -> id
        self._allowed_at: dict[int, datetime] = {}  # by key

    def begin(self, key_id: int, now: datetime) -> int:
        allowed_at = self._allowed_at.setdefault(key_id, now + timedelta(seconds=self.delay))
        if now < allowed_at:
            raise RpcError(420, f"TAKEOUT_INIT_DELAY_{math.ceil((allowed_at - now).total_seconds())}")
        self.open[key_id] = secrets.randbits(62)  # an earlier one ends
        return self.open[key_id]

    def allow(self, key_id: int, now: datetime) -> None:
        """Another device of the same user allows the export."""
        self._allowed_at[key_id] = now

    def check(self, key_id: int, takeout_id: int | None) -> None:
        if takeout_id is None or key_id not in self.open:
            raise RpcError(400, "TAKEOUT_REQUIRED")
        if takeout_id != self.open[key_id]:
            raise RpcError(400, "TAKEOUT_INVALID")

    def finish(self, key_id: int) -> None:
        del self.open[key_id]
