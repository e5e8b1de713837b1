"""Files, polls and entities as TL objects."""

from __future__ import annotations

from typing import Any

from telethon.tl import types

from telegram_simulator.model import Entity, File, Kind, Poll

# One grey picture of 8 x 8 pixels is every photo's thumbnail: enough to notice a client that takes the wrong size.
THUMBNAIL = bytes.fromhex(
    "ffd8ffe000104a46494600010100000100010000ffdb004300ffffffffffffffffffffffffffffffffffffffffffffff"
    "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
    "ffc0000b080008000801011100ffc40014000100000000000000000000000000000003ffc400141001000000000000000000"
    "00000000000000ffda0008010100003f0037ffd9"
)
THUMBNAIL_TYPE = "m"

_ENTITIES: dict[str, Any] = {
    "bold": types.MessageEntityBold,
    "italic": types.MessageEntityItalic,
    "url": types.MessageEntityUrl,
    "hashtag": types.MessageEntityHashtag,
    "mention": types.MessageEntityMention,
    "code": types.MessageEntityCode,
    "strike": types.MessageEntityStrike,
    "spoiler": types.MessageEntitySpoiler,
    "blockquote": types.MessageEntityBlockquote,
    "underline": types.MessageEntityUnderline,
    "email": types.MessageEntityEmail,
    "phone": types.MessageEntityPhone,
    "cashtag": types.MessageEntityCashtag,
}


def entity(value: Entity) -> Any:
    if value.kind == "text_url":
        return types.MessageEntityTextUrl(value.offset, value.length, value.url or "")
    if value.kind == "pre":
        return types.MessageEntityPre(value.offset, value.length, "")
    try:
        return _ENTITIES[value.kind](value.offset, value.length)
    except KeyError:
        raise ValueError(f"unknown entity kind {value.kind!r}") from None


def photo_size_type(file: File) -> str:
    """Telegram's letter for the full size of a photo."""
    longest = max(file.width, file.height)
    return "x" if longest <= 800 else "y" if longest <= 1280 else "w"


def media(file: File, date: Any, dc_id: int) -> Any:
    """A message's photo or document."""
    reference = file.references[-1]
    if file.kind is Kind.PHOTO:
        sizes = [
            types.PhotoSize(THUMBNAIL_TYPE, 8, 8, len(THUMBNAIL)),
            types.PhotoSize(photo_size_type(file), file.width, file.height, file.size),
        ]
        photo = types.Photo(file.id, file.access_hash, reference, date, sizes, dc_id)
        return types.MessageMediaPhoto(photo=photo)
    attributes: list[Any] = []
    if file.width and file.mime.startswith("image/"):
        attributes.append(types.DocumentAttributeImageSize(file.width, file.height))
    elif file.mime.startswith("video/"):
        attributes.append(types.DocumentAttributeVideo(1.0, file.width, file.height))
    if file.name is not None:
        attributes.append(types.DocumentAttributeFilename(file.name))
    document = types.Document(file.id, file.access_hash, reference, date, file.mime, file.size, dc_id, attributes)
    return types.MessageMediaDocument(document=document)


def poll(value: Poll) -> Any:
    answers = [
        types.PollAnswer(types.TextWithEntities(text, []), bytes([number])) for number, text in enumerate(value.answers)
    ]
    question = types.TextWithEntities(value.question, [])
    return types.MessageMediaPoll(types.Poll(value.id, question, answers, hash=0), types.PollResults())
