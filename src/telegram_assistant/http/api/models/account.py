"""Answers and wishes about who comes in: oneself, keys, people, and what was done."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, model_validator

from telegram_assistant.access.logins import LONGEST
from telegram_assistant.domain.access import Caller, Role, Via
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

    name: str = Field(min_length=1, max_length=LONGEST)
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
    """Somebody of your tenant."""

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

    name: str = Field(min_length=1, max_length=LONGEST)
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
    user: str | None = Field(description="Null: the program itself, or somebody at the machine.")
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
