"""Bringing issues to their readers: what a way of delivery must be able to do, and what it is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from telegram_assistant.domain.digests import Digest, Issue
from telegram_assistant.jobs.digest_desk import Shown
from telegram_assistant.stores.postgres.digests import Reader


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """An issue that has to be brought to somebody."""

    digest: Digest
    issue: Issue
    reader: Reader
    shown: Shown
    page: str | None  # where it can be read with its receipts; None: we do not know our own address


class Delivery(Protocol):
    """A way to bring it. `name` is that of the way: email, bot."""

    @property
    def name(self) -> str: ...

    async def send(self, parcel: Parcel) -> None:
        """Raises Retry when it may work later, Reject with a sentence for the reader when it will not."""
        ...
