"""What happens in a world, in order of time: arrivals, items of albums, edits, deletions, comments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from heapq import heappop, heappush
from itertools import islice
from random import Random
from typing import TypeAlias

from telegram_simulator.desk import Desk, Wire
from telegram_simulator.model import Channel, Forward, Message, User
from telegram_simulator.texts import pick
from telegram_simulator.veil import Veil
from telegram_simulator.voices import voice_of
from telegram_simulator.world import World

Action: TypeAlias = Callable[[datetime], None]
LONGEST_DELAY = 2 * 86_400  # seconds after which edits, deletions and comments end


class Newsroom:
    """Runs the desks of a world on one agenda. The world's clock stands at the moment of what happens."""

    def __init__(
        self, world: World, wire: Wire, *, commenters: list[User], item_gap: float = 0.0, veil: Veil | None = None
    ) -> None:
        self.world = world
        self.wire = wire
        self.arrivals = 0
        self._commenters = commenters
        self._gap = timedelta(seconds=item_gap)  # between the items of an album
        self._veil = veil
        self._agenda: list[tuple[datetime, int, Action]] = []
        self._entries = 0
        self._at = datetime.min.replace(tzinfo=UTC)
        self._reached = self._at
        self._roots: dict[tuple[int, int], int] = {}  # group and post -> the post's copy in the group

    @property
    def next_at(self) -> datetime | None:
        """When something happens next."""
        return self._agenda[0][0] if self._agenda else None

    def open(self, channel: Channel, arrivals: Iterator[datetime], seed: str) -> None:
        """Let a channel post at the given moments."""
        desk = Desk(channel, voice_of(channel), Random(f"{seed}/{channel.id}"), self.wire)
        # What was there before can be replied to as well.
        desk.recent.extend(list(channel.messages)[-10:])
        self._expect(desk, arrivals)

    def send(self, channel: Channel, event: str, at: datetime, seed: str) -> None:
        """Let a channel report an event, besides whatever else it posts."""
        desk = Desk(channel, voice_of(channel), Random(f"{seed}/{channel.id}"), self.wire)
        self.later(at, partial(self._report, desk, event))

    def later(self, at: datetime, action: Action) -> None:
        """Put something on the agenda."""
        self._entries += 1
        heappush(self._agenda, (at, self._entries, action))

    def run(self, until: datetime, at_most: int | None = None) -> int:
        """Let everything happen up to a moment, but no more than so many arrivals: the rest comes late, dated late."""
        before, outer = self.arrivals, self.world.now
        self.world.now = self._moment
        try:
            while self._agenda and self._agenda[0][0] <= until:
                if at_most is not None and self.arrivals - before >= at_most:
                    break
                at, _, action = heappop(self._agenda)
                self._at = max(at, self._reached)
                action(self._at)
        finally:
            self.world.now = outer
        self._reached = max(self._reached, until)
        return self.arrivals - before

    def _moment(self) -> datetime:
        return self._at

    def _expect(self, desk: Desk, arrivals: Iterator[datetime], after: datetime | None = None) -> None:
        at = next(arrivals, None)
        if at is not None:
            self.later(at if after is None else max(at, after), partial(self._arrive, desk, arrivals))

    def _arrive(self, desk: Desk, arrivals: Iterator[datetime], at: datetime) -> None:
        self.arrivals += 1
        messages = desk.write(at)
        if not self._gap:
            for message in messages:
                self._post(desk, message)
            self._arrived(desk, messages, arrivals, at)
            return
        self._post_items(desk, messages, 0, arrivals, at)

    def _report(self, desk: Desk, event: str, at: datetime) -> None:
        self.arrivals += 1
        messages = desk.report(event, at)
        self._post(desk, messages[0])
        self._plan_changes(desk, messages, at)

    def _post_items(
        self, desk: Desk, messages: list[Message], index: int, arrivals: Iterator[datetime], at: datetime
    ) -> None:
        """Post one item of an album and put the next on the agenda; the channel's next post waits for the last."""
        self._post(desk, messages[index])
        if index + 1 < len(messages):
            self.later(at + self._gap, partial(self._post_items, desk, messages, index + 1, arrivals))
        else:
            self._arrived(desk, messages, arrivals, at)

    def _post(self, desk: Desk, message: Message) -> None:
        channel = desk.channel
        message.id = self.world.next_id(channel)
        visible_at = None if self._veil is None else self._veil.lifted(channel, message.id, self._at)
        self.world.post(channel, message, visible_at=visible_at)
        if visible_at is not None:
            self.later(visible_at, self._reveal)
            return
        if message.service is not None:
            if message.service.action == "pin" and message.reply_to in channel.messages:
                self.world.pin(channel, message.reply_to)
            return
        desk.recent.append(message.id)
        if not channel.private and message.poll is None and message.grouped_id is None:
            self.wire.posts.append((channel, message.id))

    def _reveal(self, at: datetime) -> None:
        self.world.reveal(at)

    def _arrived(self, desk: Desk, messages: list[Message], arrivals: Iterator[datetime], at: datetime) -> None:
        self._plan_changes(desk, messages, at)
        self._expect(desk, arrivals, after=at)

    def _plan_changes(self, desk: Desk, messages: list[Message], at: datetime) -> None:
        """Decide what becomes of an arrival."""
        rng, voice, ids = desk.rng, desk.voice, tuple(message.id for message in messages)
        inside = ids[len(ids) // 2]
        if rng.random() < voice.holes:
            gone = (inside,) if len(ids) > 1 and rng.random() < 0.5 else ids
            self.later(_after(rng, at, 2400), partial(self._delete, desk.channel, gone))
        elif len(ids) > 1 and rng.random() < 0.06:
            self.later(_after(rng, at, 1800), partial(self._delete, desk.channel, (inside,)))
        first = messages[0]
        if first.service is not None or first.poll is not None:
            return
        if first.forward is None and rng.random() < voice.edits:
            self.later(_after(rng, at, 1500), partial(self._edit, desk, first.id))
        if desk.channel.linked_id is not None:
            while rng.random() < voice.comments / (1 + voice.comments):
                self.later(_after(rng, at, 5400), partial(self._comment, desk, first.id))

    def _delete(self, channel: Channel, ids: tuple[int, ...], _at: datetime) -> None:
        self.world.delete(channel, ids)

    def _edit(self, desk: Desk, message_id: int, _at: datetime) -> None:
        message = desk.channel.messages.get(message_id)
        if message is not None:
            (text, entities), file = desk.amended(message)
            self.world.edit(desk.channel, message_id, text, entities=entities, file=file)

    def _comment(self, desk: Desk, post_id: int, at: datetime) -> None:
        channel, rng = desk.channel, desk.rng
        group = self.world.channels.get(channel.linked_id or 0)
        post = channel.messages.get(post_id)
        if group is None or post is None or not self._commenters:
            return
        text, entities = desk.pen.comment()
        reply_to = self._root(group, channel, post, at)
        others = [i for i in islice(reversed(group.messages), 6) if group.messages[i].comment_to == post_id]
        if others and rng.random() < 0.4:
            reply_to = pick(rng, others)
        comment = Message(self.world.next_id(group), at, text, entities, reply_to=reply_to, comment_to=post_id)
        comment.sender_id = pick(rng, self._commenters).id
        self.world.post(group, comment)
        self.world.grow(channel, post_id, replies=1)
        if rng.random() < 0.03:
            self.later(_after(rng, at, 1800), partial(self._uncomment, group, channel, comment.id))

    def _uncomment(self, group: Channel, channel: Channel, comment_id: int, _at: datetime) -> None:
        comment = group.messages.get(comment_id)
        if comment is None:
            return
        self.world.delete(group, (comment_id,))
        if comment.comment_to in channel.messages:
            self.world.grow(channel, comment.comment_to, replies=-1)

    def _root(self, group: Channel, channel: Channel, post: Message, at: datetime) -> int:
        """The copy of a post in its discussion group, made when the first comment needs it."""
        key = (group.id, post.id)
        if key not in self._roots:
            origin = Forward(channel.id, post.id, post.date, post.author)
            copy = Message(self.world.next_id(group), at, post.text, post.entities, post.file, forward=origin)
            self._roots[key] = self.world.post(group, copy).id
        return self._roots[key]


def _after(rng: Random, at: datetime, mean: float) -> datetime:
    return at + timedelta(seconds=min(LONGEST_DELAY, 1 + int(rng.expovariate(1 / mean))))
