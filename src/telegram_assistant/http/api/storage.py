"""How much room your posts take, what you may take, and files that were given up to save room."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, BeforeValidator, Field

from telegram_assistant.domain.storage import Standing
from telegram_assistant.http.answers import FromValue, Items, example, rounded
from telegram_assistant.http.dependencies import CallerDep, ServicesDep
from telegram_assistant.services.problems import not_found
from telegram_assistant.services.upkeep import count_storage, quota_of
from telegram_assistant.stores.postgres.media import Evictions
from telegram_assistant.stores.postgres.storage import Storage, StorageUsage

router = APIRouter(prefix="/storage", tags=["storage"])


class UsageAnswer(FromValue):
    """Of one kind of thing."""

    kind: str = Field(description="posts, versions, media, vision, pages or search.")
    count: int
    bytes: int


class StorageAnswer(BaseModel):
    """What your tenant's channels take. What tenants share is counted for each of them."""

    model_config = example(items=[{"kind": "media", "count": 120, "bytes": 48_000_000}], bytes=48_000_000)

    items: list[UsageAnswer]
    bytes: int


class QuotaAnswer(FromValue):
    """What your tenant may take: of media, pictures' descriptions and pages together."""

    model_config = example(megabytes=100, used=84_000_000, percent=80.1, standing="warning")

    megabytes: int = Field(description="0: there is no quota.")
    used: int = Field(description="Bytes.")
    percent: Annotated[float, rounded(1)]
    standing: Standing = Field(description="warning from 80 % on; full: no files are downloaded, posts still are.")
    measured_at: datetime | None = Field(None, description="When all was counted last; newer files are added to it.")


class MeasuredAnswer(FromValue):
    """Of one kind, when it was counted."""

    at: datetime
    kind: str
    bytes: int
    count: int = Field(validation_alias="objects")


class EvictedAnswer(FromValue):
    """A file that was given up because it was not opened for long."""

    sha256: str
    bytes: int = Field(validation_alias="size")
    evicted_at: datetime
    post_id: Annotated[str, BeforeValidator(str)]
    channel: str
    name: str | None
    on_its_way: Annotated[bool, BeforeValidator(lambda status: status == "pending")] = Field(
        validation_alias="status", description="It was asked for, and is downloaded again."
    )


@router.get("", operation_id="get_storage", summary="Storage usage by kind")
async def get_storage(services: ServicesDep, caller: CallerDep) -> StorageAnswer:
    found = await count_storage(StorageUsage(services.database), caller)
    items = [UsageAnswer.model_validate(one) for one in found]
    return StorageAnswer(items=items, bytes=sum(one.bytes for one in found))


@router.get("/quota", operation_id="get_storage_quota", summary="Your storage quota")
async def get_storage_quota(services: ServicesDep, caller: CallerDep) -> QuotaAnswer:
    """The operator of this installation sets it."""
    return QuotaAnswer.model_validate(await quota_of(services, caller))


@router.get("/history", operation_id="get_storage_history", summary="Storage usage over time")
async def get_storage_history(
    services: ServicesDep,
    caller: CallerDep,
    days: Annotated[int, Query(ge=1, le=400, description="So many days back.")] = 30,
) -> Items[MeasuredAnswer]:
    """Counted every six hours, the oldest first."""
    since = services.clock() - timedelta(days=days)
    found = await Storage(services.database).history(caller.tenant_id, since)
    return Items(items=[MeasuredAnswer.model_validate(one) for one in found])


@router.get("/evicted", operation_id="list_evicted_files", summary="Files that were given up")
async def list_evicted_files(
    services: ServicesDep, caller: CallerDep, limit: Annotated[int, Query(ge=1, le=500)] = 50
) -> Items[EvictedAnswer]:
    """The newest first."""
    found = await Evictions(services.database).of_tenant(caller.tenant_id, limit=limit)
    return Items(items=[EvictedAnswer.model_validate(one) for one in found])


@router.post(
    "/evicted/{sha256}/fetch", operation_id="fetch_evicted_file", summary="Fetch a file again", status_code=202
)
async def fetch_evicted_file(
    services: ServicesDep,
    caller: CallerDep,
    sha256: Annotated[str, Path(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the file, in hex.")],
) -> None:
    """It is downloaded from Telegram once more, usually within a minute."""
    if not await Evictions(services.database).fetch_again(caller.tenant_id, sha256):
        raise not_found("file that was given up")
