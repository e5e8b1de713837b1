"""`result.json` of Telegram Desktop: of one chat or of a whole account, as it is written today or before 2021."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from telegram_assistant.domain.media_rules import clean_name
from telegram_assistant.domain.post import (
    NO_COUNTERS,
    Counters,
    Forward,
    Media,
    MediaKind,
    Poll,
    Post,
    ReplyTo,
    Service,
)
from telegram_assistant.domain.text import Entity, EntityKind, clean_text, links_of
from telegram_assistant.source.export_files import BadExport, ExportFiles, beside
from telegram_assistant.source.export_posts import (
    Batch,
    Chat,
    NoZone,
    bare_chat_id,
    check_place,
    finished,
    linked,
    moment_of,
)
from telegram_assistant.source.export_stream import Stream

_KINDS = {
    **{kind.value: kind for kind in EntityKind},
    "link": EntityKind.URL,
    "text_link": EntityKind.TEXT_URL,
    "mention_name": EntityKind.TEXT_MENTION,
    "strikethrough": EntityKind.STRIKE,
}
_FILES = {
    "sticker": MediaKind.STICKER,
    "video_message": MediaKind.VIDEO_NOTE,
    "voice_message": MediaKind.VOICE,
    "animation": MediaKind.ANIMATION,
    "video_file": MediaKind.VIDEO,
    "audio_file": MediaKind.AUDIO,
}
_ACTIONS = {
    "pin_message": "pin",
    "edit_group_title": "title",
    "edit_group_photo": "photo",
    "create_channel": "created",
}
_OTHER = ("contact", "venue", "geo", "game", "invoice")
_NOTHING = (UNSET,) * len(_OTHER)


class _Head(Struct):
    """What the first look needs of a message."""

    id: int
    date: str = ""
    date_unixtime: str = ""


class _Part(Struct):
    type: str
    text: str
    href: str = ""
    language: str = ""
    document_id: str = ""
    user_id: int | str = ""


class _Answer(Struct):
    text: Raw


class _Poll(Struct):
    question: Raw
    answers: list[_Answer]
    closed: bool = False
    total_voters: int | None = None


class _Reaction(Struct):
    count: int
    type: str = "emoji"
    emoji: str = ""
    document_id: str = ""


class _Message(Struct, gc=False):
    id: int
    type: str
    date: str = ""
    date_unixtime: str = ""
    edited: str = ""
    edited_unixtime: str = ""
    text: Raw = Raw(b'""')
    text_entities: list[_Part] | UnsetType = UNSET
    from_: str | None = msgspec.field(default=None, name="from")
    from_id: str | int | None = None
    author: str = ""
    forwarded_from: str | UnsetType | None = UNSET
    forwarded_from_id: str | int | None = None
    reply_to_message_id: int | None = None
    reply_to_peer_id: str | int | None = None
    photo: str = ""
    photo_file_size: int | None = None
    file: str = ""
    file_name: str = ""
    file_size: int | None = None
    media_type: str = ""
    mime_type: str | None = None
    duration_seconds: float | None = None
    width: int | None = None
    height: int | None = None
    contact_information: Raw | UnsetType = UNSET
    location_information: Raw | UnsetType = UNSET
    place_name: Raw | UnsetType = UNSET
    game_title: Raw | UnsetType = UNSET
    invoice_information: Raw | UnsetType = UNSET
    poll: _Poll | UnsetType = UNSET
    reactions: list[_Reaction] = []
    action: str = ""
    title: str | None = None
    message_id: int | None = None


_clean_emoji = lru_cache(maxsize=1024)(clean_text)  # the same few come with every post
_decode_text = msgspec.json.Decoder(str | list[str | _Part]).decode
_STRANGE = (ValueError, TypeError, LookupError, ArithmeticError, OSError, msgspec.MsgspecError)


class JsonExport:
    """One `result.json`."""

    def __init__(self, files: ExportFiles, name: str, *, latest: datetime) -> None:
        self._files = files
        self._name = name
        self._latest = latest

    def survey(self, zone: tzinfo | None) -> list[Chat]:
        found: list[Chat] = []
        with self._files.reading(self._name) as file:
            stream = Stream(file, self._shown)
            for header in _message_lists(stream):
                chat = Chat(name=self._name, title="", number=len(found), files=[self._name])
                for heads in stream.many(_Head):
                    for head in heads:
                        self._saw(chat, head, zone)
                found.append(chat)
                header["chat"] = chat
            stream.finish()
        if not found:
            raise BadExport(f"{self._shown}: no chat is in it: it is no export of messages")
        return found

    def batches(self, chat: Chat, channel_id: int, zone: tzinfo | None, size: int) -> Iterator[Batch]:
        turn = _Turn(self._files, chat, channel_id, zone, self._latest)
        with self._files.reading(self._name) as file:
            stream = Stream(file, self._shown)
            for number, _ in enumerate(_message_lists(stream)):
                if number == chat.number:
                    yield from _batches(stream, turn, size)
                    return
                for _ in stream.many(Raw):
                    pass

    @property
    def _shown(self) -> str:
        shown = self._files.shown
        return shown if shown.endswith(self._name) else f"{shown}/{self._name}"

    def _saw(self, chat: Chat, head: _Head | None, zone: tzinfo | None) -> None:
        if head is None:
            chat.unusual += 1
            return
        if head.date and not head.date_unixtime:
            chat.without_offset = True
        try:
            at = _moment(head.date_unixtime, head.date, zone)
            check_place(head.id, at, self._latest)
        except NoZone:
            raise
        except _STRANGE:
            chat.unusual += 1
        else:
            chat.saw(head.id, at)


def _message_lists(stream: Stream, *, top: bool = True) -> Iterator[dict[str, Any]]:
    """Stops at each list of messages, which the caller reads. What is said of the chat may follow after them.

    The caller puts its `chat` into what it gets, and is told there who that is.
    """
    header: dict[str, Any] = {}
    for key in stream.members():
        if key == "messages":
            yield header
        elif key in {"name", "type", "id"}:
            header[key] = stream.value(Any)
        elif top and key in {"chats", "left_chats"}:
            yield from _lists_of_chats(stream)
        else:
            stream.value(Raw)
    chat = header.get("chat")
    if isinstance(chat, Chat):
        chat.title = clean_text(str(header.get("name") or "")) or str(header.get("type") or "")
        chat.kind = str(header.get("type") or "")
        try:
            chat.id = bare_chat_id(int(header["id"]), chat.kind, old=chat.without_offset)
        except (KeyError, TypeError, ValueError) as exc:
            raise stream.bad("it does not say which channel it is of: it is no export of Telegram Desktop") from exc


def _lists_of_chats(stream: Stream) -> Iterator[dict[str, Any]]:
    for key in stream.members():
        if key != "list":
            stream.value(Raw)
            continue
        for _ in stream.items():
            yield from _message_lists(stream, top=False)


def _batches(stream: Stream, turn: _Turn, size: int) -> Iterator[Batch]:
    posts: list[Post] = []
    unusual = 0
    for messages in stream.many(_Message):
        for message in messages:
            post = None if message is None else turn.post(message)
            if post is None:
                unusual += 1
            else:
                posts.append(post)
            if len(posts) >= size:
                yield Batch(posts, unusual, stream.done)
                posts, unusual = [], 0
    if posts or unusual:
        yield Batch(posts, unusual, stream.done)


class _Turn:
    """Messages of one chat as posts."""

    def __init__(self, files: ExportFiles, chat: Chat, channel_id: int, zone: tzinfo | None, latest: datetime) -> None:
        self._files = files
        self._chat = chat
        self._channel_id = channel_id
        self._zone = zone
        self._latest = latest
        self._own = f"channel{channel_id}"
        self._is_channel = chat.is_channel

    def post(self, message: _Message) -> Post | None:
        """None when it cannot be understood."""
        try:
            return self._post(message)
        except _STRANGE:
            return None

    def _post(self, message: _Message) -> Post:
        posted_at = _moment(message.date_unixtime, message.date, self._zone)
        check_place(message.id, posted_at, self._latest)
        service = message.type == "service"
        text, entities = _text_of(message)
        links = linked(entities)
        author, author_id = (None, None) if service else self._author(message)
        return Post(
            channel_id=self._channel_id,
            message_id=message.id,
            posted_at=posted_at,
            text=text,
            entities=tuple(entities),
            links=links_of(text, links) if links else (),
            media=() if service else self._media(message),
            forward=_forward(message) if message.forwarded_from is not UNSET else None,
            reply_to=_reply(message) if message.reply_to_message_id else None,
            author=author,
            author_id=author_id,
            edited_at=self._edited(message, posted_at),
            poll=None if message.poll is UNSET else _poll(message.poll),
            service=_service(message) if service else None,
            counters=_counters(message.reactions) if message.reactions else NO_COUNTERS,
            exported_at=self._chat.newest_at,
        )

    def _author(self, message: _Message) -> tuple[str | None, int | None]:
        if message.author:
            return clean_text(message.author), None
        if self._is_channel or message.from_id is None or str(message.from_id) == self._own:
            return None, None
        kind, number = _peer(message.from_id)
        return clean_text(message.from_ or "") or None, number if kind == "user" else None

    def _media(self, message: _Message) -> tuple[Media, ...]:
        path = message.photo or message.file
        if not path and not message.media_type:
            return _no_files(message)
        # In brackets stands why there is no file.
        there = None if path.startswith("(") else beside(self._files, self._chat.name, path)
        return _media_of(message, there)

    def _edited(self, message: _Message, posted_at: datetime) -> datetime | None:
        if not (message.edited_unixtime or message.edited):
            return None
        at = _moment(message.edited_unixtime, message.edited, self._zone)
        return at if posted_at < at <= self._latest else None  # before 2021 `never` was written as 1970


def _moment(unixtime: str, local: str, zone: tzinfo | None) -> datetime:
    return datetime.fromtimestamp(int(unixtime), UTC) if unixtime else moment_of(local, zone)


def _text_of(message: _Message) -> tuple[str, list[Entity]]:
    if message.text_entities is not UNSET:
        return _assembled(message.text_entities)
    found = _decode_text(message.text)
    return (clean_text(found), []) if isinstance(found, str) else _assembled(found)


def _assembled(parts: list[Any]) -> tuple[str, list[Entity]]:
    """Telegram Desktop cuts a text where its formatting changes."""
    pieces: list[str] = []
    entities: list[Entity] = []
    offset = 0
    for part in parts:
        said = part if isinstance(part, str) else part.text
        pieces.append(said)
        length = len(said)
        if part is not said and length and part.type != "plain":
            entities.append(_entity(part, offset, length))
        offset += length
    return finished("".join(pieces), entities)


def _entity(part: _Part, offset: int, length: int) -> Entity:
    kind = _KINDS.get(part.type, EntityKind.OTHER)
    if kind is EntityKind.TEXT_URL:
        return Entity(kind, offset, length, clean_text(part.href))
    if not (part.language or part.user_id or part.document_id):
        return Entity(kind, offset, length)
    detail = part.language or part.user_id or (part.document_id if part.document_id.isdecimal() else "")
    return Entity(kind, offset, length, detail=clean_text(str(detail)) or None)


def _media_of(message: _Message, path: str | None) -> tuple[Media, ...]:
    if message.photo:
        kind, mime, size = MediaKind.PHOTO, "image/jpeg", message.photo_file_size
        name = ""
    else:
        kind, size = _FILES.get(message.media_type, MediaKind.DOCUMENT), message.file_size
        mime = clean_text(message.mime_type or "")
        name = message.file_name or ("" if message.file.startswith("(") else message.file.rpartition("/")[2])
    found = Media(
        kind=kind,
        mime=mime or None,
        size=size,
        width=message.width,
        height=message.height,
        duration=message.duration_seconds,
        name=clean_name(name) if name else None,
        reference=path,
    )
    return (found,)


def _no_files(message: _Message) -> tuple[Media, ...]:
    told = (
        message.contact_information,
        message.place_name,
        message.location_information,
        message.game_title,
        message.invoice_information,
    )
    if told == _NOTHING:
        return ()
    name = next(name for name, said in zip(_OTHER, told, strict=True) if said is not UNSET)
    return (Media(kind=MediaKind.OTHER, name=name),)


def _forward(message: _Message) -> Forward:
    kind, number = _peer(message.forwarded_from_id)
    name = message.forwarded_from
    return Forward(
        channel_id=number if kind == "channel" else None,
        user_id=number if kind == "user" else None,
        name=clean_text(name) if isinstance(name, str) else None,
    )


def _reply(message: _Message) -> ReplyTo:
    kind, number = _peer(message.reply_to_peer_id)
    return ReplyTo(message_id=message.reply_to_message_id or 0, channel_id=number if kind == "channel" else None)


def _peer(told: str | int | None) -> tuple[str, int | None]:
    """`channel123` is (channel, 123). Before 2021 there were only numbers, of users."""
    if isinstance(told, int):
        return "user", told
    kind = (told or "").rstrip("0123456789")
    number = (told or "")[len(kind) :]
    return kind, int(number) if number else None


def _poll(poll: _Poll) -> Poll:
    return Poll(
        question=_plain(poll.question),
        answers=tuple(_plain(answer.text) for answer in poll.answers),
        closed=poll.closed,
        voters=poll.total_voters,
    )


def _plain(raw: Raw) -> str:
    found = _decode_text(raw)
    return clean_text(found) if isinstance(found, str) else _assembled(found)[0]


def _counters(reactions: list[_Reaction]) -> Counters:
    known = {
        _clean_emoji(f"custom:{one.document_id}" if one.type == "custom_emoji" else one.emoji or one.type): one.count
        for one in reactions
    }
    return Counters(reactions=tuple(sorted(known.items())))


def _service(message: _Message) -> Service:
    detail = message.message_id or message.title
    action = clean_text(message.action) or "unknown"
    return Service(_ACTIONS.get(action, action), clean_text(str(detail)) if detail else None)
