"""`/storage`: how much room everything takes, the quota, and what was given up to save room."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta, tzinfo
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from telegram_assistant.domain.access import Caller
from telegram_assistant.domain.storage import COUNTED
from telegram_assistant.errors import Retry
from telegram_assistant.http.dependencies import CallerDep, ServicesDep
from telegram_assistant.http.web.charts import Counts, storage_bars
from telegram_assistant.http.web.page import language_of, page, size, zone_of
from telegram_assistant.i18n import load_texts
from telegram_assistant.services.problems import not_found
from telegram_assistant.services.services import Services
from telegram_assistant.services.upkeep import count_storage, quota_of
from telegram_assistant.stores.postgres.media import Evictions
from telegram_assistant.stores.postgres.storage import Measured, Storage, StorageUsage

DAYS = 30
FRESH = timedelta(seconds=20)
MOST_BARS = 60
MOST_EVICTED = 50

router = APIRouter(include_in_schema=False)


@router.get("/storage")
async def storage(request: Request, services: ServicesDep, caller: CallerDep) -> HTMLResponse:
    history = await fresh_history(services, caller)
    quota = await quota_of(services, caller)
    language = language_of(request)
    t = partial(load_texts(), language)
    bars = storage_bars(
        counts_of(history, zone_of(request)),
        [t(f"storage.kind_{kind}") for kind in COUNTED],
        label=t("storage.over_time"),
        size=partial(size, language=language),
        limit=quota.limit,
    )
    newest = [one for one in history if one.at == history[-1].at]
    return page(
        request,
        "storage.html",
        caller=caller,
        quota=quota,
        bars=bars,
        newest=newest,
        largest=max((one.bytes for one in newest), default=0) or 1,
        evicted=await Evictions(services.database).of_tenant(caller.tenant_id, limit=MOST_EVICTED),
        days=services.settings.storage_evict_after_days,
    )


@router.post("/storage/evicted/{sha256}/fetch")
async def fetch(
    services: ServicesDep, caller: CallerDep, sha256: Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")]
) -> RedirectResponse:
    if not await Evictions(services.database).fetch_again(caller.tenant_id, sha256):
        raise not_found("file that was given up")
    return RedirectResponse("/storage#evicted", status_code=303)


async def fresh_history(services: Services, caller: Caller) -> list[Measured]:
    """Counted now: the job counts only every six hours, and a reader wants to know of today."""
    storage, now = Storage(services.database), services.clock()
    history = await storage.history(caller.tenant_id, now - timedelta(days=DAYS))
    if history and now - history[-1].at < FRESH:
        return history
    with suppress(Retry):  # an archive too large to be counted on the way: the last count is shown then
        await storage.record(caller.tenant_id, await count_storage(StorageUsage(services.database), caller), now)
    return await storage.history(caller.tenant_id, now - timedelta(days=DAYS))


def counts_of(history: Sequence[Measured], zone: tzinfo) -> Counts:
    """What counts for the quota, kind by kind; thinned out to what a page can show."""
    times: dict[datetime, dict[str, int]] = {}
    for one in history:
        times.setdefault(one.at, {})[one.kind] = one.bytes
    found = [(at.astimezone(zone), [kinds.get(kind, 0) for kind in COUNTED]) for at, kinds in times.items()]
    step = -(-len(found) // MOST_BARS) or 1
    return found[::-1][::step][::-1]
