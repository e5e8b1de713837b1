"""Who asks, and what they may do. The tenant comes from the credential, never from a parameter (G7, LESSONS 17).

What is done with a channel touches all who watch it, so the rights stand here, for API, pages and bot alike. The
command line is the operator's: it acts for the system's tenant, and may do all.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

SYSTEM_TENANT = "00000000-0000-0000-0000-000000000001"
SYSTEM_USER = "00000000-0000-0000-0000-000000000002"


class Role(StrEnum):
    """What a user may do in its tenant. `system` is the program itself: it never signs in."""

    SYSTEM = "system"
    ADMIN = "admin"
    MEMBER = "member"


class Right(StrEnum):
    """What can be done with the channels that a tenant watches."""

    ADD = "add"
    VISIT = "visit"
    RECENT_HISTORY = "recent_history"
    OLD_HISTORY = "old_history"
    CHANGE = "change"
    REVIVE = "revive"
    REMOVE = "remove"
    DROP_REQUEST = "drop_request"  # of another user; one's own is always one's own


RECENT = timedelta(days=31)  # history that a member may ask for
OLD_HISTORIES_A_DAY = 20  # that a tenant may ask for: each can take thousands of requests
_OF_MEMBERS = frozenset({Right.ADD, Right.VISIT, Right.RECENT_HISTORY})
_REFUSALS = {
    Right.OLD_HISTORY: f"Only an admin may ask for posts that are older than {RECENT.days} days: ask one of yours",
    Right.REMOVE: "Only an admin may remove a channel, because your whole tenant would lose it: ask one of yours",
    Right.DROP_REQUEST: "Only an admin may take back what another user asked for",
}


def may(role: Role, right: Right) -> bool:
    return role in {Role.ADMIN, Role.SYSTEM} or right in _OF_MEMBERS


def refusal(right: Right) -> str:
    """What is told to who may not."""
    return _REFUSALS.get(right, "Only an admin may do this")


class Via(StrEnum):
    """How a caller has shown who it is."""

    SESSION = "session"
    KEY = "key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The sender of a request."""

    tenant_id: UUID
    tenant: str
    user_id: UUID
    name: str
    role: Role
    via: Via
    csrf: str = ""  # what forms of a session must carry
    key_ends: datetime | None = None  # where the key does not last for ever

    def may(self, right: Right) -> bool:
        return may(self.role, right)

    @property
    def is_admin(self) -> bool:
        return self.role is Role.ADMIN

    @property
    def is_operator(self) -> bool:
        """An admin of the first tenant: runs the whole installation."""
        return self.is_admin and str(self.tenant_id) == SYSTEM_TENANT


def owners_for(tenant_id: UUID) -> list[UUID]:
    """Public channels are in the indexes of the system, private ones in those of their tenant."""
    return list(dict.fromkeys((UUID(SYSTEM_TENANT), tenant_id)))
