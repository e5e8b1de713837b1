"""Telethon's messages as posts. Pure, and quick: every captured message passes here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Any

from telethon.tl import TLObject, types

from telegram_assistant.domain.post import NO_COUNTERS, Counters, Forward, Media, Post, ReplyTo, Service
from telegram_assistant.domain.text import Entity, EntityKind, Link, clean_message, clean_text, links_of
from telegram_assistant.log import get_logger
from telegram_assistant.source.telegram_media import document_of, kind_name, media_of, photo_of, poll_of

_NO_NAMES: Mapping[int, str] = {}
_MESSAGE = types.Message.CONSTRUCTOR_ID  # by number, for there are two classes of them
# What strange content can raise on the way; anything else is a mistake of ours.
_STRANGE = (AttributeError, TypeError, ValueError, LookupError, ArithmeticError)

_ENTITIES: dict[Any, EntityKind] = {
    types.MessageEntityUrl: EntityKind.URL,
    types.MessageEntityTextUrl: EntityKind.TEXT_URL,
    types.MessageEntityEmail: EntityKind.EMAIL,
    types.MessageEntityPhone: EntityKind.PHONE,
    types.MessageEntityMention: EntityKind.MENTION,
    types.MessageEntityMentionName: EntityKind.TEXT_MENTION,
    types.InputMessageEntityMentionName: EntityKind.TEXT_MENTION,
    types.MessageEntityHashtag: EntityKind.HASHTAG,
    types.MessageEntityCashtag: EntityKind.CASHTAG,
    types.MessageEntityBotCommand: EntityKind.BOT_COMMAND,
    types.MessageEntityBankCard: EntityKind.BANK_CARD,
    types.MessageEntityBold: EntityKind.BOLD,
    types.MessageEntityItalic: EntityKind.ITALIC,
    types.MessageEntityUnderline: EntityKind.UNDERLINE,
    types.MessageEntityStrike: EntityKind.STRIKE,
    types.MessageEntitySpoiler: EntityKind.SPOILER,
    types.MessageEntityCode: EntityKind.CODE,
    types.MessageEntityPre: EntityKind.PRE,
    types.MessageEntityBlockquote: EntityKind.BLOCKQUOTE,
    types.MessageEntityCustomEmoji: EntityKind.CUSTOM_EMOJI,
}
_URL, _TEXT_URL, _OTHER = EntityKind.URL, EntityKind.TEXT_URL, EntityKind.OTHER  # looking them up takes its time
_DETAILS: dict[Any, str] = {
    types.MessageEntityPre: "language",
    types.MessageEntityMentionName: "user_id",
    types.InputMessageEntityMentionName: "user_id",
    types.MessageEntityCustomEmoji: "document_id",
}
_ACTIONS: dict[Any, str] = {
    types.MessageActionPinMessage: "pin",
    types.MessageActionChatEditTitle: "title",
    types.MessageActionChatEditPhoto: "photo",
    types.MessageActionChannelCreate: "created",
}

log = get_logger(__name__)
_clean_emoji = lru_cache(maxsize=1024)(clean_text)  # the same few come with every post
_RICH_TEXT = types.TextPlain.SUBCLASS_OF_ID


@dataclass(frozen=True, slots=True)
class Messages:
    """The messages of one answer in ascending order; `ids` are those of everything in it, empty ones too."""

    posts: tuple[Post, ...]
    unreadable: tuple[int, ...]
    ids: tuple[int, ...]


def messages_of(answer: Any) -> Messages:
    """All that an answer of Telegram holds. One message that is strange does not hurt the others."""
    names = names_of(answer)
    posts: list[Post] = []
    unreadable: list[int] = []
    ids: list[int] = []
    for message in sorted(answer.messages, key=attrgetter("id")):
        ids.append(message.id)
        if type(message) is types.MessageEmpty:
            continue
        post = post_of(message, names)
        if post is None:
            unreadable.append(message.id)
        else:
            posts.append(post)
    return Messages(tuple(posts), tuple(unreadable), tuple(ids))


def names_of(answer: Any) -> Mapping[int, str]:
    """Who is who in an answer: users by their ids, channels by theirs made negative."""
    if not answer.users:
        return {-chat.id: clean_text(chat.title) for chat in answer.chats if hasattr(chat, "title")}
    names = {user.id: user_name(user) for user in answer.users}
    names.update((-chat.id, clean_text(chat.title)) for chat in answer.chats if hasattr(chat, "title"))
    return names


def user_name(user: Any) -> str:
    """A person's name, or else the username, or else nothing."""
    parts = (getattr(user, "first_name", None), getattr(user, "last_name", None))
    return clean_text(" ".join(part for part in parts if part) or getattr(user, "username", None) or "")


def post_of(message: Any, names: Mapping[int, str] = _NO_NAMES) -> Post | None:
    """A post of what can be understood; None when not even its place and time can."""
    try:
        return to_post(message, names)
    except _STRANGE:
        log.warning("message_not_understood", message=_place(message), exc_info=True)
    try:
        return Post(
            channel_id=message.peer_id.channel_id,
            message_id=message.id,
            posted_at=message.date,
            text=clean_text(message.message or ""),
            service=Service("unknown", type(message).__name__),
        )
    except _STRANGE:
        log.warning("message_unreadable", message=_place(message), exc_info=True)
        return None


def to_post(message: Any, names: Mapping[int, str] = _NO_NAMES) -> Post:
    """A message as a post; raises what strange content raises."""
    from_id, reply, media = message.from_id, message.reply_to, message.media
    text, entities = _text_of(message)
    linked = [entity for entity in entities if entity.kind is _URL or entity.kind is _TEXT_URL]
    links = links_of(text, linked) if linked else ()
    rich = message.rich_message
    poll = isinstance(media, types.MessageMediaPoll)
    return Post(
        channel_id=message.peer_id.channel_id,
        message_id=message.id,
        posted_at=message.date,
        text=text or (rich_text(rich) if rich is not None else ""),
        entities=entities,
        links=links or _links_elsewhere(media, rich),
        media=(media_of(media) if media is not None else ()) + (rich_media(rich) if rich is not None else ()),
        grouped_id=message.grouped_id,
        forward=_forward(message.fwd_from) if message.fwd_from is not None else None,
        reply_to=_reply(reply, message) if reply is not None else None,
        author=_author(message, from_id, names),
        author_id=from_id.user_id if type(from_id) is types.PeerUser else None,
        # A message whose edit is hidden changed only in its reactions, buttons or preview.
        edited_at=None if message.edit_hide else message.edit_date,
        pinned=bool(message.pinned),
        protected=bool(message.noforwards),
        poll=poll_of(media) if poll else None,
        service=_service(message) if message.CONSTRUCTOR_ID != _MESSAGE else None,
        counters=_counters(message),
    )


def _text_of(message: Any) -> tuple[str, tuple[Entity, ...]]:
    text = message.message or ""
    entities = tuple([_entity(entity) for entity in message.entities]) if message.entities else ()
    # Telethon decoded it from UTF-8, so of all that is cleaned away only NULs can be there. Entities are clean by now.
    return clean_message(text, entities) if "\0" in text else (text, entities)


def _entity(entity: Any) -> Entity:
    found = type(entity)
    kind = _ENTITIES.get(found, _OTHER)
    if kind is _TEXT_URL:
        return Entity(kind, entity.offset, entity.length, clean_text(entity.url))
    name = _DETAILS.get(found)
    if name is None:
        return Entity(kind, entity.offset, entity.length)
    detail = getattr(entity, name)
    detail = getattr(detail, "user_id", detail)  # of an InputUser
    return Entity(kind, entity.offset, entity.length, detail=clean_text(str(detail)) if detail else None)


def _links_elsewhere(media: Any, rich: Any) -> tuple[Link, ...]:
    """Addresses of a post whose text has none: behind its preview, or in its blocks."""
    if rich is not None:
        return rich_links(rich)
    if isinstance(media, types.MessageMediaWebPage):
        url = getattr(media.webpage, "url", None)
        if url:
            return (Link(clean_text(url), "", hidden=True),)
    return ()


def _forward(header: Any) -> Forward:
    origin = header.from_id
    return Forward(
        channel_id=origin.channel_id if type(origin) is types.PeerChannel else None,
        message_id=header.channel_post,
        user_id=origin.user_id if type(origin) is types.PeerUser else None,
        name=clean_text(header.from_name) if header.from_name else None,
        author=clean_text(header.post_author) if header.post_author else None,
        posted_at=header.date,
    )


def _reply(header: Any, message: Any) -> ReplyTo | None:
    answered = getattr(header, "reply_to_msg_id", None)  # a story has none
    if not answered:
        return None
    elsewhere = header.reply_to_peer_id
    thread = header.reply_to_top_id
    if thread is None and not message.post and elsewhere is None:
        thread = answered  # an answer to the first message of a thread names it only once
    return ReplyTo(
        message_id=answered,
        channel_id=elsewhere.channel_id if type(elsewhere) is types.PeerChannel else None,
        thread_id=thread,
    )


def _author(message: Any, from_id: Any, names: Mapping[int, str]) -> str | None:
    if message.post_author:
        return clean_text(message.post_author)
    if from_id is None:
        return None
    if type(from_id) is types.PeerUser:
        return names.get(from_id.user_id) or None
    return names.get(-from_id.channel_id) or None if type(from_id) is types.PeerChannel else None


def _counters(message: Any) -> Counters:
    replies, reactions = message.replies, message.reactions
    if message.views is None and replies is None and reactions is None:
        return NO_COUNTERS
    known = {_reaction(one.reaction): one.count for one in reactions.results} if reactions is not None else None
    return Counters(
        views=message.views,
        forwards=message.forwards,
        replies=replies.replies if replies is not None else None,
        reactions=tuple(sorted(known.items())) if known else (),
    )


def _reaction(reaction: Any) -> str:
    if type(reaction) is types.ReactionEmoji:
        return _clean_emoji(reaction.emoticon)
    if type(reaction) is types.ReactionCustomEmoji:
        return f"custom:{reaction.document_id}"
    return kind_name(reaction, "Reaction")  # `paid`: stars


def _service(message: Any) -> Service:
    action = message.action
    if action is None:
        return Service("unknown", type(message).__name__)
    detail = getattr(action, "title", None) or getattr(action, "message", None)
    if type(action) is types.MessageActionPinMessage:
        detail = getattr(message.reply_to, "reply_to_msg_id", None)
    name = _ACTIONS.get(type(action)) or kind_name(action, "MessageAction")
    return Service(name, clean_text(str(detail)) if detail else None)


def _place(message: Any) -> str:
    channel = getattr(getattr(message, "peer_id", None), "channel_id", None)
    return f"{channel}/{getattr(message, 'id', None)} ({type(message).__name__})"


def rich_text(rich: Any) -> str:
    """A line for each piece of text, in the order of the page. Its formatting is not kept."""
    lines = (_plain(text) for text in _texts(rich.blocks))
    return clean_text("\n".join(line for line in lines if line.strip()))


def rich_links(rich: Any) -> tuple[Link, ...]:
    """The addresses behind the text, each once."""
    found: dict[str, Link] = {}
    for text in _texts(rich.blocks):
        for part in _parts(text):
            if isinstance(part, types.TextUrl) and part.url:
                found.setdefault(part.url, Link(clean_text(part.url), clean_text(_plain(part.text)), hidden=True))
    return tuple(found.values())


def rich_media(rich: Any) -> tuple[Media, ...]:
    return (*(photo_of(photo) for photo in rich.photos), *(document_of(document) for document in rich.documents))


def _texts(node: Any) -> Iterator[Any]:
    """The outermost rich texts of a block, however deep it is nested."""
    if isinstance(node, list):
        for one in node:
            yield from _texts(one)
    elif isinstance(node, TLObject):
        if node.SUBCLASS_OF_ID == _RICH_TEXT:
            yield node
        else:
            for value in vars(node).values():
                yield from _texts(value)


def _parts(text: Any) -> Iterator[Any]:
    """A rich text and all that is inside it."""
    yield text
    inner = getattr(text, "texts", None) or [getattr(text, "text", None)]
    for one in inner:
        if isinstance(one, TLObject):
            yield from _parts(one)


def _plain(text: Any) -> str:
    words = []
    for part in _parts(text):
        match part:
            case types.TextPlain(text=said):
                words.append(said)
            case types.TextCustomEmoji(alt=said) | types.TextMath(source=said):
                words.append(said)
    return "".join(words)
