"""What capture asks of a source of posts, and what it is told. An account of Telegram is one way to have a source."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from telegram_assistant.domain.channel import ChannelRef
from telegram_assistant.domain.post import Media, Post
from telegram_assistant.domain.retries import Failure
from telegram_assistant.errors import AssistantError

PAGE_LIMIT = 100  # Telegram gives no more at once


class SourceError(AssistantError):
    """A request failed; `failure` says what kind it is, and for a flood how long to wait."""

    def __init__(self, failure: Failure, message: str, *, flood_seconds: float | None = None) -> None:
        super().__init__(message)
        self.failure = failure
        self.flood_seconds = flood_seconds


def unforeseen(exc: SourceError) -> SourceError | None:
    """For logs: what is expected (a session that ended, a private channel, a lost connection) needs no traceback."""
    return exc if exc.failure is Failure.FATAL else None


class ReadElsewhere(SourceError):
    """The account that reads this belongs to another process now: neither the channel's fault nor the account's."""

    def __init__(self, message: str) -> None:
        super().__init__(Failure.TRANSIENT, message)


class TakeoutDelayed(SourceError):
    """Telegram begins no takeout before so many seconds have passed. It is no flood: reading goes on meanwhile."""

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(Failure.FLOOD, message)
        self.seconds = seconds


class TakeoutOver(SourceError):
    """There is no such takeout any more: another export of the account ended it, or it never was."""

    def __init__(self, message: str) -> None:
        super().__init__(Failure.FATAL, message)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelInfo:
    """A channel as an account sees it."""

    id: int  # canonical: bare and positive
    title: str
    username: str | None = None
    access_hash: int = 0  # belongs to the account that got it
    about: str = ""
    is_group: bool = False
    is_private: bool = False  # has no username: only members read it
    subscribers: int | None = None
    linked_id: int | None = None  # the discussion group, where it was asked for


@dataclass(frozen=True, slots=True)
class Followed:
    """A channel that an account has joined, or that a shared folder holds."""

    info: ChannelInfo
    folders: tuple[str, ...] = ()

    @property
    def ref(self) -> ChannelRef:
        """By its name, which needs no account, or else by its number."""
        name = self.info.username
        return ChannelRef(username=name) if name else ChannelRef(channel_id=self.info.id)


@dataclass(frozen=True, slots=True)
class Peer:
    """What an account needs to ask for a channel's messages."""

    channel_id: int
    access_hash: int


@dataclass(frozen=True, slots=True)
class Name:
    """What a channel is called now: its owner may change both at any time."""

    title: str
    username: str | None
    protected: bool = False  # its posts may not be forwarded or saved, says its owner


@dataclass(frozen=True, slots=True)
class Hidden:
    """A group shows an account nothing from before it joined: the highest such id; 0: it shows all."""

    account_id: str
    up_to: int


@dataclass(frozen=True, slots=True)
class Page:
    """Messages in ascending order of their ids. `reached_end`: at that moment there was nothing newer.

    `alone`: Telegram counted all messages that the channel shows this account, and these are as many.
    """

    posts: tuple[Post, ...]
    reached_end: bool
    unreadable: tuple[int, ...] = ()  # ids of messages that exist but could not be understood; each was logged
    alone: bool = False
    complete: bool = False  # short as it is, nothing was left out between what it was asked after and its last id
    name: Name | None = field(default=None, compare=False)  # of the channel, where the answer told it
    hidden: Hidden | None = field(default=None, compare=False)  # None: a channel, which hides nothing
    pts: int | None = field(default=None, compare=False)  # how many changes the channel had then

    @property
    def ids(self) -> list[int]:
        """Of all messages that are there, understood or not."""
        return sorted([*(post.message_id for post in self.posts), *self.unreadable])


@dataclass(frozen=True, slots=True)
class Changes:
    """What happened in a channel since its count of changes (`pts`) was another; the posts as they are now."""

    pts: int
    posts: tuple[Post, ...] = ()  # new ones and edited ones, of any age
    deleted: tuple[int, ...] = ()
    final: bool = True  # False: ask again from `pts` on
    too_long: bool = False  # more happened than Telegram tells: nothing of it is here


GENERAL = 1  # the topic of a forum's messages that are in no other one


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of a group that is a forum. Its id is that of the message that began it."""

    id: int
    title: str
    closed: bool = False  # only admins write there
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class Forum:
    """A group with topics: all of them, as they are now."""

    group_id: int
    topics: tuple[Topic, ...]


@dataclass(frozen=True, slots=True)
class NewPost:
    """A live update: a post that is new or was edited."""

    post: Post


@dataclass(frozen=True, slots=True)
class Deleted:
    """A live update: messages that were deleted."""

    channel_id: int
    message_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The flow of updates had a gap (reconnected, too long): what is recent must be read again."""

    channel_id: int | None  # None: every channel


LiveUpdate = NewPost | Deleted | Interrupted


class Source(Protocol):
    """One channel as capture reads it: with an account, or in any other way.

    Every method raises SourceError, and nothing of the library beneath it. What not every source can tell is answered
    by `source.PlainSource`.
    """

    pages_prove: bool = True  # a page leaves out nothing that exists between its ends; else it proves what it shows
    ids_at_once: int = PAGE_LIMIT  # how many `by_ids` takes
    counts_changes: bool = True  # its pages tell a count, which `changes_since` knows

    @property
    def channel_id(self) -> int: ...

    async def describe(self) -> ChannelInfo:
        """Title, description, subscribers and discussion group as they are now."""
        ...

    async def page_after(self, after_id: int, limit: int = PAGE_LIMIT, *, unreadable: Collection[int] = ()) -> Page:
        """The oldest messages with ids above `after_id`; those known to be unreadable are not tried again."""
        ...

    async def page_before(self, before_id: int, limit: int = PAGE_LIMIT, *, above: int = 0) -> Page | None:
        """The newest messages with ids below `before_id`; None where a message among them spoils the answer.

        Of those that are not above `above` nothing is said.
        """
        ...

    async def last_id_before(self, moment: datetime) -> int:
        """The id of the newest message older than `moment`; 0 when there is none."""
        ...

    async def by_ids(self, ids: Collection[int]) -> dict[int, Post | None]:
        """Messages by id, at most 100; None for those that do not exist, and nothing for those it cannot tell of."""
        ...

    def download(self, message_id: int, media: Media) -> AsyncIterator[bytes]:
        """A file's bytes in pieces, never whole in memory. An expired reference is renewed on the way."""
        ...

    async def changes_since(self, pts: int) -> Changes:
        """What changed since a count that an earlier page told."""
        ...

    async def comments_after(self, post_message_id: int, after_id: int, limit: int = PAGE_LIMIT) -> Page:
        """Comments under a post, from the discussion group, with ids above `after_id`; their channel is the group."""
        ...

    async def forum(self) -> Forum | None:
        """The topics of this group, or of this channel's discussion group; None: it has none."""
        ...
