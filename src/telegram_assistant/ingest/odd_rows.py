"""Values of channels that mean nothing, for health: each harms its own channel only, and is named with what to do."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.thresholds import MOSCOW, known_zone
from telegram_assistant.log import get_logger

AGAIN_SECONDS = 60.0
SHOWN = 20

log = get_logger(__name__)


class OddRows:
    """Looks at most once a minute."""

    def __init__(self, database: AsyncEngine, *, ticks: Callable[[], float] = monotonic) -> None:
        self._database = database
        self._ticks = ticks
        self._looked_at: float | None = None
        self._found: list[dict[str, str]] = []

    async def report(self) -> dict[str, Any]:
        if self._looked_at is None or self._ticks() > self._looked_at + AGAIN_SECONDS:
            found = await self._look()
            for one in found:
                if one not in self._found:
                    log.warning("odd_row", **one)
            self._found, self._looked_at = found, self._ticks()
        return {"status": "ok", "error": None, "odd_rows": self._found}

    async def _look(self) -> list[dict[str, str]]:
        zones = text("SELECT DISTINCT timezone FROM channels WHERE status <> 'removed'")
        named = text(
            "SELECT id, coalesce('@' || username, title) AS shown, timezone FROM channels"
            " WHERE timezone = ANY(:zones) AND status <> 'removed' ORDER BY id LIMIT :limit"
        )
        async with self._database.connect() as connection:
            odd = [row.timezone for row in await connection.execute(zones) if known_zone(row.timezone) is None]
            if not odd:
                return []
            rows = await connection.execute(named, {"zones": odd, "limit": SHOWN})
            return [{"channel": row.shown, "trouble": _trouble(row.id, row.timezone)} for row in rows]


def _trouble(channel_id: int, zone: str) -> str:
    return (
        f"there is no time zone {zone!r}, so {MOSCOW.key} is used for this channel: set another on its page, or with"
        f" PATCH /api/v1/channels/{channel_id}"
    )
