"""What the server must find quickly: a channel's ids in order, the comments of a post, when a channel last changed."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from datetime import datetime

from telegram_simulator.model import Change, Channel
from telegram_simulator.world import World


class Index:
    """Kept in step with the world by `apply`, so that a page costs the same in a long channel as in a short one."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._ids: dict[int, list[int]] = {}
        self._threads: dict[int, dict[int, list[int]]] = {}
        self._roots: dict[int, dict[int, int]] = {}
        self._changed: dict[int, datetime] = {}

    def reset(self) -> None:
        """Forget everything: changes may have passed unseen."""
        self._ids.clear()
        self._threads.clear()
        self._roots.clear()
        self._changed.clear()

    def ids(self, channel: Channel) -> list[int]:
        """Ids of a channel's messages, ascending."""
        ids = self._ids.get(channel.id)
        if ids is None or len(ids) != len(channel.messages):
            ids = self._ids[channel.id] = sorted(channel.messages)
        return ids

    def thread(self, group: Channel, post_id: int) -> list[int]:
        """Ids of a group's messages under one post of its channel, ascending."""
        threads = self._threads.get(group.id)
        if threads is None:
            threads = self._threads[group.id] = defaultdict(list)
            for message_id in self.ids(group):
                comment_to = group.messages[message_id].comment_to
                if comment_to is not None:
                    threads[comment_to].append(message_id)
        return threads.get(post_id, [])

    def root(self, group: Channel, post_id: int) -> int | None:
        """The message of a group that is the forwarded post of its channel: what its comments answer."""
        roots = self._roots.get(group.id)
        if roots is None:
            roots = self._roots[group.id] = {}
            for message_id in self.ids(group):
                self._note_root(group, message_id)
        return roots.get(post_id)

    def changed_since(self, channel: Channel, date: datetime) -> bool:
        """Whether a channel has news; one of which we saw no change may have had some before we started."""
        changed = self._changed.get(channel.id)
        return changed is None or changed >= date.replace(microsecond=0)

    def apply(self, channel: Channel, change: Change) -> None:
        self._changed[channel.id] = self._world.now()
        if channel.id in self._ids and change.kind != "edit":
            self._move(self._ids[channel.id], change)
        if channel.id in self._threads and change.kind != "edit":
            self._move_threads(channel, change)
        if channel.id in self._roots and change.kind == "new":
            self._note_root(channel, change.ids[0])

    def _note_root(self, group: Channel, message_id: int) -> None:
        message = group.messages[message_id]
        forward = message.forward
        if forward is not None and forward.channel_id == group.linked_id and message.comment_to is None:
            self._roots[group.id].setdefault(forward.message_id, message_id)

    def _move(self, ids: list[int], change: Change) -> None:
        if change.kind == "new":
            for message_id in change.ids:
                insort(ids, message_id)  # one that shows late belongs between others
            return
        for message_id in change.ids:
            place = bisect_left(ids, message_id)
            if place < len(ids) and ids[place] == message_id:
                del ids[place]

    def _move_threads(self, group: Channel, change: Change) -> None:
        for message_id in change.ids:
            message = group.messages.get(message_id) or group.deleted.get(message_id)
            if message is None or message.comment_to is None:
                continue
            self._move(
                self._threads[group.id][message.comment_to],
                Change(change.pts, 1, change.kind, (message_id,)),
            )
