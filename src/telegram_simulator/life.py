"""A world that goes on: its channels post, complete albums, edit, delete and get comments, in real or faster time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import islice
from time import monotonic

from telegram_simulator.archive import Archive
from telegram_simulator.attention import grow_to
from telegram_simulator.clock import Clock
from telegram_simulator.desk import Wire
from telegram_simulator.newsroom import Newsroom
from telegram_simulator.tempers import times
from telegram_simulator.texts import LINK_HOST
from telegram_simulator.veil import Veil
from telegram_simulator.voices import voice_of
from telegram_simulator.world import World

__all__ = ["Clock", "Life"]

GROWTH_EVERY = timedelta(minutes=1)
GROWING = 30  # newest posts of a channel whose counters still move
ITEM_GAP = 1.0  # seconds between the items of an album
PAUSES = (0.01, 1.0)  # shortest and longest sleep of the loop
ROUND = 200  # arrivals at most before others get the event loop


class Allowance:
    """How many arrivals may come now: so many a second, and what was not used is kept for a second at most."""

    def __init__(self, per_second: float | None, time: Callable[[], float] = monotonic) -> None:
        self._per_second = per_second
        self._time = time
        self._left, self._since = 1.0, time()

    def left(self) -> int:
        if self._per_second is None:
            return ROUND
        now = self._time()
        self._left = min(self._left + (now - self._since) * self._per_second, max(1.0, self._per_second))
        self._since = now
        return min(ROUND, int(self._left))

    def spend(self, arrivals: int) -> None:
        self._left -= arrivals


class Life:
    """Lets a world go on from its present moment.

    `speed` is how many times faster than real time the world's clock runs; `rate` sets how many arrivals an hour
    (of the world's time) all channels have together, in place of each channel's own; `posts_per_second` is a
    bound in real time: what is more comes late. Counters move once in every `growth` of real time. `veil` lets some
    posts show later than they are dated; `archive` gets every story.
    """

    def __init__(
        self,
        world: World,
        *,
        seed: int,
        speed: float = 1.0,
        rate: float | None = None,
        posts_per_second: float | None = None,
        growth: timedelta = GROWTH_EVERY,
        link_host: str = LINK_HOST,
        veil: Veil | None = None,
        archive: Archive | None = None,
    ) -> None:
        if speed <= 0:
            raise ValueError("the speed of a life must be above 0")
        self.world = world
        self.speed = speed
        self.clock = world.now if isinstance(world.now, Clock) else Clock(world.now())
        world.now = self.clock
        self._bound = posts_per_second
        start = self.clock().replace(microsecond=0)
        commenters = [user for user in world.users.values() if user.phone is None]
        # Stories of this life must not be taken for those of the history.
        wire = Wire(link_host=link_host, archive=archive, first_story=1_000_000_000 + seed * 1_000_000)
        self._room = Newsroom(world, wire, commenters=commenters, item_gap=ITEM_GAP, veil=veil)
        for channel_id, a_day in self._living(rate).items():
            channel = world.channels[channel_id]
            self._room.open(channel, times(f"{seed}/life/{channel_id}", channel.temper, a_day, start), f"{seed}/life")
        self._voices = [(c, voice_of(c)) for c in world.channels.values() if not c.group]
        self._growth = growth * max(1.0, speed)
        self._room.later(start + self._growth, self._grow)

    def step(self, until: datetime, at_most: int | None = None) -> int:
        """Let everything happen up to a moment, and set the clock there; gives the number of arrivals."""
        done = self._room.run(until, at_most)
        self.clock.advance_to(until)
        return done

    async def run(self) -> None:
        """Live until cancelled."""
        self.clock.set_speed(self.speed)
        allowance = Allowance(self._bound)
        while True:
            allowance.spend(self.step(self.clock(), allowance.left()))
            await asyncio.sleep(self._pause())

    def _pause(self) -> float:
        shortest, longest = PAUSES
        if self._room.next_at is None:
            return longest
        wait = (self._room.next_at - self.clock()).total_seconds() / self.speed
        return min(longest, max(shortest, wait))

    def _living(self, rate: float | None) -> dict[int, float]:
        """Arrivals a day for each channel that posts."""
        own = {c.id: c.rate for c in self.world.channels.values() if c.rate > 0 and not c.group}
        if rate is None:
            return own
        if not own:  # a world made by hand says nothing about rates
            own = {c.id: 1.0 for c in self.world.channels.values() if not c.group and c.temper != "dead"}
        factor = rate * 24 / sum(own.values()) if own else 0.0
        return {channel: a_day * factor for channel, a_day in own.items()}

    def _grow(self, at: datetime) -> None:
        for channel, voice in self._voices:
            for message in list(islice(reversed(channel.messages.values()), GROWING)):
                grow_to(self.world, channel, message, voice, at)
        self._room.later(at + self._growth, self._grow)
