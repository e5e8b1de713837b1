"""The people of a tenant and their keys: let in, listed, disabled; always at least one admin is left."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.access.credentials import digest, new_key, new_token, parse_email, parse_name, parse_tenant
from telegram_assistant.domain.access import SYSTEM_USER, Caller, Role, Via
from telegram_assistant.errors import Reject
from telegram_assistant.stores.postgres.credentials import ApiKey, Keys, Links
from telegram_assistant.stores.postgres.users import AuditEntry, AuditLog, Tenant, User, Users

LINK_LASTS = timedelta(hours=24)
MOST_KEYS = 100  # of one user
LAST_ADMIN = "This is the last admin who can sign in: make another user an admin first"
EMAIL_TAKEN = "Another user has this e-mail address already"
TOO_MANY_KEYS = f"There are {MOST_KEYS} keys already: revoke those that are not used"
DISABLED = "This user is disabled: enable them first"


@dataclass(frozen=True, slots=True)
class Invitation:
    """A user who may sign in, and the token of the link for it."""

    user: User
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class CreatedKey:
    """A key, and its secret, which is shown now or never."""

    key: ApiKey
    token: str = field(repr=False)


def system_caller(tenant: Tenant) -> Caller:
    """The person at the machine who types `tga`: may do everything, in the named tenant."""
    return Caller(
        tenant_id=tenant.id,
        tenant=tenant.name,
        user_id=UUID(SYSTEM_USER),
        name="system",
        role=Role.SYSTEM,
        via=Via.KEY,
    )


class People:
    """Every method takes the caller and stays within its tenant: what is another's is None, as if it were not there."""

    def __init__(self, database: AsyncEngine, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._users = Users(database)
        self._keys = Keys(database)
        self._links = Links(database)
        self._log = AuditLog(database)

    async def tenants(self) -> list[Tenant]:
        return await self._users.tenants()

    async def tenant(self, name: str) -> Tenant | None:
        return await self._users.tenant(name)

    async def add_tenant(self, name: str) -> Tenant:
        name = parse_tenant(name)
        await self._users.add_tenant(name)
        found = await self._users.tenant(name)
        if found is None:
            raise Reject(f"The tenant {name} was erased this moment: try again")
        return found

    async def users(self, caller: Caller, *, limit: int = 100, after: UUID | None = None) -> list[User]:
        return await self._users.of_tenant(caller.tenant_id, limit=limit, after=after)

    async def user(self, caller: Caller, user_id: UUID) -> User | None:
        return await self._users.get(caller.tenant_id, user_id)

    async def named(self, caller: Caller, name: str) -> User | None:
        """By login, e-mail or name."""
        return await self._users.named(caller.tenant_id, name)

    async def invite(
        self, caller: Caller, *, name: str, role: Role = Role.MEMBER, email: str | None = None
    ) -> Invitation:
        """A new user, who sets login and password by the link."""
        _only_admins(caller)
        name, email = parse_name(name), parse_email(email)
        user_id = await self._users.add(caller.tenant_id, name=name, role=_person(role), email=email)
        user = None if user_id is None else await self._users.get(caller.tenant_id, user_id)
        if user is None:
            raise Reject(EMAIL_TAKEN)
        token = await self._new_link(user, "invite")
        await self._note(caller, "user_invited", name, {"role": role.value})
        return Invitation(user, token)

    async def link(self, caller: Caller, user_id: UUID) -> Invitation | None:
        """A link to set a password, the first or another, in place of the one before. Until it is used all stays."""
        _only_admins(caller)
        user = await self.user(caller, user_id)
        if user is None:
            return None
        if user.disabled:
            raise Reject(DISABLED)
        token = await self._new_link(user, "invite" if user.login is None else "reset")
        await self._note(caller, "link_made", user.name)
        return Invitation(user, token)

    async def change(
        self, caller: Caller, user_id: UUID, *, role: Role | None = None, disabled: bool | None = None
    ) -> User | None:
        """Of a disabled user sessions and links end; keys rest until the user is enabled again."""
        _only_admins(caller)
        user = await self.user(caller, user_id)
        if user is None:
            return None
        wanted = None if role is None else _person(role)
        if not await self._users.change(caller.tenant_id, user_id, role=wanted, disabled=disabled):
            raise Reject(LAST_ADMIN)
        if wanted is not None:
            await self._note(caller, "role_changed", user.name, {"role": wanted.value})
        if disabled is not None:
            await self._note(caller, "user_disabled" if disabled else "user_enabled", user.name)
        return await self.user(caller, user_id)

    async def create_key(
        self,
        caller: Caller,
        *,
        name: str,
        role: Role = Role.MEMBER,
        expires: datetime | None = None,
        user_id: UUID | None = None,
    ) -> CreatedKey:
        """A key for oneself; for another user only from the command line."""
        name = parse_name(name, of="The name of a key")
        owner = caller.user_id if caller.role is not Role.SYSTEM or user_id is None else user_id
        user = await self._users.get(caller.tenant_id, owner)
        if user is None or user.disabled:
            raise Reject(DISABLED if user else "Say which user the key is for")
        allowed = user.role if caller.role is Role.SYSTEM else caller.role
        if _person(role) is Role.ADMIN and allowed is not Role.ADMIN:
            raise Reject(
                "A key cannot have more rights than the user who makes it: make one for a member, or sign in as admin"
            )
        _refuse_to_outlive(caller, expires)
        if expires is not None and expires <= self._clock():
            raise Reject("A key must be good for some time: this moment is over already")
        if await self._keys.count(caller.tenant_id, owner) >= MOST_KEYS:
            raise Reject(TOO_MANY_KEYS)
        made = new_key()
        key_id = await self._keys.add(
            caller.tenant_id, owner, name=name, prefix=made.prefix, sha256=made.sha256, role=role, expires=expires
        )
        await self._note(caller, "key_created", name, {"prefix": made.prefix, "role": role.value})
        key = await self._keys.get(caller.tenant_id, key_id)
        if key is None:
            raise Reject("The user was removed this moment")
        return CreatedKey(key, made.token)

    async def keys(self, caller: Caller, *, limit: int = 100, after: UUID | None = None) -> list[ApiKey]:
        """The caller's own; on the command line all of the tenant."""
        owner = None if caller.role is Role.SYSTEM else caller.user_id
        return await self._keys.find(caller.tenant_id, owner, limit=limit, after=after)

    async def revoke_key(self, caller: Caller, key_id: UUID) -> ApiKey | None:
        """One's own; an admin's reach is the whole tenant."""
        key = await self._keys.get(caller.tenant_id, key_id)
        if key is None or (key.user_id != caller.user_id and caller.role is Role.MEMBER):
            return None
        if key.revoked_at is None:
            await self._keys.revoke(caller.tenant_id, key_id, now=self._clock())
            await self._note(caller, "key_revoked", key.name, {"prefix": key.prefix})
        return await self._keys.get(caller.tenant_id, key_id)

    async def audit(self, caller: Caller, *, limit: int = 50, before: int | None = None) -> list[AuditEntry]:
        """Newest first."""
        _only_admins(caller)
        return await self._log.newest(caller.tenant_id, limit=limit, before=before)

    async def _new_link(self, user: User, purpose: str) -> str:
        token = new_token()
        expires = self._clock() + LINK_LASTS
        await self._links.add(user.tenant_id, user.id, sha256=digest(token), purpose=purpose, expires=expires)
        return token

    async def _note(self, caller: Caller, action: str, target: str, details: Mapping[str, Any] | None = None) -> None:
        await self._log.add(caller.tenant_id, caller.user_id, action, target=target, details=details, now=self._clock())


def _only_admins(caller: Caller) -> None:
    """The routes ask this too; here it cannot be forgotten."""
    if caller.role is Role.MEMBER:
        raise Reject("Only an admin may do this")


def _refuse_to_outlive(caller: Caller, expires: datetime | None) -> None:
    """Else a key that leaks would be good for ever, although it has an end."""
    ends = caller.key_ends
    if ends is not None and (expires is None or expires > ends):
        raise Reject(
            f"A key made with a key cannot outlive it, and yours ends at {ends:%Y-%m-%d %H:%M} UTC:"
            " say fewer days, or sign in and make it on your account page"
        )


def _person(role: Role) -> Role:
    if role is Role.SYSTEM:
        raise Reject("A user is an admin or a member")
    return role
