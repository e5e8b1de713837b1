"""The job `storage_usage` (SPEC 5.4): counts what each tenant takes, gives up old files, lets refused ones in again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.exc import DBAPIError

from telegram_assistant.domain.storage import Standing
from telegram_assistant.errors import Retry
from telegram_assistant.jobs import Work
from telegram_assistant.log import get_logger
from telegram_assistant.stores.media import MediaStore
from telegram_assistant.stores.postgres.media import Evictions
from telegram_assistant.stores.postgres.storage import Storage, StorageUsage

KEPT = timedelta(days=400)
BATCH = 500

log = get_logger(__name__)


def measure(
    storage: Storage,
    usage: StorageUsage,
    evictions: Evictions,
    media: MediaStore,
    *,
    clock: Callable[[], datetime],
    evict_after_days: int = 0,
) -> Work:
    """The work of the job; `evict_after_days` 0: nothing is ever given up."""

    async def work(_due: datetime) -> str:
        evicted = 0
        if evict_after_days:
            evicted = await evict_old(evictions, media, clock() - timedelta(days=evict_after_days))
        counted, failed = await count_all(storage, usage, clock)
        revived = await storage.revive()
        await storage.prune(clock() - KEPT)
        if failed:
            raise Retry(f"not counted for {', '.join(failed)}: it took too long")
        return f"{counted} tenants, {evicted} files given up, {revived} let in again"

    return work


async def evict_old(evictions: Evictions, media: MediaStore, before: datetime) -> int:
    """How many files were not opened since and can be fetched again."""
    count = size = 0
    while found := await evictions.old(before, limit=BATCH):
        freed = [await evictions.evict(sha256, media.delete, before=before) for sha256 in found]
        count, size = count + len([one for one in freed if one]), size + sum(freed)
        if len(found) < BATCH:
            break
    if count:
        log.info("files_evicted", files=count, bytes=size)
    return count


async def count_all(storage: Storage, usage: StorageUsage, clock: Callable[[], datetime]) -> tuple[int, list[str]]:
    """How many tenants were counted, and the names of those that were not."""
    counted, failed = 0, []
    for tenant_id, name in await storage.tenants():
        at = clock()  # before it begins: what comes meanwhile counts as newer
        try:
            await storage.record(tenant_id, await usage.of_tenant(tenant_id), at)
        except DBAPIError:
            log.warning("storage_not_counted", tenant=name, exc_info=True)
            failed.append(name)
        else:
            counted += 1
    return counted, failed


async def report(storage: Storage) -> dict[str, Any]:
    """The section of health. A full quota is no failure of the service, so it is a warning and no more."""
    quotas = [one for one in await storage.limited() if one.standing is not Standing.OK]
    told = [f"{one.tenant}: {one.percent:.0f} % of {one.megabytes} MB are used" for one in quotas]
    return {"status": "ok", "error": None, "warnings": told}
