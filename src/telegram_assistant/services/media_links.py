"""Addresses of files that open without a credential, for their tenant and for a while."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlencode
from uuid import UUID

from telegram_assistant.access.credentials import Signer
from telegram_assistant.ai.vision.shrink import Shrinker
from telegram_assistant.errors import Skip
from telegram_assistant.stores.media import MediaStore
from telegram_assistant.stores.postgres.post_views import KeptFile

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


LARGEST = 40 * 2**20  # bytes of a file that is read into memory for it
MOST_KEPT = 64 * 2**20  # bytes of thumbnails
_LIMIT = 20.0  # seconds for one picture


class Thumbnails:
    """One per process; it has a process of its own, which starts with the first picture."""

    def __init__(self, media: MediaStore, *, most_kept: int = MOST_KEPT) -> None:
        self._media = media
        self._most_kept = most_kept
        self._shrinker = Shrinker("thumbnail", limit=_LIMIT)
        self._turn = asyncio.Lock()  # a second request for the same picture finds it made
        self._kept: OrderedDict[tuple[str, int], bytes | str] = OrderedDict()
        self._size = 0

    async def thumbnail(self, file: KeptFile, width: int) -> bytes:
        """A WebP. Raises Skip for what is no picture, Retry when there is none now."""
        made = self._kept.get((file.sha256, width))
        if made is None:
            async with self._turn:
                made = self._kept.get((file.sha256, width)) or await self._make(file, width)
        if (file.sha256, width) in self._kept:
            self._kept.move_to_end((file.sha256, width))
        if isinstance(made, str):
            raise Skip(made)
        return made

    async def close(self) -> None:
        await self._shrinker.close()

    async def _make(self, file: KeptFile, width: int) -> bytes | str:
        """Or the reason why there is none, which stays so: the same bytes are the same picture."""
        if file.size > LARGEST:
            return "the file is too large for a preview"
        content = b"".join([piece async for piece in self._media.stream(file.storage_key)])
        made: bytes | str
        try:
            made = await self._shrinker.shrunk(b"%d %b" % (width, content))
        except Skip as exc:
            made = str(exc)
        self._keep((file.sha256, width), made)
        return made

    def _keep(self, key: tuple[str, int], made: bytes | str) -> None:
        self._kept[key] = made
        self._size += len(made)
        while self._size > self._most_kept:
            _, oldest = self._kept.popitem(last=False)
            self._size -= len(oldest)
