"""The one wire format: a stream entry carries a batch of events as a JSON array in the field `events`.

A batch per entry costs a twentieth of an entry per event, and people can still read it with XRANGE.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from telegram_assistant.domain.events import AlbumParsed, Event, PostDeleted, PostParsed
from telegram_assistant.errors import Reject
from telegram_assistant.names import ALBUMS_PARSED, POSTS_DELETED, POSTS_PARSED

FIELD = "events"
EVENTS: dict[str, type[Event]] = {POSTS_PARSED: PostParsed, POSTS_DELETED: PostDeleted, ALBUMS_PARSED: AlbumParsed}

E = TypeVar("E", bound=Event)

_encoder = msgspec.json.Encoder()
_decoders: dict[type[Event], msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(list[kind])  # type: ignore[valid-type]  # the type is made at run time
    for kind in EVENTS.values()
}


def encode(events: Sequence[Event | msgspec.Raw]) -> bytes:
    return _encoder.encode(events)


def decode(kind: type[E], payload: bytes | str) -> list[E]:
    """Raises Reject for what no version of ours has written."""
    try:
        events: list[E] = _decoders[kind].decode(payload)
    except msgspec.MsgspecError as exc:
        raise Reject(f"not a batch of {kind.__name__}: {exc}") from exc
    return events
