"""Oneself, one's keys; for admins the people of the tenant, and what was done."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from telegram_assistant.access.people import Invitation
from telegram_assistant.domain.access import Caller, Role
from telegram_assistant.errors import Reject
from telegram_assistant.http.api.models.account import (
    AuditAnswer,
    AuditPage,
    KeyAnswer,
    KeyPage,
    LinkAnswer,
    MeAnswer,
    NewKeyAnswer,
    NewKeyWish,
    NewUserWish,
    UserAnswer,
    UserChange,
    UserPage,
)
from telegram_assistant.http.auth import AdminDep, CallerDep, ServicesDep, welcome_link
from telegram_assistant.http.cursor import LONGEST, read_cursor, write_cursor
from telegram_assistant.http.etag import etagged
from telegram_assistant.services.problems import Problem, conflict, not_found
from telegram_assistant.services.services import Services
from telegram_assistant.stores.postgres.users import User

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


@router.post("/users", status_code=201, operation_id="invite_user", summary="Let somebody in")
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
    """For somebody who has lost theirs, or never used the first one. The link before stops working."""
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
