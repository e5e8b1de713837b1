"""How much room a tenant takes, and how much it may take."""

from __future__ import annotations

from sqlalchemy.exc import DBAPIError

from telegram_assistant.domain.access import Caller
from telegram_assistant.domain.storage import Quota
from telegram_assistant.errors import Retry
from telegram_assistant.services.problems import not_found
from telegram_assistant.services.services import Services
from telegram_assistant.stores.postgres.storage import Storage, StorageUsage, Usage


async def count_storage(usage: StorageUsage, caller: Caller) -> list[Usage]:
    try:
        return await usage.of(caller.tenant_id)
    except DBAPIError as exc:
        raise Retry("Counting took too long: try again when less is going on", after=60) from exc


async def quota_of(services: Services, caller: Caller) -> Quota:
    storage = Storage(services.database, default_mb=services.settings.storage_quota_mb)
    found = await storage.quota(caller.tenant_id)
    if found is None:
        raise not_found("tenant")
    return found
