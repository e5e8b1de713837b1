"""The one wire format: a stream entry carries a batch of events as a JSON array in the field `events`.

A batch per entry costs a twentieth of an entry per event, and people can still read it with XRANGE.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from telegram_assistant.domain import events
from telegram_assistant.domain.events import Event
from telegram_assistant.errors import Reject, Retry
from telegram_assistant.names import (
    ALBUM_ASSEMBLED,
    ALBUMS_PARSED,
    MEDIA_SETTLED,
    POSTS_CRAWL,
    POSTS_DELETED,
    POSTS_ENRICHED,
    POSTS_INDEXED,
    POSTS_PARSED,
    POSTS_RETAG,
    POSTS_TAGGED,
    POSTS_VISION_ANALYZED,
)

FIELD = "events"
LONGEST_NAME = 500  # characters of what an event is called by: more fits into no index of the tables
EVENTS: dict[str, type[Event]] = {
    POSTS_PARSED: events.PostParsed,
    POSTS_DELETED: events.PostDeleted,
    ALBUMS_PARSED: events.AlbumParsed,
    MEDIA_SETTLED: events.MediaSettled,
    POSTS_VISION_ANALYZED: events.PostVisionAnalyzed,
    POSTS_RETAG: events.PostRetag,
    POSTS_TAGGED: events.PostTagged,
    POSTS_CRAWL: events.PostCrawl,
    POSTS_ENRICHED: events.PostEnriched,
    POSTS_INDEXED: events.PostIndexed,
    ALBUM_ASSEMBLED: events.AlbumAssembled,
}
NAMES = {kind: name for name, kind in EVENTS.items()}

E = TypeVar("E", bound=Event)

_encoder = msgspec.json.Encoder()
_decoders: dict[type[Event], msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(list[kind])  # type: ignore[valid-type]  # the type is made at run time
    for kind in EVENTS.values()
}


def encode(batch: Sequence[Event | msgspec.Raw]) -> bytes:
    return _encoder.encode(batch)


def decode(kind: type[E], payload: bytes | str) -> list[E]:
    """Raises Reject for what no version of ours has written."""
    try:
        batch: list[E] = _decoders[kind].decode(payload)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as exc:  # nested deeper than any event, or no text
        raise Reject(f"not a batch of {kind.__name__}: {exc}") from exc
    if any(map(_is_odd, batch)):
        raise Reject(f"not a batch of {kind.__name__}: a name in its envelope is too long, or has a NUL in it")
    newer = [event for event in batch if event.schema_version > events.SCHEMA_VERSION]
    if newer:
        raise Retry(f"{kind.__name__} of version {newer[0].schema_version} is newer than this program: upgrade it")
    return batch


def _is_odd(event: Event) -> bool:
    """The tables could keep neither its steps nor its dead letter, and whoever tries would try for ever."""
    names = event.trace_id, event.idempotency_key, getattr(event, "content_hash", "")
    return any(len(name) > LONGEST_NAME or "\0" in name for name in names)
