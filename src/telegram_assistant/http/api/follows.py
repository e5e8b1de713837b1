"""What the tenant's accounts follow, as data: choose from it, and add with `POST /channels/list`."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import AliasPath, Field

from telegram_assistant.http.answers import FromValue, Items, example
from telegram_assistant.http.dependencies import AdminDep, ServicesDep
from telegram_assistant.services.follows import FollowActions

router = APIRouter(prefix="/followed", tags=["channels"])


class FollowedAnswer(FromValue):
    """A channel that an account follows, or that a shared folder holds."""

    model_config = example(
        reference="@durov", id=1_006_503_122, title="Du Rov's Channel", folders=["News"], watched=False
    )

    reference: str = Field(description="As `POST /channels/list` takes it.")
    id: int = Field(validation_alias=AliasPath("followed", "info", "id"))
    title: str = Field(validation_alias=AliasPath("followed", "info", "title"))
    folders: list[str] = Field(validation_alias=AliasPath("followed", "folders"))
    watched: bool = Field(description="You watch it, or asked for it.")


@router.get("", operation_id="list_followed", summary="The channels that your accounts follow (admins)")
async def list_followed(
    services: ServicesDep,
    caller: AdminDep,
    link: Annotated[
        str, Query(max_length=300, description="Of a shared folder: https://t.me/addlist/…", examples=[""])
    ] = "",
) -> Items[FollowedAnswer]:
    """Telegram is asked for them now: this takes some seconds."""
    offers = await FollowActions(services, caller).offers(link)
    return Items(items=[FollowedAnswer.model_validate(one) for one in offers])
