"""Oneself, one's keys; for admins the people of the tenant, and what was done."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from telegram_assistant.access.credentials import LONGEST_NAME
from telegram_assistant.access.people import Invitation
from telegram_assistant.domain.access import Role, Via
from telegram_assistant.errors import Reject
from telegram_assistant.http.answers import (
    Cursor,
    FromValue,
    Page,
    etagged,
    page_of,
    read_cursor,
    strange_cursor,
    write_cursor,
)
from telegram_assistant.http.dependencies import AdminDep, CallerDep, ServicesDep, welcome_link
from telegram_assistant.services.problems import conflict, not_found
from telegram_assistant.services.services import Services
from telegram_assistant.stores.postgres.users import User

PersonRole = Literal["admin", "member"]
_ID = "6f0d8f7e-3f0e-4b68-9a54-6d8c2b1f0a11"
_USER = {
    "id": _ID,
    "name": "Anna Petrova",
    "login": "anna",
    "email": None,
    "role": "member",
    "state": "active",
    "created_at": "2026-11-15T12:00:00Z",
}
_KEY = {
    "id": _ID,
    "name": "nightly export",
    "prefix": "tga_x7k2m9pq_",
    "role": "member",
    "created_at": "2026-11-15T12:00:00Z",
    "last_used_at": None,
    "expires_at": None,
    "revoked_at": None,
}


def _closed(**values: Any) -> ConfigDict:
    """What is not known is an error: a right that is misspelt must not be left out in silence."""
    return ConfigDict(json_schema_extra={"examples": [values]}, extra="forbid")


class MeAnswer(FromValue):
    """Who you are."""

    model_config = _closed(user_id=_ID, name="Anna Petrova", tenant_id=_ID, tenant="newsroom", role="admin", via="key")

    user_id: UUID
    name: str
    tenant_id: UUID
    tenant: str
    role: Role = Field(description="What you may do with this credential: a key may have fewer rights than its user.")
    via: Via


class KeyAnswer(FromValue):
    """An API key. The secret itself is not kept."""

    model_config = _closed(**_KEY)

    id: UUID
    name: str
    prefix: Annotated[str, AfterValidator("tga_{}_".format)] = Field(description="How the key begins.")
    role: Role
    created_at: datetime
    last_used_at: datetime | None
    expires_at: datetime | None
    revoked_at: datetime | None


class NewKeyWish(BaseModel):
    """What the key is for."""

    model_config = _closed(name="nightly export", role="member", expires_in_days=90)

    name: str = Field(min_length=1, max_length=LONGEST_NAME)
    role: PersonRole = Field("member", description="Not more than your own.")
    expires_in_days: int | None = Field(
        None,
        ge=1,
        le=3650,
        description="Without: it does not end by itself. With a key that ends itself: not later than that.",
    )


class NewKeyAnswer(BaseModel):
    """The key and its secret, this once."""

    model_config = _closed(key=_KEY, token="tga_x7k2m9pq_…")  # noqa: S106 - no secret

    key: KeyAnswer
    token: str = Field(description="Keep it safe: it is not shown again. Send it as `Authorization: Bearer …`.")


class UserAnswer(FromValue):
    """A user of your tenant."""

    model_config = _closed(**_USER)

    id: UUID
    name: str
    login: str | None
    email: str | None
    role: Role
    state: Literal["active", "invited", "disabled"]
    created_at: datetime


class NewUserWish(BaseModel):
    """Who is to come in."""

    model_config = _closed(name="Anna Petrova", role="member", email="anna@example.org")

    name: str = Field(min_length=1, max_length=LONGEST_NAME)
    role: PersonRole = "member"
    email: str | None = Field(None, max_length=320)


class UserChange(BaseModel):
    """What is to be different; the rest stays."""

    model_config = _closed(role="admin")

    role: PersonRole | None = None
    disabled: bool | None = None

    @model_validator(mode="after")
    def _says_something(self) -> UserChange:
        if self.role is None and self.disabled is None:
            raise ValueError("say role, disabled, or both")
        return self


class LinkAnswer(BaseModel):
    """A link to choose a login and a password: works once, for a day. Send it to that person only."""

    model_config = _closed(user=_USER, link="https://news.example.org/welcome?token=…")

    user: UserAnswer
    link: str


class AuditAnswer(FromValue):
    """Who did what, when and from where."""

    model_config = _closed(
        id=42,
        at="2026-11-15T12:00:00Z",
        user_id=_ID,
        user="Anna Petrova",
        action="key_created",
        target="nightly export",
        details={"prefix": "x7k2m9pq"},
        address="192.0.2.1",
    )

    id: int
    at: datetime
    user_id: UUID | None
    user: str | None = Field(description="Null: the program itself, or a person at the machine.")
    action: str
    target: str
    details: dict[str, Any]
    address: str


MOST = 200

router = APIRouter(tags=["account"])

Limit = Annotated[int, Query(ge=1, le=MOST)]


@router.get("/me", operation_id="get_me", summary="Who you are", response_model=MeAnswer)
async def get_me(request: Request, caller: CallerDep) -> Response:
    return etagged(request, MeAnswer.model_validate(caller))


@router.delete("/me/sessions", status_code=204, operation_id="end_sessions", summary="Sign out everywhere")
async def end_sessions(services: ServicesDep, caller: CallerDep) -> None:
    """Every session of yours on the page ends. Keys stay."""
    await services.access.sign_out_everywhere(caller)


@router.get("/keys", operation_id="list_keys", summary="Your API keys")
async def list_keys(
    services: ServicesDep, caller: CallerDep, limit: Limit = 50, cursor: Cursor = None
) -> Page[KeyAnswer]:
    """The newest first."""
    found = await services.access.people.keys(caller, limit=limit + 1, after=_after(cursor))
    return page_of(found, limit, KeyAnswer.model_validate, lambda key: write_cursor(str(key.id)))


@router.post("/keys", status_code=201, operation_id="create_key", summary="Make an API key for yourself")
async def create_key(services: ServicesDep, caller: CallerDep, wish: NewKeyWish) -> NewKeyAnswer:
    days = wish.expires_in_days
    expires = None if days is None else services.clock() + timedelta(days=days)
    made = await services.access.people.create_key(caller, name=wish.name, role=Role(wish.role), expires=expires)
    return NewKeyAnswer(key=KeyAnswer.model_validate(made.key), token=made.token)


@router.delete("/keys/{key_id}", status_code=204, operation_id="revoke_key", summary="End an API key at once")
async def revoke_key(services: ServicesDep, caller: CallerDep, key_id: UUID) -> None:
    """Your own; an admin's reach is the whole tenant."""
    if await services.access.people.revoke_key(caller, key_id) is None:
        raise not_found("key")


@router.get("/users", operation_id="list_users", summary="The people of your tenant")
async def list_users(
    services: ServicesDep, caller: AdminDep, limit: Limit = 50, cursor: Cursor = None
) -> Page[UserAnswer]:
    """In the order in which they came."""
    found = await services.access.people.users(caller, limit=limit + 1, after=_after(cursor))
    return page_of(found, limit, UserAnswer.model_validate, lambda user: write_cursor(str(user.id)))


@router.post("/users", status_code=201, operation_id="invite_user", summary="Invite a user")
async def invite_user(request: Request, services: ServicesDep, caller: AdminDep, wish: NewUserWish) -> LinkAnswer:
    """The answer holds a link, good once and for a day, to choose a login and a password."""
    invitation = await services.access.people.invite(caller, name=wish.name, role=Role(wish.role), email=wish.email)
    return _link(request, services, invitation)


@router.get("/users/{user_id}", operation_id="get_user", summary="One of them", response_model=UserAnswer)
async def get_user(request: Request, services: ServicesDep, caller: AdminDep, user_id: UUID) -> Response:
    return etagged(request, UserAnswer.model_validate(_known(await services.access.people.user(caller, user_id))))


@router.patch("/users/{user_id}", operation_id="change_user", summary="Change a role, keep out or let in again")
async def change_user(services: ServicesDep, caller: AdminDep, user_id: UUID, wish: UserChange) -> UserAnswer:
    """A disabled user's sessions and keys stop at once. The last admin can be neither disabled nor demoted."""
    try:
        role = Role(wish.role) if wish.role else None
        changed = await services.access.people.change(caller, user_id, role=role, disabled=wish.disabled)
        return UserAnswer.model_validate(_known(changed))
    except Reject as exc:
        raise conflict(str(exc)) from exc


@router.post("/users/{user_id}/link", status_code=201, operation_id="make_user_link", summary="A link to a password")
async def make_link(request: Request, services: ServicesDep, caller: AdminDep, user_id: UUID) -> LinkAnswer:
    """For a user who lost the password, or never used the first link. The link before stops working."""
    try:
        invitation = await services.access.people.link(caller, user_id)
    except Reject as exc:
        raise conflict(str(exc)) from exc
    if invitation is None:
        raise not_found("user")
    return _link(request, services, invitation)


@router.get("/audit", operation_id="list_audit", summary="What was done in your tenant")
async def list_audit(
    services: ServicesDep, caller: AdminDep, limit: Limit = 50, cursor: Cursor = None
) -> Page[AuditAnswer]:
    """The newest first."""
    before = None if cursor is None else int(read_cursor(cursor, int)[0])
    found = await services.access.people.audit(caller, limit=limit + 1, before=before)
    return page_of(found, limit, AuditAnswer.model_validate, lambda entry: write_cursor(entry.id))


def _known(user: User | None) -> User:
    if user is None:
        raise not_found("user")
    return user


def _link(request: Request, services: Services, invitation: Invitation) -> LinkAnswer:
    return LinkAnswer(
        user=UserAnswer.model_validate(invitation.user), link=welcome_link(request, services, invitation.token)
    )


def _after(cursor: str | None) -> UUID | None:
    if cursor is None:
        return None
    try:
        return UUID(str(read_cursor(cursor, str)[0]))
    except ValueError as exc:
        raise strange_cursor() from exc
