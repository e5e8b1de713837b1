"""A file's bytes, piece by piece, whatever happens to its reference on the way."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeAlias

from telegram_assistant.domain.retries import Failure
from telegram_assistant.domain.source import SourceError
from telegram_assistant.source.telegram_media import FileLocation

PIECE = 512 * 1024  # Telegram's limit is 1 MiB; offsets must be multiples of the piece
MAX_RENEWALS = 3  # in a row, without a byte in between

AskPiece: TypeAlias = Callable[[FileLocation, int], Awaitable[bytes]]
Renew: TypeAlias = Callable[[], Awaitable[FileLocation]]


async def read_file(
    ask: AskPiece, renew: Renew, location: FileLocation | None, size: int | None
) -> AsyncGenerator[bytes, None]:
    """All bytes of a file; raises SourceError when they are fewer or more than announced."""
    total, renewals = 0, 0
    while True:
        try:
            if location is None:
                location = await renew()
            data = await ask(location, total)
        except SourceError as exc:
            renewals += 1
            if exc.failure is not Failure.REFERENCE_EXPIRED or renewals > MAX_RENEWALS:
                raise
            location = None
            continue
        renewals = 0
        total += len(data)
        if size is not None and total > size:
            raise SourceError(Failure.TRANSIENT, f"the file is longer than the {size} bytes that were announced")
        if data:
            yield data
        if len(data) < PIECE or total == size:
            break
    if size is not None and total < size:
        raise SourceError(Failure.TRANSIENT, f"the file ended early: {total} of {size} bytes")
