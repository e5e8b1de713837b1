"""What exists in a simulated Telegram: plain values, no protocol. Ids and hashes fit the wire's signed integers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class Ids(StrEnum):
    """How a world numbers its messages."""

    DENSE = "dense"  # every channel from 1, as Telegram does where nothing was ever deleted
    SPARSE = "sparse"  # one sequence over all channels: those of a channel are high, and far between


class Kind(StrEnum):
    """What a file is to Telegram."""

    PHOTO = "photo"
    DOCUMENT = "document"


@dataclass(slots=True, frozen=True)
class Entity:
    """A formatted stretch of text; offset and length count UTF-16 code units, as Telegram does."""

    kind: str  # bold | italic | url | text_url | hashtag | mention | code | pre | strike | spoiler | blockquote
    offset: int
    length: int
    url: str | None = None  # only for text_url


@dataclass(slots=True)
class File:
    """A photo or document. Its bytes are made when first asked for, and are the same every time."""

    id: int
    access_hash: int
    kind: Kind
    mime: str
    draw: Callable[[], bytes]
    name: str | None = None
    width: int = 0
    height: int = 0
    references: list[bytes] = field(default_factory=lambda: [b"ref-0"])  # the last is valid, the others expired
    length: int | None = None  # its size, where that is known without drawing it
    _data: bytes | None = None

    @property
    def data(self) -> bytes:
        if self._data is None:
            self._data = self.draw()
        return self._data

    @property
    def size(self) -> int:
        return len(self.data) if self.length is None else self.length


@dataclass(slots=True, frozen=True)
class Forward:
    """Where a forwarded post came from."""

    channel_id: int
    message_id: int
    date: datetime
    author: str | None = None


@dataclass(slots=True, frozen=True)
class Poll:
    """A quiz or a poll with its answers."""

    id: int
    question: str
    answers: tuple[str, ...]


@dataclass(slots=True, frozen=True)
class Service:
    """A service message: `pin`, `title`, `photo`, `created`, `topic` (the first message of one)."""

    action: str
    title: str | None = None


@dataclass(slots=True)
class Counters:
    """What grows under a post, and is never an edit."""

    views: int = 0
    forwards: int = 0
    replies: int = 0
    reactions: dict[str, int] = field(default_factory=dict)  # emoji -> count


@dataclass(slots=True)
class Message:
    """One message of a channel or of its discussion group."""

    id: int
    date: datetime
    text: str = ""
    entities: tuple[Entity, ...] = ()
    file: File | None = None
    poll: Poll | None = None
    service: Service | None = None
    grouped_id: int | None = None
    forward: Forward | None = None
    reply_to: int | None = None
    topic: int | None = None  # in a forum: id of the first message of its topic; None: the general one
    comment_to: int | None = None  # in a discussion group: id of the channel post it comments
    sender_id: int | None = None  # in a discussion group: the user who wrote it
    author: str | None = None  # signature
    edited: datetime | None = None
    pinned: bool = False
    counters: Counters = field(default_factory=Counters)
    versions: list[str] = field(default_factory=list)  # earlier texts, oldest first
    protected: bool = False  # may not be forwarded or saved (`noforwards`)
    unknown: bool = False  # of a type that no client can read
    story: int | None = None  # posts of several channels that tell the same have the same
    changes: int = 0  # grows with every change of any kind, so that rendered bytes can be cached


@dataclass(slots=True, frozen=True)
class Change:
    """One step of a channel's `pts`: what getChannelDifference replays."""

    pts: int
    count: int
    kind: str  # new | edit | delete
    ids: tuple[int, ...]


GENERAL = 1  # the topic of all that is in no other one


@dataclass(slots=True)
class Topic:
    """A topic of a forum; its id is that of its first message, 1 for the general one."""

    id: int
    title: str
    closed: bool = False
    hidden: bool = False


@dataclass(slots=True)
class Channel:
    """A broadcast channel, or a discussion group (`group=True`)."""

    id: int  # bare id, without -100
    access_hash: int
    title: str
    username: str | None
    created: datetime
    about: str = ""
    group: bool = False
    private: bool = False  # only members may read it
    members: set[int] = field(default_factory=set)  # user ids that joined (they get pushes)
    hidden: dict[int, int] = field(default_factory=dict)  # by user id: the highest id that this user is not shown
    protected: bool = False  # nothing of it may be forwarded or saved
    subscribers: int = 0
    linked_id: int | None = None  # discussion group of a channel, and back
    topics: dict[int, Topic] = field(default_factory=dict)  # by id; a group with topics is a forum
    invite: str | None = None  # the hash of a t.me/+hash address that lets one in
    temper: str = "steady"
    language: str = "ru"
    topic: str = "news"
    rate: float = 0.0  # arrivals a day by its temper; 0: it posts no more
    messages: dict[int, Message] = field(default_factory=dict)  # by id, ascending; deleted ones are gone
    deleted: dict[int, Message] = field(default_factory=dict)
    withheld: dict[int, Message] = field(default_factory=dict)  # have an id, and no reader sees them yet
    newest_id: int = 0  # ids are never used again, so this counts deleted messages too
    pts: int = 1
    changes: list[Change] = field(default_factory=list)


@dataclass(slots=True)
class User:
    """A person with an account: a reader we log in as, or a commenter."""

    id: int
    access_hash: int
    first_name: str
    phone: str | None = None
    username: str | None = None
    password: str | None = None  # 2FA
    folders: dict[str, list[int]] = field(default_factory=dict)  # of dialogs, by title: ids of channels
    banned: bool = False
