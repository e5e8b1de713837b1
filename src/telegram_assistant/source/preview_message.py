"""One block of a public preview page as a post, or as the posts of an album."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from telegram_assistant.domain.post import (
    LARGEST_MESSAGE_ID,
    Counters,
    Forward,
    Media,
    MediaKind,
    Poll,
    Post,
    Preview,
    ReplyTo,
    Service,
)
from telegram_assistant.domain.text import Link, clean_text, links_of
from telegram_assistant.source.preview_text import Parts, classes, formatted, plain

PART = "tgme_widget_message_"
_MEDIA = {
    f"{PART}photo_wrap": MediaKind.PHOTO,
    f"{PART}video_player": MediaKind.VIDEO,
    f"{PART}roundvideo_player": MediaKind.VIDEO_NOTE,
    f"{PART}voice_player": MediaKind.VOICE,
    f"{PART}document_wrap": MediaKind.DOCUMENT,
    f"{PART}sticker_wrap": MediaKind.STICKER,
    f"{PART}location_wrap": MediaKind.OTHER,
    f"{PART}contact_wrap": MediaKind.OTHER,
    f"{PART}invoice_wrap": MediaKind.OTHER,
    f"{PART}game_wrap": MediaKind.OTHER,
}
_MIMES = {
    MediaKind.PHOTO: "image/jpeg",
    MediaKind.VIDEO: "video/mp4",
    MediaKind.ANIMATION: "video/mp4",
    MediaKind.VIDEO_NOTE: "video/mp4",
    MediaKind.VOICE: "audio/ogg",
}
_SERVICES = (("pinned", "pin"), ("created", "created"), ("photo", "photo"), ("name", "title"))
_ROUNDED = re.compile(r"([0-9]+(?:[.,][0-9]+)?)\s*([KMB]?)", re.IGNORECASE)
_FACTORS = {"": 1, "K": 1_000, "M": 1_000_000, "B": 1_000_000_000}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([KMG]?)B", re.IGNORECASE)
_SIZES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}
_BACKGROUND = re.compile(r"background-image:\s*url\(['\"]?([^'\")]+)")
_WIDTH = re.compile(r"(?:^|;)\s*width:\s*(\d+)px")
_ID_AT_END = re.compile(r"/([^/?]+)/(\d{1,10})(?:\?.*)?$")
_PHOTO_ID = re.compile(r"\d{10,20}")


def rounded(text: str) -> int | None:
    """`1.2K` is 1200."""
    found = _ROUNDED.fullmatch(text.strip().replace("\xa0", "").replace(" ", ""))
    return None if found is None else round(float(found[1].replace(",", ".")) * _FACTORS[found[2].upper()])


def posts_of(block: Parts, channel_id: int, message_id: int) -> tuple[Post, ...]:
    """The post of a block, or all of an album; nothing where not even its time can be read."""
    posted_at = _date(block)
    if posted_at is None or not 0 < message_id <= LARGEST_MESSAGE_ID:
        return ()
    text, entities = _text(block)
    service = _service(block)
    post = Post(
        channel_id=channel_id,
        message_id=message_id,
        posted_at=posted_at,
        text="" if service else text,
        entities=() if service else entities,
        links=links_of(text, entities) or _link_preview(block),
        forward=_forward(block),
        reply_to=_reply(block),
        author=block.words(f"{PART}from_author"),
        poll=_poll(block),
        service=service,
        counters=_counters(block),
        preview=Preview(edited=_is_edited(block)),
    )
    items = _media(block, channel_id, message_id)
    if len(items) < 2:
        return (replace(post, media=tuple(media for found in items.values() for media in found)),)
    # The caption stands under the album; Telegram keeps it with one item, which is nearly always the first.
    first = min(items)
    bare = replace(post, text="", entities=(), links=(), forward=post.forward, poll=None)
    return tuple(
        replace(post if number == first else bare, message_id=number, media=tuple(found), grouped_id=-first)
        for number, found in sorted(items.items())
    )


def _date(block: Parts) -> datetime | None:
    for link in block.all(f"{PART}date"):
        for moment in link.iter("time"):
            try:
                found = datetime.fromisoformat(moment.get("datetime") or "")
            except ValueError:
                continue
            return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    return None


def _text(block: Parts) -> tuple[str, Any]:
    """The text is the post's own: not that of what it answers, and not a label that stands beside it."""
    for node in block.all(f"{PART}text"):
        around = {name for parent in node.iterancestors() for name in classes(parent)}
        if "js-message_reply_text" not in classes(node) and f"{PART}reply" not in around:
            return formatted(node)
    return "", ()


def _service(block: Parts) -> Service | None:
    if "service_message" not in classes(block.root):
        return None
    said = _text(block)[0]
    action = next((action for word, action in _SERVICES if word in said.lower()), "unknown")
    return Service(action, said or None)


def _link_preview(block: Parts) -> tuple[Link, ...]:
    found = block.first(f"{PART}link_preview")
    url = None if found is None else (found.get("href") or "").strip()
    return (Link(clean_text(url), "", hidden=True),) if url else ()


def _forward(block: Parts) -> Forward | None:
    found = block.first(f"{PART}forwarded_from_name")
    if found is None:
        return None
    origin = _ID_AT_END.search(found.get("href") or "")
    return Forward(
        message_id=int(origin[2]) if origin else None,
        name=plain(found) or None,
        author=block.words(f"{PART}forwarded_from_author"),
    )


def _reply(block: Parts) -> ReplyTo | None:
    """Only to a post of the same channel: of another one the page does not tell the id."""
    found = block.first(f"{PART}reply")
    answered = _ID_AT_END.search(found.get("href") or "") if found is not None else None
    own = (block.root.get("data-post") or "").partition("/")[0]
    if answered is None or answered[1].lower() != own.lower() or not int(answered[2]):
        return None
    return ReplyTo(message_id=int(answered[2]))


def _poll(block: Parts) -> Poll | None:
    question = block.words(f"{PART}poll_question")
    if question is None:
        return None
    kind = (block.words(f"{PART}poll_type") or "").lower()
    voters = block.words(f"{PART}voters")
    return Poll(
        question=question,
        answers=tuple(plain(node) for node in block.all(f"{PART}poll_option_text")),
        quiz="quiz" in kind,
        closed="final" in kind,
        voters=rounded(voters) if voters else None,
    )


def _counters(block: Parts) -> Counters:
    views = block.words(f"{PART}views")
    reactions: dict[str, int] = {}
    for node in block.all("tgme_reaction"):
        custom = next(node.iter("tg-emoji"), None)
        emoji = next((plain(one) for one in node.find_class("emoji")), "")
        count = rounded(plain(node).removeprefix(emoji))
        name = f"custom:{custom.get('emoji-id')}" if custom is not None else emoji
        if "tgme_reaction_paid" in classes(node):
            name = "paid"
        if name and count is not None:
            reactions[name] = count
    return Counters.counted(views=rounded(views) if views else None, reactions=reactions)


def _is_edited(block: Parts) -> bool:
    return any("edited" in (node.text or "") for node in block.all(f"{PART}meta"))


def _media(block: Parts, channel_id: int, message_id: int) -> dict[int, list[Media]]:
    """By message: the items of an album link to themselves."""
    items: dict[int, list[Media]] = {}
    for node, kind in _media_nodes(block):
        own = _ID_AT_END.search(node.get("href") or "")
        number = int(own[2]) if own and "single" in (node.get("href") or "") else message_id
        found = items.setdefault(number, [])
        found.append(_file(node, kind, f"{channel_id}:{number}:{len(found)}"))
    if not items and block.all("message_media_not_supported") and not _text(block)[0]:
        return {message_id: [Media(kind=MediaKind.OTHER)]}
    return items


def _media_nodes(block: Parts) -> Iterator[tuple[Any, MediaKind]]:
    if any(name in _MEDIA for name in block):
        for node in block.root.iter("a", "div"):
            for name in classes(node):
                if name in _MEDIA:
                    yield node, _MEDIA[name]
                    break


def _file(node: Any, kind: MediaKind, place: str) -> Media:
    """Addresses die within two days, so they are no file's name; what has none is only told of."""
    video = next(node.iter("video"), None)
    if kind is MediaKind.VIDEO and video is not None and video.get("loop") is not None:
        kind = MediaKind.ANIMATION
    name = size = None
    if kind is MediaKind.DOCUMENT:
        name = Parts(node).words(f"{PART}document_title")
        size = _size(Parts(node).words(f"{PART}document_extra") or "")
        if any("audio" in classes(icon) for icon in node.find_class(f"{PART}document_icon")):
            kind = MediaKind.AUDIO
    url = _address(node, kind, video)
    picture = next((one for one in classes(node) if _PHOTO_ID.fullmatch(one)), None)
    width = _WIDTH.search(node.get("style") or "") if kind is MediaKind.PHOTO else None
    return Media(
        kind=kind,
        file_id=f"preview:{picture or place}" if url else None,
        mime=_MIMES.get(kind) if url else None,
        size=size,
        width=int(width[1]) if width and picture else None,
        duration=_duration(node),
        name=name,
        reference=url,
    )


def _address(node: Any, kind: MediaKind, video: Any) -> str | None:
    found = None
    if kind is MediaKind.PHOTO:
        image = _BACKGROUND.search(node.get("style") or "")
        found = image[1] if image else None
    elif kind is MediaKind.STICKER:
        sources = [one.get("srcset") or one.get("src") for one in node.iter("source", "img")]
        found = next((one for one in sources if one and not one.startswith("data:")), None)
    elif video is not None:
        found = video.get("src")
    elif kind is MediaKind.VOICE:
        found = next((one.get("src") for one in node.iter("audio")), None)
    if not found:
        return None
    return f"https:{found}" if found.startswith("//") else str(found)


def _duration(node: Any) -> float | None:
    for moment in node.iter("time"):
        parts = plain(moment).split(":")
        if all(part.isdecimal() for part in parts):
            seconds = 0
            for part in parts:
                seconds = seconds * 60 + int(part)
            return float(seconds)
    return None


def _size(text: str) -> int | None:
    found = _SIZE.search(text)
    return None if found is None else round(float(found[1]) * _SIZES[found[2].upper()])
