"""Trends of a tenant: which days are shown, and a look now."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta

from telegram_assistant.domain.access import Caller
from telegram_assistant.jobs.trends import find_trends
from telegram_assistant.services.problems import Problem
from telegram_assistant.services.services import Services
from telegram_assistant.stores.postgres.trends import Saved

MOST_DAYS = 90
LOOKS, PER_SECONDS = 4, 600.0  # of one tenant, by hand


async def look_now(services: Services, caller: Caller) -> Saved:
    wait = await services.access.allow(f"trends:{caller.tenant_id}", limit=LOOKS, per=PER_SECONDS)
    if wait > 0:
        seconds = round(wait) + 1
        raise Problem(429, f"Trends were looked for just now: wait {seconds} s", headers={"Retry-After": str(seconds)})
    return await find_trends(services.database, caller.tenant_id, services.clock())


def span_of(now: datetime, day: date | None, days: int) -> tuple[datetime, datetime]:
    """From when to when trends are shown."""
    if day is None:
        return now - timedelta(days=days), now + timedelta(days=1)
    start = datetime.combine(day, time(), UTC)
    return start, start + timedelta(days=1)
