"""Oneself, one's keys; for admins the people of the tenant, and what was done."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field, model_validator

from telegram_assistant.access.credentials import LONGEST_NAME
from telegram_assistant.access.people import Invitation
from telegram_assistant.domain.access import Caller, Role, Via
from telegram_assistant.errors import Reject
from telegram_assistant.http.answers import LONGEST, etagged, read_cursor, write_cursor
from telegram_assistant.http.dependencies import AdminDep, CallerDep, ServicesDep, welcome_link
from telegram_assistant.services.problems import Problem, conflict, not_found
from telegram_assistant.services.services import Services
from telegram_assistant.stores.postgres.credentials import ApiKey
from telegram_assistant.stores.postgres.users import AuditEntry, User

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


def _example(**value: Any) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": [value]}, extra="forbid")


class MeAnswer(BaseModel):
    """Who you are."""

    model_config = _example(user_id=_ID, name="Anna Petrova", tenant_id=_ID, tenant="newsroom", role="admin", via="key")

    user_id: UUID
    name: str
    tenant_id: UUID
    tenant: str
    role: Role = Field(description="What you may do with this credential: a key may have fewer rights than its user.")
    via: Via

    @classmethod
    def of(cls, caller: Caller) -> MeAnswer:
        return cls(
            user_id=caller.user_id,
            name=caller.name,
            tenant_id=caller.tenant_id,
            tenant=caller.tenant,
            role=caller.role,
            via=caller.via,
        )


class KeyAnswer(BaseModel):
    """An API key. The secret itself is not kept."""

    model_config = _example(**_KEY)

    id: UUID
    name: str
    prefix: str = Field(description="How the key begins.")
    role: Role
    created_at: datetime
    last_used_at: datetime | None
    expires_at: datetime | None
    revoked_at: datetime | None

    @classmethod
    def of(cls, key: ApiKey) -> KeyAnswer:
        return cls(
            id=key.id,
            name=key.name,
            prefix=f"tga_{key.prefix}_",
            role=key.role,
            created_at=key.created_at,
            last_used_at=key.last_used_at,
            expires_at=key.expires_at,
            revoked_at=key.revoked_at,
        )


class KeyPage(BaseModel):
    """Your keys, newest first."""

    items: list[KeyAnswer]
    next: str | None = None


class NewKeyWish(BaseModel):
    """What the key is for."""

    model_config = _example(name="nightly export", role="member", expires_in_days=90)

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

    model_config = _example(key=_KEY, token="tga_x7k2m9pq_…")  # noqa: S106 - no secret

    key: KeyAnswer
    token: str = Field(description="Keep it safe: it is not shown again. Send it as `Authorization: Bearer …`.")


class UserAnswer(BaseModel):
    """A user of your tenant."""

    model_config = _example(**_USER)

    id: UUID
    name: str
    login: str | None
    email: str | None
    role: Role
    state: Literal["active", "invited", "disabled"]
    created_at: datetime

    @classmethod
    def of(cls, user: User) -> UserAnswer:
        return cls(
            id=user.id,
            name=user.name,
            login=user.login,
            email=user.email,
            role=user.role,
            state="disabled" if user.disabled else "active" if user.login else "invited",
            created_at=user.created_at,
        )


class UserPage(BaseModel):
    """The people of your tenant, in the order in which they came."""

    items: list[UserAnswer]
    next: str | None = None


class NewUserWish(BaseModel):
    """Who is to come in."""

    model_config = _example(name="Anna Petrova", role="member", email="anna@example.org")

    name: str = Field(min_length=1, max_length=LONGEST_NAME)
    role: PersonRole = "member"
    email: str | None = Field(None, max_length=320)


class UserChange(BaseModel):
    """What is to be different; the rest stays."""

    model_config = _example(role="admin")

    role: PersonRole | None = None
    disabled: bool | None = None

    @model_validator(mode="after")
    def _says_something(self) -> UserChange:
        if self.role is None and self.disabled is None:
            raise ValueError("say role, disabled, or both")
        return self


class LinkAnswer(BaseModel):
    """A link to choose a login and a password: works once, for a day. Send it to that person only."""

    model_config = _example(user=_USER, link="https://news.example.org/welcome?token=…")

    user: UserAnswer
    link: str


class AuditAnswer(BaseModel):
    """Who did what, when and from where."""

    model_config = _example(
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

    @classmethod
    def of(cls, entry: AuditEntry) -> AuditAnswer:
        return cls(
            id=entry.id,
            at=entry.at,
            user_id=entry.user_id,
            user=entry.user,
            action=entry.action,
            target=entry.target,
            details=dict(entry.details),
            address=entry.address,
        )


class AuditPage(BaseModel):
    """Newest first."""

    items: list[AuditAnswer]
    next: str | None = None


MOST = 200

router = APIRouter(tags=["account"])

Limit = Annotated[int, Query(ge=1, le=MOST)]
Cursor = Annotated[str | None, Query(max_length=LONGEST)]


@router.get("/me", operation_id="get_me", summary="Who you are", response_model=MeAnswer)
async def get_me(request: Request, caller: CallerDep) -> Response:
    return etagged(request, MeAnswer.of(caller))


@router.delete("/me/sessions", status_code=204, operation_id="end_sessions", summary="Sign out everywhere")
async def end_sessions(services: ServicesDep, caller: CallerDep) -> None:
    """Every session of yours on the page ends. Keys stay."""
    await services.access.sign_out_everywhere(caller)


@router.get("/keys", operation_id="list_keys", summary="Your API keys")
async def list_keys(services: ServicesDep, caller: CallerDep, limit: Limit = 50, cursor: Cursor = None) -> KeyPage:
    found = await services.access.people.keys(caller, limit=limit + 1, after=_after(cursor))
    more = write_cursor(str(found[limit - 1].id)) if len(found) > limit else None
    return KeyPage(items=[KeyAnswer.of(key) for key in found[:limit]], next=more)


@router.post("/keys", status_code=201, operation_id="create_key", summary="Make an API key for yourself")
async def create_key(services: ServicesDep, caller: CallerDep, wish: NewKeyWish) -> NewKeyAnswer:
    days = wish.expires_in_days
    expires = None if days is None else services.clock() + timedelta(days=days)
    made = await services.access.people.create_key(caller, name=wish.name, role=Role(wish.role), expires=expires)
    return NewKeyAnswer(key=KeyAnswer.of(made.key), token=made.token)


@router.delete("/keys/{key_id}", status_code=204, operation_id="revoke_key", summary="End an API key at once")
async def revoke_key(services: ServicesDep, caller: CallerDep, key_id: UUID) -> None:
    """Your own; an admin's reach is the whole tenant."""
    if await services.access.people.revoke_key(caller, key_id) is None:
        raise not_found("key")


@router.get("/users", operation_id="list_users", summary="The people of your tenant")
async def list_users(services: ServicesDep, caller: AdminDep, limit: Limit = 50, cursor: Cursor = None) -> UserPage:
    found = await services.access.people.users(caller, limit=limit + 1, after=_after(cursor))
    more = write_cursor(str(found[limit - 1].id)) if len(found) > limit else None
    return UserPage(items=[UserAnswer.of(user) for user in found[:limit]], next=more)


@router.post("/users", status_code=201, operation_id="invite_user", summary="Invite a user")
async def invite_user(request: Request, services: ServicesDep, caller: AdminDep, wish: NewUserWish) -> LinkAnswer:
    """The answer holds a link, good once and for a day, to choose a login and a password."""
    invitation = await services.access.people.invite(caller, name=wish.name, role=Role(wish.role), email=wish.email)
    return _link(request, services, invitation)


@router.get("/users/{user_id}", operation_id="get_user", summary="One of them", response_model=UserAnswer)
async def get_user(request: Request, services: ServicesDep, caller: AdminDep, user_id: UUID) -> Response:
    return etagged(request, UserAnswer.of(_known(await services.access.people.user(caller, user_id))))


@router.patch("/users/{user_id}", operation_id="change_user", summary="Change a role, keep out or let in again")
async def change_user(services: ServicesDep, caller: AdminDep, user_id: UUID, wish: UserChange) -> UserAnswer:
    """A disabled user's sessions and keys stop at once. The last admin can be neither disabled nor demoted."""
    try:
        return UserAnswer.of(_known(await _changed(services, caller, user_id, wish)))
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
async def list_audit(services: ServicesDep, caller: AdminDep, limit: Limit = 50, cursor: Cursor = None) -> AuditPage:
    before = None if cursor is None else int(read_cursor(cursor, int)[0])
    found = await services.access.people.audit(caller, limit=limit + 1, before=before)
    more = write_cursor(found[limit - 1].id) if len(found) > limit else None
    return AuditPage(items=[AuditAnswer.of(entry) for entry in found[:limit]], next=more)


async def _changed(services: Services, caller: Caller, user_id: UUID, wish: UserChange) -> User | None:
    people = services.access.people
    user: User | None = None
    if wish.role is not None:
        user = await people.set_role(caller, user_id, Role(wish.role))
    if wish.disabled is not None:
        user = await (people.disable if wish.disabled else people.enable)(caller, user_id)
    return user


def _known(user: User | None) -> User:
    if user is None:
        raise not_found("user")
    return user


def _link(request: Request, services: Services, invitation: Invitation) -> LinkAnswer:
    return LinkAnswer(user=UserAnswer.of(invitation.user), link=welcome_link(request, services, invitation.token))


def _after(cursor: str | None) -> UUID | None:
    if cursor is None:
        return None
    try:
        return UUID(str(read_cursor(cursor, str)[0]))
    except ValueError as exc:
        raise Problem(422, "cursor: is none of this list; leave it out to begin at the start") from exc
