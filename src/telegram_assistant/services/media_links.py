"""Addresses of files that open without a credential, for their tenant and for a while."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlencode
from uuid import UUID

from telegram_assistant.access.signing import Signer

GOOD_FOR = timedelta(hours=2)
MEDIA = "/api/v1/media"


@dataclass(frozen=True, slots=True)
class MediaLinks:
    """Makes them for one tenant."""

    signer: Signer
    tenant_id: UUID
    now: datetime

    def file(self, sha256: str) -> str:
        return f"{MEDIA}/{sha256}?{self._signed(sha256)}"

    def thumbnail(self, sha256: str, width: int) -> str:
        return f"{MEDIA}/{sha256}/thumbnail?width={width}&{self._signed(sha256)}"

    def _signed(self, sha256: str) -> str:
        # The same for an hour, so that an answer stays the same and a browser can keep what it has.
        expires = self.now.replace(minute=0, second=0, microsecond=0) + GOOD_FOR
        signature = self.signer.sign(_parts(self.tenant_id, sha256), expires=expires)
        return urlencode({"tenant": str(self.tenant_id), "signature": signature})


def is_signed(signer: Signer, tenant_id: UUID, sha256: str, signature: str, *, now: datetime) -> bool:
    return signer.check(_parts(tenant_id, sha256), signature, now=now)


def _parts(tenant_id: UUID, sha256: str) -> tuple[str, ...]:
    return ("media", str(tenant_id), sha256)
