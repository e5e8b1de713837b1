"""Where a page ends: a cursor that stays right when posts come and go meanwhile."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from datetime import datetime
from hashlib import blake2b
from uuid import UUID

import msgspec

from telegram_assistant.errors import Reject
from telegram_assistant.search.ranking import Scale

LONGEST = 1_500
FIRST_YEAR, LAST_YEAR = 1970, 9000
WRONG = "this cursor is not one of this search: begin without it"


class Cursor(msgspec.Struct, frozen=True, array_like=True):
    """The last story shown, by what they are ordered by; what was indexed since the first page is not looked at.

    `base` is where the window of candidates begins: the newest ones are looked through window by window.
    """

    asked: str  # of what query and order
    as_of: datetime
    last: tuple[float, float, UUID] | None = None
    base: tuple[datetime, UUID] | None = None
    scale: Scale | None = None  # of the scores on the first page

    def __str__(self) -> str:
        """As it goes out, and comes back."""
        return urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")


def read_cursor(text: str, asked: str) -> Cursor:
    """Raises Reject for one that was made up, or made by another search."""
    try:
        cursor = msgspec.json.decode(urlsafe_b64decode(text[:LONGEST] + "=" * (-len(text) % 4)), type=Cursor)
    except (msgspec.DecodeError, Error, ValueError) as exc:
        raise Reject(WRONG) from exc
    moments = [cursor.as_of] if cursor.base is None else [cursor.as_of, cursor.base[0]]
    if cursor.asked != asked or not all(map(_sensible, moments)):
        raise Reject(WRONG)
    return cursor


def _sensible(moment: datetime) -> bool:
    """A moment that can be reckoned with in any zone."""
    return moment.tzinfo is not None and FIRST_YEAR <= moment.year <= LAST_YEAR


def digest_of(*parts: object) -> str:
    """What a cursor belongs to."""
    return blake2b(repr(parts).encode("utf-8", "surrogatepass"), digest_size=9).hexdigest()
