"""`messages*.html` of Telegram Desktop. They say less than JSON: not which channel, nor when a post was edited."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo
from html import unescape
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote

from lxml import etree

from telegram_assistant.domain.media_rules import clean_name
from telegram_assistant.domain.post import NO_COUNTERS, Counters, Forward, Media, MediaKind, Poll, Post, ReplyTo
from telegram_assistant.domain.text import Entity, EntityKind, clean_text, links_of
from telegram_assistant.source.export_files import BadExport, ExportFiles, beside
from telegram_assistant.source.export_posts import (
    Batch,
    Chat,
    NoZone,
    check_place,
    finished,
    linked,
    moment_of,
)

LARGEST_PAGE = 32 << 20  # a page has a thousand messages at most
_TITLE = re.compile(rb'class="page_header".*?class="text bold">\s*(.*?)\s*</div>', re.DOTALL)
_MESSAGE = re.compile(rb'<div class="message (default|service)[^"]*" id="message(\d+)"')
_FROM = re.compile(
    rb'<div class="body">\s*<div class="pull_right date[^>]*>[^<]*</div>\s*<div class="from_name">\s*([^<]*?)\s*<'
)
_VIA = re.compile(r"\s+via @\w+$")
_DATE = re.compile(rb'class="pull_right date details" title="([^"]*)"')
_WHEN = re.compile(r"(\d\d)\.(\d\d)\.(\d{4}) (\d\d:\d\d:\d\d)(?: UTC([+-]\d\d:\d\d))?", re.ASCII)
_NUMBER = re.compile(r"\d+", re.ASCII)
_TAGS = {
    "strong": EntityKind.BOLD,
    "b": EntityKind.BOLD,
    "em": EntityKind.ITALIC,
    "i": EntityKind.ITALIC,
    "u": EntityKind.UNDERLINE,
    "s": EntityKind.STRIKE,
    "del": EntityKind.STRIKE,
    "code": EntityKind.CODE,
    "pre": EntityKind.PRE,
    "blockquote": EntityKind.BLOCKQUOTE,
    "span": EntityKind.SPOILER,
}
_CALLS = (
    ("ShowHashtag", EntityKind.HASHTAG),
    ("ShowCashtag", EntityKind.CASHTAG),
    ("ShowBotCommand", EntityKind.BOT_COMMAND),
    ("ShowMentionName", EntityKind.TEXT_MENTION),
    ("ShowSpoiler", EntityKind.SPOILER),
)
_MEDIA = {
    "photo_wrap": MediaKind.PHOTO,
    "video_file_wrap": MediaKind.VIDEO,
    "animated_wrap": MediaKind.ANIMATION,
    "sticker_wrap": MediaKind.STICKER,
    "media_photo": MediaKind.PHOTO,
    "media_video": MediaKind.VIDEO,
    "media_file": MediaKind.DOCUMENT,
    "media_audio_file": MediaKind.AUDIO,
    "media_voice_message": MediaKind.VOICE,
    "media_contact": MediaKind.OTHER,
    "media_location": MediaKind.OTHER,
    "media_live_location": MediaKind.OTHER,
    "media_venue": MediaKind.OTHER,
    "media_game": MediaKind.OTHER,
    "media_invoice": MediaKind.OTHER,
}
_NAMED = {"location": "geo", "live_location": "geo_live"}
_TITLED = {
    "Sticker": MediaKind.STICKER,
    "Animation": MediaKind.ANIMATION,
    "Video message": MediaKind.VIDEO_NOTE,
}
_FOLDERS = {
    "round_video_messages": MediaKind.VIDEO_NOTE,
    "voice_messages": MediaKind.VOICE,
    "stickers": MediaKind.STICKER,
}
_STRANGE = (ValueError, TypeError, LookupError, ArithmeticError)


class HtmlExport:
    """The pages of one chat, in their order."""

    def __init__(self, files: ExportFiles, names: Sequence[str], *, latest: datetime) -> None:
        self._files = files
        self._names = sorted(names, key=_page_number)
        self._latest = latest

    def survey(self, zone: tzinfo | None) -> list[Chat]:
        chat = Chat(name=self._names[0], title="", edits_dated=False, files=list(self._names))
        writers: set[str] = set()
        for name in self._names:
            page = self._page(name)
            title = _TITLE.search(page)
            if title is None or b'class="history"' not in page:
                raise BadExport(f"{self._shown(name)}: it is no page of messages of Telegram Desktop")
            if b"</html>" not in page[-200:]:
                raise BadExport(f"{self._shown(name)}: it ends early: copy it again, or export again")
            said = clean_text(unescape(title[1].decode(errors="replace"))).strip()
            if chat.title and said != chat.title:
                raise BadExport(f"{self._shown(name)}: it is of {said!r}, and another page of {chat.title!r}")
            chat.title = said
            writers.update(_writer(unescape(one.decode(errors="replace"))) for one in _FROM.findall(page))
            self._count(chat, page, zone)
        # In a channel the channel itself speaks, in all other chats its people do.
        chat.kind = "channel" if writers <= {chat.title} else "chat of several people"
        return [chat]

    def batches(self, chat: Chat, channel_id: int, zone: tzinfo | None, size: int) -> Iterator[Batch]:
        turn = _Turn(self._files, chat, channel_id, zone, self._latest)
        posts: list[Post] = []
        unusual = done = 0
        for name in self._names:
            page = self._page(name)
            done += len(page)
            for element in _messages(page):
                post = turn.post(element, name)
                if post is None:
                    unusual += 1
                else:
                    posts.append(post)
                if len(posts) >= size:
                    yield Batch(posts, unusual, done)
                    posts, unusual = [], 0
        if posts or unusual:
            yield Batch(posts, unusual, done)

    def _page(self, name: str) -> bytes:
        if (self._files.size(name) or 0) > LARGEST_PAGE:
            raise BadExport(f"{self._shown(name)}: it is larger than any page of an export: it is not read")
        with self._files.reading(name) as file:
            return file.read()

    def _shown(self, name: str) -> str:
        shown = self._files.shown
        return shown if shown.endswith(name) else f"{shown}/{name}"

    def _count(self, chat: Chat, page: bytes, zone: tzinfo | None) -> None:
        found = _MESSAGE.findall(page)
        ids = [int(number) for kind, number in found if kind == b"default"]
        dates = _DATE.findall(page)
        chat.messages += len(ids)
        chat.undated += len(found) - len(ids)
        if ids:
            chat.lowest_id, chat.highest_id = min([chat.lowest_id or ids[0], *ids]), max([chat.highest_id, *ids])
        for date in {*dates[:1], *dates[-1:]}:
            try:
                at, told = _moment(date.decode(errors="replace"), zone)
            except NoZone:
                raise
            except _STRANGE:
                continue
            chat.without_offset = chat.without_offset or not told
            if at <= self._latest:
                chat.newest_at = max(chat.newest_at, at)


def _page_number(name: str) -> tuple[str, int]:
    path = PurePosixPath(name)
    number = _NUMBER.search(path.stem)
    return str(path.parent), int(number[0]) if number else 1


def _messages(page: bytes) -> Iterator[Any]:
    root = etree.fromstring(page, etree.HTMLParser(encoding="utf-8"))
    history = root.find(".//div[@class='history']") if root is not None else None
    for element in history if history is not None else ():
        if (element.get("class") or "").startswith("message default"):
            yield element


def _moment(text: str, zone: tzinfo | None) -> tuple[datetime, bool]:
    """A time, and whether it had its offset."""
    found = _WHEN.match(text)
    if found is None:
        raise ValueError(f"{text!r} is no time of Telegram Desktop")
    day, month, year, time, offset = found.groups()
    return moment_of(f"{year}-{month}-{day}T{time}{offset or ''}", zone), offset is not None


class _Turn:
    """Messages of one chat as posts."""

    def __init__(self, files: ExportFiles, chat: Chat, channel_id: int, zone: tzinfo | None, latest: datetime) -> None:
        self._files = files
        self._chat = chat
        self._channel_id = channel_id
        self._zone = zone
        self._latest = latest
        self._writer: str | None = None

    def post(self, element: Any, name: str) -> Post | None:
        """None when it cannot be understood."""
        try:
            return self._post(element, name)
        except _STRANGE:
            return None

    def _post(self, element: Any, name: str) -> Post:
        message_id = int((element.get("id") or "").removeprefix("message"))
        parts = _Parts.of(element)
        posted_at, _ = _moment(parts.date, self._zone)
        check_place(message_id, posted_at, self._latest)
        if parts.writer is not None:
            self._writer = None if parts.writer == self._chat.title else parts.writer
        text, entities = _text_of(parts.text) if parts.text is not None else ("", [])
        links = linked(entities)
        return Post(
            channel_id=self._channel_id,
            message_id=message_id,
            posted_at=posted_at,
            text=text,
            entities=tuple(entities),
            links=links_of(text, links) if links else (),
            media=tuple(_media_of(one, self._files, name) for one in parts.media),
            forward=None if parts.forwarded is None else Forward(name=parts.forwarded or None),
            reply_to=None if parts.reply is None else ReplyTo(message_id=parts.reply),
            author=parts.signature or self._writer,
            poll=None if parts.poll is None else _poll(parts.poll),
            counters=NO_COUNTERS if parts.reactions is None else _counters(parts.reactions),
            exported_at=self._chat.newest_at,
        )


class _Parts:
    """The parts of a message, found in one walk over its body."""

    __slots__ = ("date", "forwarded", "media", "poll", "reactions", "reply", "signature", "text", "writer")

    def __init__(self) -> None:
        self.date = ""
        self.writer: str | None = None
        self.forwarded: str | None = None
        self.reply: int | None = None
        self.signature: str | None = None
        self.text: Any = None
        self.poll: Any = None
        self.reactions: Any = None
        self.media: list[Any] = []

    @classmethod
    def of(cls, element: Any) -> _Parts:
        parts = cls()
        for body in element:
            if body.get("class") == "body":
                parts._walk(body)
        return parts

    def _walk(self, body: Any) -> None:
        for child in body:
            kind = child.get("class") or ""
            if kind == "text":
                self.text = child
            elif kind == "pull_right date details":
                self.date = child.get("title") or ""
            elif kind == "from_name":
                self.writer = _writer(child.text or "")
            elif kind.startswith("media_wrap"):
                self._walk_media(child)
            elif kind == "signature details":
                self.signature = clean_text((child.text or "").strip()) or None
            elif kind == "reactions":
                self.reactions = child
            elif kind == "reply_to details":
                self.reply = _answered(child)
            elif kind == "forwarded body":
                writer = self.writer
                self._walk(child)
                self.forwarded, self.writer = clean_text(self.writer or ""), writer

    def _walk_media(self, wrap: Any) -> None:
        for one in wrap:
            if one.get("class") == "media_poll":
                self.poll = one
            else:
                self.media.append(one)


def _writer(told: str) -> str:
    """A name, without the bot through which it was written."""
    return _VIA.sub("", clean_text(told).strip())


def _answered(element: Any) -> int | None:
    """None where the message is in another chat."""
    link = element.find("a")
    href = "" if link is None else link.get("href") or ""
    if not href.startswith("#go_to_message"):
        return None
    return int(href.removeprefix("#go_to_message"))


def _text_of(element: Any) -> tuple[str, list[Entity]]:
    """Its text as it was written: lines are parted by <br>, and the file's own spaces around it are not of it."""
    pieces: list[str] = []
    entities: list[Entity] = []
    first = (element.text or "").lstrip("\n")
    pieces.append(first if first.strip() or len(element) else first.strip())
    _walk_text(element, len(pieces[0]), pieces, entities)
    text = "".join(pieces).rstrip()
    length = len(text)
    inside = (entity for entity in entities if entity.offset < length)
    return finished(
        text,
        [
            entity if entity.offset + entity.length <= length else _cut(entity, length - entity.offset)
            for entity in inside
        ],
    )


def _cut(entity: Entity, length: int) -> Entity:
    return Entity(entity.kind, entity.offset, length, entity.url, entity.detail)


def _walk_text(element: Any, offset: int, pieces: list[str], entities: list[Entity]) -> int:
    """Appends what is inside; where it ends."""
    for child in element:
        tag = child.tag
        start, place = offset, len(entities)
        if tag == "br":
            pieces.append("\n")
            offset += 1
        elif isinstance(tag, str):
            before = len(pieces)
            if child.text:
                pieces.append(child.text)
                offset += len(child.text)
            offset = _walk_text(child, offset, pieces, entities)
            if offset > start:
                entity = _entity(child, start, offset - start, pieces[before:])
                if entity is not None:
                    entities.insert(place, entity)
        if child.tail:
            pieces.append(child.tail)
            offset += len(child.tail)
    return offset


def _entity(element: Any, offset: int, length: int, pieces: list[str]) -> Entity | None:
    tag = element.tag
    if tag == "a":
        return _link(element, offset, length, "".join(pieces))
    kind = _TAGS.get(tag)
    if kind is None or (kind is EntityKind.SPOILER and "spoiler" not in (element.get("class") or "")):
        return None
    return Entity(kind, offset, length)


def _link(element: Any, offset: int, length: int, label: str) -> Entity:
    href, call = element.get("href") or "", element.get("onclick") or ""
    kind = EntityKind.TEXT_URL
    if call:
        kind = next((kind for name, kind in _CALLS if name in call), EntityKind.OTHER)
    elif href.startswith("mailto:"):
        kind = EntityKind.EMAIL
    elif href.startswith("tel:"):
        kind = EntityKind.PHONE
    elif label.startswith("@") and href.partition("://")[2].partition("/")[2].lower() == label[1:].lower():
        kind = EntityKind.MENTION
    elif label.strip() == href:
        kind = EntityKind.URL
    return Entity(kind, offset, length, clean_text(href) if kind is EntityKind.TEXT_URL else None)


def _media_of(element: Any, files: ExportFiles, name: str) -> Media:
    classes = (element.get("class") or "").split()
    found = next((one for one in classes if one in _MEDIA), "")
    kind = _MEDIA.get(found, MediaKind.OTHER)
    if kind is MediaKind.OTHER:
        said = found.removeprefix("media_")
        return Media(kind=kind, name=_NAMED.get(said, said) or "unknown")
    href = unquote(element.get("href") or "")
    title = _inner(element, "title bold")
    kind = _FOLDERS.get(href.partition("/")[0], _TITLED.get(title, kind))
    last = href.rpartition("/")[2] or title
    return Media(
        kind=kind,
        mime="image/jpeg" if kind is MediaKind.PHOTO else None,
        name=None if kind is MediaKind.PHOTO or not last else clean_name(last),
        reference=beside(files, name, href),
    )


def _inner(element: Any, kind: str) -> str:
    for one in element.iter("div"):
        if one.get("class") == kind:
            return (one.text or "").strip()
    return ""


def _poll(element: Any) -> Poll:
    question = ""
    answers: list[str] = []
    voters: int | None = None
    for one in element:
        kind, said = one.get("class") or "", (one.text or "").strip()
        if kind == "question bold":
            question = clean_text(said)
        elif kind == "answer":
            answers.append(clean_text(said.removeprefix("-").strip()))
        elif kind.startswith("total"):
            number = _NUMBER.search(said)
            voters = int(number[0]) if number else None
    return Poll(question=question, answers=tuple(answers), voters=voters)


def _counters(element: Any) -> Counters:
    known: dict[str, int] = {}
    for reaction in element:
        emoji = count = ""
        for one in reaction:
            if one.get("class") == "emoji":
                emoji = (one.text or "").strip()
            elif one.get("class") == "count":
                count = (one.text or "").strip()
        if emoji and count.isdecimal():
            known[clean_text(emoji)] = int(count)
    return Counters.counted(reactions=known)
