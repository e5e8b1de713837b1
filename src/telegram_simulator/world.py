"""The world: everything that exists, and the few ways to change it.

Every change goes through a method here, so that `pts`, the change log and the listeners always agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from heapq import heappop, heappush
from itertools import takewhile
from typing import TypeAlias

from telegram_simulator.model import GENERAL, Change, Channel, Entity, File, Ids, Message, Service, Topic, User

Listener: TypeAlias = Callable[[Channel, Change], None]
FIRST_SPARSE_ID = 10_531  # a server that numbers all channels together has numbered others before


class World:
    """Channels, users and files by id, with one clock. Not thread-safe: one event loop owns it."""

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC), *, ids: Ids = Ids.DENSE) -> None:
        self.now = now
        self.ids = ids
        self._last_id = FIRST_SPARSE_ID - 1  # of all channels together
        self.channels: dict[int, Channel] = {}
        self.users: dict[int, User] = {}
        self.files: dict[int, File] = {}
        self.shared: dict[str, tuple[str, list[int]]] = {}  # folders behind t.me/addlist links: title, ids of channels
        self._usernames: dict[str, Channel | User] = {}
        self._listeners: list[Listener] = []
        self._veiled: list[tuple[datetime, int, int]] = []  # when it shows, its channel, its id: the next one first

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` after every change; the result takes it off again."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def add_channel(self, channel: Channel) -> Channel:
        self.channels[channel.id] = channel
        if channel.username:
            self._usernames[channel.username.lower()] = channel
        return channel

    def add_user(self, user: User) -> User:
        self.users[user.id] = user
        if user.username:
            self._usernames[user.username.lower()] = user
        return user

    def by_username(self, username: str) -> Channel | User | None:
        return self._usernames.get(username.lower().removeprefix("@"))

    def rename(self, channel: Channel, username: str | None) -> None:
        if channel.username:
            del self._usernames[channel.username.lower()]
        channel.username = username
        if username:
            self._usernames[username.lower()] = channel

    def next_id(self, channel: Channel) -> int:
        """The id of what is posted next in a channel."""
        if self.ids is Ids.DENSE:
            return channel.newest_id + 1
        return max(self._last_id, channel.newest_id) + 1

    def post(self, channel: Channel, message: Message, *, visible_at: datetime | None = None) -> Message:
        """Add a message. Its id must be above all earlier ones. Dates are whole seconds, as on the wire.

        With `visible_at` its id and date are taken now, but no reader sees it before that moment: no page, no answer
        by id, no difference holds it. Then it counts as a change of the channel and is pushed like any other.
        """
        if message.id <= channel.newest_id:
            raise ValueError(f"message id {message.id} is not above {channel.newest_id} in {channel.title}")
        message.date = message.date.replace(microsecond=0)
        channel.newest_id = message.id
        self._last_id = max(self._last_id, message.id)
        if message.file is not None:
            self.files[message.file.id] = message.file
        if visible_at is None or visible_at <= self.now():
            self._show(channel, message)
        else:
            channel.withheld[message.id] = message
            heappush(self._veiled, (visible_at, channel.id, message.id))
        return message

    def open_topic(self, group: Channel, title: str) -> Topic:
        """A new topic with the message that begins it; the first one makes the group a forum."""
        group.topics.setdefault(GENERAL, Topic(GENERAL, "General"))
        first = self.post(group, Message(self.next_id(group), self.now(), service=Service("topic", title)))
        group.topics[first.id] = Topic(first.id, title)
        return group.topics[first.id]

    def delete_topic(self, group: Channel, topic_id: int) -> None:
        """With all its messages, as Telegram does it."""
        del group.topics[topic_id]
        self.delete(group, [i for i, one in group.messages.items() if topic_id in {i, one.topic}])

    def reveal(self, until: datetime | None = None) -> int:
        """Show what was withheld up to a moment, now unless told otherwise; how many messages that are."""
        shown = 0
        while self._veiled and self._veiled[0][0] <= (until or self.now()):
            _, channel_id, message_id = heappop(self._veiled)
            channel = self.channels[channel_id]
            message = channel.withheld.pop(message_id, None)
            if message is not None:  # not deleted meanwhile
                self._show(channel, message)
                shown += 1
        return shown

    def edit(
        self,
        channel: Channel,
        message_id: int,
        text: str,
        *,
        entities: tuple[Entity, ...] = (),
        file: File | None = None,
    ) -> Message:
        """Change a message's text, and its picture where one is given."""
        message = channel.messages[message_id]
        message.versions.append(message.text)
        message.text, message.entities, message.edited = text, entities, self.now().replace(microsecond=0)
        if file is not None:
            message.file = file
            self.files[file.id] = file
        message.changes += 1
        self._changed(channel, "edit", (message_id,))
        return message

    def delete(self, channel: Channel, ids: Iterable[int]) -> tuple[int, ...]:
        """Take messages away; those already gone are left out of the answer, and so are those no reader has seen."""
        wanted = tuple(ids)
        for i in wanted:
            if i in channel.withheld:
                channel.deleted[i] = channel.withheld.pop(i)
        gone = tuple(i for i in wanted if i in channel.messages)
        for i in gone:
            channel.deleted[i] = channel.messages.pop(i)
        if gone:
            self._changed(channel, "delete", gone)
        return gone

    def wipe(self, channel: Channel, up_to: int) -> tuple[int, ...]:
        """Clear the history up to an id: all that is left begins after it."""
        return self.delete(channel, [i for i in channel.messages if i <= up_to])

    def pin(self, channel: Channel, message_id: int) -> None:
        """Pin a message; what was pinned before stays so. The service message about it is posted apart."""
        message = channel.messages[message_id]
        message.pinned = True
        message.changes += 1

    def grow(
        self,
        channel: Channel,
        message_id: int,
        *,
        views: int = 0,
        forwards: int = 0,
        replies: int = 0,
        reactions: dict[str, int] | None = None,
    ) -> None:
        """Let counters grow: no edit, no pts, no push (Telegram sends none that matters here)."""
        message = channel.messages[message_id]
        message.counters.views += views
        message.counters.forwards += forwards
        message.counters.replies += replies
        for emoji, count in (reactions or {}).items():
            message.counters.reactions[emoji] = message.counters.reactions.get(emoji, 0) + count
        message.changes += 1

    def expire_references(self, files: Iterable[File] | None = None) -> None:
        """Make every reference handed out so far invalid, as Telegram does after some hours."""
        expired = {file.id for file in (self.files.values() if files is None else files)}
        for file_id in expired:
            references = self.files[file_id].references
            references.append(b"ref-%d" % len(references))
        for channel in self.channels.values():
            for message in channel.messages.values():
                if message.file is not None and message.file.id in expired:
                    message.changes += 1

    def _show(self, channel: Channel, message: Message) -> None:
        newer = list(takewhile(lambda i: i > message.id, reversed(channel.messages)))
        channel.messages[message.id] = message
        for i in reversed(newer):  # the order stays that of the ids
            channel.messages[i] = channel.messages.pop(i)
        self._changed(channel, "new", (message.id,))

    def _changed(self, channel: Channel, kind: str, ids: tuple[int, ...]) -> None:
        count = len(ids) if kind == "delete" else 1
        channel.pts += count
        change = Change(channel.pts, count, kind, ids)
        channel.changes.append(change)
        for listener in list(self._listeners):
            listener(channel, change)
