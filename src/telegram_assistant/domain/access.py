"""Who asks, and what they may do. The tenant comes from the credential, never from a parameter (G7, LESSONS 17)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID


class Role(StrEnum):
    """What a user may do in its tenant. `system` is the program itself: it never signs in."""

    SYSTEM = "system"
    ADMIN = "admin"
    MEMBER = "member"


class Via(StrEnum):
    """How a caller has shown who it is."""

    SESSION = "session"
    KEY = "key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Whoever sent a request."""

    tenant_id: UUID
    tenant: str
    user_id: UUID
    name: str
    role: Role
    via: Via
    csrf: str = ""  # what forms of a session must carry
    key_ends: datetime | None = None  # of whoever calls with a key that does not last for ever

    @property
    def is_admin(self) -> bool:
        return self.role is Role.ADMIN
