"""What hostile or broken channels hold: messages that a reader must survive, and say what was wrong with them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial

from telegram_simulator.draft import POST_LIMIT
from telegram_simulator.model import Channel, Entity, File, Kind, Message
from telegram_simulator.pictures import Picture
from telegram_simulator.world import World

LARGE = 64 * 1024 * 1024


def post_oddities(world: World, channel: Channel, *, large: int = LARGE) -> dict[str, Message]:
    """Post one of each; the keys say what is odd about them. `large` is the size of the large document."""
    makers: dict[str, Callable[[int, datetime], Message]] = {
        "combining": _combining,
        "nul_name": _nul_name,
        "cut_photo": _cut_photo,
        "large_document": partial(_large_document, size=large),
        "markup": _markup,
        "entity_outside": _entity_outside,
    }
    return {
        name: world.post(channel, make(world.next_id(channel), world.now().replace(microsecond=0)))
        for name, make in makers.items()
    }


def _file(message_id: int, kind: Kind, mime: str, draw: Callable[[], bytes], name: str | None = None) -> File:
    return File(id=(1 << 61) + message_id, access_hash=message_id, kind=kind, mime=mime, draw=draw, name=name)


def _combining(message_id: int, at: datetime) -> Message:
    """One letter under 4,095 combining marks."""
    return Message(message_id, at, "e" + "\N{COMBINING DIAERESIS}" * (POST_LIMIT - 1))


def _nul_name(message_id: int, at: datetime) -> Message:
    file = _file(message_id, Kind.DOCUMENT, "text/plain", lambda: b"nothing to see\n" * 80, "re\x00port/../x.txt")
    return Message(message_id, at, "A file whose name holds a NUL", file=file)


def _cut_photo(message_id: int, at: datetime) -> Message:
    """The bytes end before the length that was promised."""
    picture = Picture("card", ("The end is missing",), message_id, 480, 480, 24_000)
    file = _file(message_id, Kind.PHOTO, "image/jpeg", lambda: picture()[-9_000:-4_000])
    file.width, file.height, file.length = picture.width, picture.height, picture.length
    return Message(message_id, at, "A photo that ends early", file=file)


def _large_document(message_id: int, at: datetime, size: int) -> Message:
    file = _file(message_id, Kind.DOCUMENT, "application/octet-stream", lambda: bytes(size), "large.bin")
    file.length = size
    return Message(message_id, at, "A document that is too large", file=file)


def _markup(message_id: int, at: datetime) -> Message:
    text = "<script>alert(1)</script> \"><img src=x onerror=alert(1)> {{7*7}} ${jndi:x} '; DROP TABLE posts; --"
    return Message(message_id, at, text)


def _entity_outside(message_id: int, at: datetime) -> Message:
    """An entity that reaches beyond the end of the text."""
    return Message(message_id, at, "short 🙂", entities=(Entity("bold", 6, 40),))
