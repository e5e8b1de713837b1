"""A public preview page (t.me/s/name, or one post with ?embed=1) as posts; and pages that are none, told apart.

A page says what it shows and nothing of what it does not show: an id that is left out may well exist.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from dataclasses import dataclass
from enum import StrEnum

from lxml import etree, html

from telegram_assistant.domain.channel import MAX_CHANNEL_ID, bare_id
from telegram_assistant.domain.post import Post
from telegram_assistant.source.preview_message import posts_of, rounded
from telegram_assistant.source.preview_text import Parts, formatted, plain

MESSAGE = "tgme_widget_message"
ERROR = "tgme_widget_message_error"
_WITHHELD = ("can't be displayed", "cannot be displayed", "18 years", "age-restricted", "sensitive content")


class Refusal(StrEnum):
    """Why a page shows no posts. None of these says that a post was deleted."""

    NO_PREVIEW = "no_preview"
    WITHHELD = "withheld"  # an age limit, or Telegram's own veto
    PRIVATE = "private"
    GROUP = "group"
    PERSON = "person"
    MISSING = "missing"
    EMPTY = "empty"  # a channel that has no posts to show
    CHANGED = "changed"  # Telegram's page, in a form that is not understood
    ODD = "odd"  # no page of Telegram at all


WORDS = {
    Refusal.NO_PREVIEW: (
        "{name} has no public preview: its owner switched it off, or it has an age limit;"
        " connect a Telegram account to read it"
    ),
    Refusal.WITHHELD: "Telegram withholds the public preview of {name}; connect a Telegram account to read it",
    Refusal.PRIVATE: "{name} is private: only a Telegram account that has joined it can read it",
    Refusal.GROUP: "{name} is a group, and groups have no public preview; connect a Telegram account to read it",
    Refusal.PERSON: "{name} is a person or a bot, not a channel",
    Refusal.MISSING: "no channel has this name: {name}",
    Refusal.EMPTY: "the public preview of {name} shows no posts yet, so the channel cannot be told from others",
    Refusal.CHANGED: "the public preview of {name} cannot be understood: Telegram changed its pages",
    Refusal.ODD: "what came instead of the public preview of {name} is no page of Telegram: it may want us to wait",
}


class NotShown(Exception):
    """The page has no posts to read; `refusal` says why."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.value)
        self.refusal = refusal

    def words(self, name: str) -> str:
        return WORDS[self.refusal].format(name=name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A channel as its page introduces it; its figures are rounded."""

    title: str
    username: str | None = None
    about: str = ""
    subscribers: int | None = None
    picture: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewPage:
    """Posts in ascending order. `older` and `newer`: where the pages beside this one begin, if there are any."""

    card: Card
    channel_id: int
    posts: tuple[Post, ...] = ()
    unreadable: tuple[int, ...] = ()  # shown, and not understood
    older: int | None = None
    newer: int | None = None


def read_page(page: bytes) -> PreviewPage:
    """A page of a channel's history. Raises NotShown."""
    tree = _tree(page)
    if not tree.all("tgme_channel_info") and not tree.all("tgme_channel_history"):
        raise NotShown(_why(tree))
    blocks = _blocks(tree)
    channel_id = next((found for block in blocks if (found := _channel_id(block))), None)
    if channel_id is None:
        raise NotShown(Refusal.CHANGED if blocks or tree.all(f"{MESSAGE}_wrap") else Refusal.EMPTY)
    posts, unreadable = _all_posts(blocks, channel_id)
    if blocks and not posts:
        raise NotShown(Refusal.CHANGED)
    return PreviewPage(
        card=_card(tree),
        channel_id=channel_id,
        posts=posts,
        unreadable=unreadable,
        older=_more(tree, "data-before"),
        newer=_more(tree, "data-after"),
    )


def read_post(page: bytes, channel_id: int) -> tuple[Post, ...] | None:
    """The post that is shown alone, with all of its album; None: the widget says that there is none.

    A visitor whom Telegram does not like any more is told the same of every post: by itself it proves nothing.
    """
    tree = _tree(page)
    blocks = _blocks(tree)
    if blocks:
        posts, _ = _all_posts(blocks, channel_id)
        if not posts or any(_channel_id(block) not in {None, channel_id} for block in blocks):
            raise NotShown(Refusal.CHANGED)
        return posts
    if tree.all(ERROR):
        return None
    raise NotShown(_why(tree))


def _tree(page: bytes) -> Parts:
    try:
        tree = html.document_fromstring(page, parser=html.HTMLParser(encoding="utf-8"))
    except (etree.ParserError, etree.XMLSyntaxError, ValueError) as exc:
        raise NotShown(Refusal.ODD) from exc
    return Parts(tree)


def _blocks(tree: Parts) -> list[Parts]:
    return [Parts(node) for node in tree.all(MESSAGE) if node.get("data-post")]


def _all_posts(blocks: list[Parts], channel_id: int) -> tuple[tuple[Post, ...], tuple[int, ...]]:
    posts: dict[int, Post] = {}
    unreadable: set[int] = set()
    for block in blocks:
        message_id = _number(block.root.get("data-post", "").rpartition("/")[2])
        if message_id is None:
            continue
        found = posts_of(block, channel_id, message_id)
        posts |= {post.message_id: post for post in found}
        if not found:
            unreadable.add(message_id)
    return tuple(posts[number] for number in sorted(posts)), tuple(sorted(unreadable - posts.keys()))


def _channel_id(block: Parts) -> int | None:
    """Out of `data-view`: base64 of JSON, which has the channel's id with a minus."""
    view = block.root.get("data-view") or ""
    try:
        told = json.loads(base64.urlsafe_b64decode(view.replace("+", "-").replace("/", "_") + "=" * (-len(view) % 4)))
        number = -int(told["c"])
        return number if 0 < number <= MAX_CHANNEL_ID else bare_id(-number)
    except (binascii.Error, ValueError, TypeError, KeyError):
        return None


def _card(tree: Parts) -> Card:
    about, photo = tree.first("tgme_channel_info_description"), tree.first("tgme_page_photo_image")
    picture = None if photo is None else next(photo.iter("img"), None)
    counted = {}
    for counter in tree.all("tgme_channel_info_counter"):
        shown = Parts(counter)
        counted[(shown.words("counter_type") or "").lower()] = rounded(shown.words("counter_value") or "")
    return Card(
        title=tree.words("tgme_channel_info_header_title") or tree.words("tgme_header_title") or "",
        username=(tree.words("tgme_channel_info_header_username") or "").removeprefix("@") or None,
        about="" if about is None else formatted(about)[0],
        subscribers=counted.get("subscribers") or counted.get("subscriber"),
        picture=None if picture is None else picture.get("src"),
    )


def _more(tree: Parts, attribute: str) -> int | None:
    found = (node.get(attribute) for node in tree.all("tme_messages_more"))
    return next((_number(value) for value in found if value), None)


def _number(text: str) -> int | None:
    found = re.match(r"\d{1,10}", text)
    return int(found[0]) if found else None


def _why(tree: Parts) -> Refusal:
    """A page without a history: what does it say of the name?"""
    said = plain(tree.root).lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    extra = " ".join(plain(node).lower() for node in tree.all("tgme_page_extra"))
    names = set(tree)
    ours = any(name.startswith(("tgme_page", MESSAGE)) for name in names)
    private = "private" in said or "invited" in said
    found = (
        (Refusal.ODD, not ours),
        (Refusal.WITHHELD, any(words in said for words in _WITHHELD)),
        (Refusal.CHANGED, any(name.startswith(MESSAGE) for name in names)),
        (Refusal.NO_PREVIEW, "subscriber" in extra),
        (Refusal.GROUP, "member" in extra and not private),
        (Refusal.PRIVATE, private),
        (Refusal.PERSON, "tgme_page_title" in names),
    )
    return next((refusal for refusal, holds in found if holds), Refusal.MISSING)
