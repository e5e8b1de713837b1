"""The markup of public previews: a channel's card, a block for each post or album, and pages that show none."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Sequence
from html import escape

from telegram_simulator.model import Channel, Counters, Entity, File, Kind, Message, Poll
from telegram_simulator.world import World

TAGS = {
    "bold": "b",
    "italic": "i",
    "underline": "u",
    "strike": "s",
    "code": "code",
    "pre": "pre",
    "spoiler": "tg-spoiler",
    "blockquote": "blockquote",
}
PART = "tgme_widget_message"
UNSUPPORTED = (
    '<div class="message_media_not_supported_wrap"><div class="message_media_not_supported"><div'
    ' class="message_media_not_supported_label">Please open Telegram to view this post</div></div></div>'
)


def rounded(count: int) -> str:
    """1234 as 1.2K: figures are cut, not rounded up."""
    for step, letter in ((1_000_000, "M"), (1_000, "K")):
        if count >= step:
            whole, rest = divmod(count * 10 // step, 10)
            return f"{whole}.{rest}{letter}" if rest else f"{whole}{letter}"
    return str(count)


def formatted(text: str, entities: Sequence[Entity]) -> str:
    """HTML of a text; of entities that cross each other the later one is left out."""
    units = text.encode("utf-16-le")

    def piece(start: int, end: int) -> str:
        plain = units[2 * start : 2 * end].decode("utf-16-le", "replace")
        return escape(plain, quote=False).replace("\n", "<br/>")

    def inside(start: int, end: int, found: Sequence[Entity]) -> str:
        out, at = [], start
        for place, entity in enumerate(found):
            stop = entity.offset + entity.length
            if entity.offset < at or stop > end:
                continue
            within = [other for other in found[place + 1 :] if entity.offset <= other.offset < stop]
            inner = inside(entity.offset, stop, within)
            label = units[2 * entity.offset : 2 * stop].decode("utf-16-le", "replace")
            out += [piece(at, entity.offset), _wrapped(entity, inner, label)]
            at = stop
        return "".join((*out, piece(at, end)))

    return inside(0, len(units) // 2, sorted(entities, key=lambda one: (one.offset, -one.length)))


def _wrapped(entity: Entity, inner: str, label: str) -> str:
    tag = TAGS.get(entity.kind)
    if tag is not None:
        return f"<{tag}>{inner}</{tag}>"
    href = {
        "url": label if "://" in label else f"http://{label}",
        "text_url": entity.url or "",
        "hashtag": f"?q=%23{label[1:]}",
        "cashtag": f"?q=%24{label[1:]}",
        "mention": f"https://t.me/{label[1:]}",
        "email": f"mailto:{label}",
        "phone": f"tel:{label}",
    }.get(entity.kind)
    return inner if href is None else f'<a href="{escape(href)}" target="_blank" rel="noopener">{inner}</a>'


class Markup:
    """Pages of one world. `file_address` says where a file is served."""

    def __init__(self, world: World, file_address: Callable[[File], str]) -> None:
        self._world = world
        self._file_address = file_address

    def page(self, channel: Channel, shown: Sequence[Message], *, older: bool, newer: bool) -> str:
        blocks = [self.block(channel, group) for group in grouped(shown)]
        before = _more(channel, "before", shown[0].id) if older else ""
        after = _more(channel, "after", shown[-1].id) if newer else ""
        return (
            f'<!DOCTYPE html><html><head><meta charset="utf-8"><title>{escape(channel.title)}</title></head>'
            f'<body class="widget_frame_base tgme_webpreview">{_card(channel)}<main class="tgme_main">'
            f'<section class="tgme_channel_history js-message_history">{before}{"".join(blocks)}{after}'
            "</section></main></body></html>"
        )

    def post(self, channel: Channel, group: Sequence[Message]) -> str:
        return f'<!DOCTYPE html><html><body class="widget_frame_base">{self.block(channel, group)}</body></html>'

    def block(self, channel: Channel, group: Sequence[Message]) -> str:
        first = group[0]
        name = f"{channel.username}/{first.id}"
        told = {"c": -channel.id, "p": f"{first.id}g" if len(group) > 1 else first.id, "t": 0, "h": "0"}
        view = base64.urlsafe_b64encode(json.dumps(told).encode()).decode().rstrip("=")
        service = " service_message" if first.service else ""
        inside = self._service(channel, first) if first.service else self._inside(channel, group)
        return (
            f'<div class="{PART}_wrap js-widget_message_wrap"><div class="{PART} text_not_supported_wrap{service}'
            f' js-widget_message" data-post="{name}" data-view="{view}"><div class="{PART}_bubble"><div'
            f' class="{PART}_author"><a class="{PART}_owner_name" href="https://t.me/{channel.username}"><span'
            f' dir="auto">{escape(channel.title)}</span></a></div>{inside}{_footer(name, first)}</div></div></div>'
        )

    def _inside(self, channel: Channel, group: Sequence[Message]) -> str:
        first = group[0]
        said = next((message for message in group if message.text), first)
        parts = [self._forward(first), _reply(channel, first)]
        media = "".join(self._media(channel, one, alone=len(group) == 1) for one in group if one.file is not None)
        parts.append(media if len(group) == 1 else f'<div class="{PART}_grouped_wrap">{media}</div>')
        parts.append("" if first.poll is None else _poll(first.poll))
        if first.unknown:
            parts.append(UNSUPPORTED)
        elif said.text:
            text = formatted(said.text, said.entities)
            parts.append(f'<div class="{PART}_text js-message_text" dir="auto">{text}</div>{UNSUPPORTED}')
        return "".join(parts)

    def _service(self, channel: Channel, message: Message) -> str:
        title = escape((message.service and message.service.title) or channel.title)
        said = {
            "created": "Channel created",
            "title": f"Channel name was changed to «{title}»",
            "photo": "Channel photo updated",
            "pin": f"{title} pinned a message",
        }[message.service.action if message.service else "created"]
        return f'<div class="{PART}_text js-message_text" dir="auto">{said}</div>'

    def _media(self, channel: Channel, message: Message, *, alone: bool) -> str:
        file = message.file
        href = f"https://t.me/{channel.username}/{message.id}{'' if alone else '?single'}"
        if file is None:
            return ""
        if file.kind is Kind.PHOTO:
            number = f"{file.id} {file.id >> 32}_{file.id & 0xFFFFFFFF}" if alone else "grouped_media_wrap"
            style = f"width:{file.width}px;background-image:url('{self._file_address(file)}')"
            return f'<a class="{PART}_photo_wrap {number}" href="{href}" style="{style}"></a>'
        return (
            f'<a class="{PART}_document_wrap" href="{href}"><div class="{PART}_document_icon"></div><div'
            f' class="{PART}_document_title">{escape(file.name or "file")}</div><div'
            f' class="{PART}_document_extra">{file.size / 1024:.1f} KB</div></a>'
        )

    def _forward(self, message: Message) -> str:
        if message.forward is None:
            return ""
        origin = self._world.channels.get(message.forward.channel_id)
        name = escape(origin.title if origin else "Somewhere")
        href = f"https://t.me/{origin.username}/{message.forward.message_id}" if origin and origin.username else ""
        link = f'<a class="{PART}_forwarded_from_name" href="{href}"><span dir="auto">{name}</span></a>'
        return f'<div class="{PART}_forwarded_from accent_color">Forwarded from&nbsp;{link}</div>'


def grouped(messages: Iterable[Message]) -> list[list[Message]]:
    """Albums are one block."""
    groups: list[list[Message]] = []
    for message in messages:
        if groups and message.grouped_id is not None and groups[-1][0].grouped_id == message.grouped_id:
            groups[-1].append(message)
        else:
            groups.append([message])
    return groups


def landing(title: str | None, extra: str = "", said: str = "") -> str:
    """The page of a name that shows no history."""
    head = "" if title is None else f'<div class="tgme_page_title"><span dir="auto">{escape(title)}</span></div>'
    return (
        f'<!DOCTYPE html><html><body><div class="tgme_page_wrap"><div class="tgme_page">{head}<div'
        f' class="tgme_page_extra">{escape(extra)}</div><div class="tgme_page_description">{escape(said)}</div>'
        "</div></div></body></html>"
    )


ERROR = f'<!DOCTYPE html><html><body><div class="{PART}_error">Post not found</div></body></html>'
CHALLENGE = "<!DOCTYPE html><html><body><h1>Checking your browser</h1></body></html>"


def _card(channel: Channel) -> str:
    return (
        '<header class="tgme_header"><div class="tgme_channel_info"><div class="tgme_channel_info_header_title"><span'
        f' dir="auto">{escape(channel.title)}</span></div><div class="tgme_channel_info_header_username"><a'
        f' href="https://t.me/{channel.username}">@{channel.username}</a></div><div class="tgme_channel_info_counter">'
        f'<span class="counter_value">{rounded(channel.subscribers)}</span> <span class="counter_type">subscribers'
        f'</span></div><div class="tgme_channel_info_description">{formatted(channel.about, ())}</div></div></header>'
    )


def _more(channel: Channel, way: str, message_id: int) -> str:
    return (
        f'<div class="{PART}_centered"><a href="/s/{channel.username}?{way}={message_id}"'
        f' class="tme_messages_more js-messages_more" data-{way}="{message_id}"></a></div>'
    )


def _reply(channel: Channel, message: Message) -> str:
    if message.reply_to is None:
        return ""
    answered = channel.messages.get(message.reply_to)
    said = escape(answered.text[:50]) if answered else ""
    return (
        f'<a class="{PART}_reply" href="https://t.me/{channel.username}/{message.reply_to}"><div'
        f' class="{PART}_metatext js-message_reply_text" dir="auto">{said}</div></a>'
    )


def _poll(poll: Poll) -> str:
    options = "".join(f'<div class="{PART}_poll_option_text">{escape(answer)}</div>' for answer in poll.answers)
    return (
        f'<div class="{PART}_poll"><div class="{PART}_poll_question">{escape(poll.question)}</div><div'
        f' class="{PART}_poll_type">Anonymous Poll</div>{options}</div>'
    )


def _footer(name: str, message: Message) -> str:
    edited = "edited &nbsp;" if message.edited else ""
    author = (
        f'<span class="{PART}_from_author" dir="auto">{escape(message.author)}</span>,&nbsp;' if message.author else ""
    )
    return (
        f'{_reactions(message.counters)}<div class="{PART}_footer compact"><div class="{PART}_info"><span'
        f' class="{PART}_views">{rounded(message.counters.views)}</span><span class="{PART}_meta">{edited}{author}<a'
        f' class="{PART}_date" href="https://t.me/{name}"><time datetime="{message.date.isoformat()}"'
        f' class="time">{message.date:%H:%M}</time></a></span></div></div>'
    )


def _reactions(counters: Counters) -> str:
    shown = "".join(
        f'<span class="tgme_reaction"><i class="emoji"><b>{escape(emoji)}</b></i>{rounded(count)}</span>'
        for emoji, count in counters.reactions.items()
    )
    return f'<div class="{PART}_reactions">{shown}</div>' if shown else ""
