"""`python -m bench.load_world CHANNELS ACCOUNTS`: a simulated Telegram in a process of its own that posts when told to.

Every account has joined its share of the channels, as real ones would have to: Telegram lets an account be in 500. It
prints where it is, then what it has posted, as lines of JSON. Words only, without links: nothing is drawn here, and
no request leaves the machine. It obeys `post RATE SECONDS CHANGED` and `truth PATH`, and ends when its input ends.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import md5
from itertools import cycle
from math import exp
from pathlib import Path
from random import Random

from telegram_simulator.generate import build_world
from telegram_simulator.model import Channel, Message, User
from telegram_simulator.server import Simulator
from telegram_simulator.world import World

FIRST_CHANNEL = 1_500_000_000
FIRST_USER = 100_000_001
# Long enough to be tagged: models are loaded by the first visit.
FIRST = "This is channel {}, and this is its first post; it will tell news of markets, science, sport and the city."
TELL_EVERY = 0.5  # seconds
LEAST_PAUSE = 0.005
RECENT = 2_000  # posts that are changed
DELETED = 0.25  # of the changes; the others are edits
SPREAD = 0.8  # how much channels differ in how often they post


def words() -> list[str]:
    """Of a generated world: short and long, two languages; none with a link, for no server would answer there."""
    world = build_world(seed=7, channels=12, posts=250)
    found = (message.text for channel in world.channels.values() for message in channel.messages.values())
    return [text for text in dict.fromkeys(found) if text and "http" not in text]


def make_world(channels: int, accounts: int) -> World:
    """Each channel has one post from before, so that a first visit has something to find."""
    world, before = World(), datetime.now(UTC) - timedelta(hours=2)
    for number in range(accounts):
        world.add_user(User(FIRST_USER + number, 7_000 + number, f"Reader {number + 1}", phone=f"7999000{number:04}"))
    for number in range(channels):
        channel = Channel(
            id=FIRST_CHANNEL + number,
            access_hash=9_000_000 + number,
            title=f"Channel {number + 1}",
            username=f"load_{number + 1}",
            created=before - timedelta(days=30),
            members={FIRST_USER + number * accounts // channels},
        )
        world.add_channel(channel)
        world.post(channel, Message(1, before, FIRST.format(number + 1)))
    return world


@dataclass
class Writer:
    """Posts at an even rate into channels drawn by their weight, and tells of each post."""

    world: World
    texts: Sequence[str]
    random: Random
    told: list[tuple[int, int, float]] = field(default_factory=list)
    edited: int = 0
    deleted: int = 0
    behind: float = 0.0  # seconds that it was behind its plan at worst
    _recent: deque[tuple[Channel, int]] = field(default_factory=lambda: deque(maxlen=RECENT))

    def __post_init__(self) -> None:
        self._texts = cycle(self.texts)
        self._channels = list(self.world.channels.values())
        self._weights = [exp(self.random.gauss(0.0, SPREAD)) for _ in self._channels]

    async def write(self, rate: float, seconds: float, changed: float) -> None:
        began, done, total = time.monotonic(), 0, round(rate * seconds)
        told_at = began
        while done < total:
            passed = time.monotonic() - began
            due = min(total, int(passed * rate) + 1)
            self.behind = max(self.behind, passed - done / rate)
            for channel in self.random.choices(self._channels, self._weights, k=due - done):
                self._post(channel)
                if self.random.random() < changed:
                    self._change()
            done = due
            if time.monotonic() - told_at > TELL_EVERY:
                told_at = time.monotonic()
                self.tell()
            await asyncio.sleep(max(LEAST_PAUSE, began + done / rate - time.monotonic()))
        self.tell(done=True)

    def tell(self, *, done: bool = False) -> None:
        """What was posted since the last line."""
        posts, self.told = self.told, []
        _say(posts=posts, edited=self.edited, deleted=self.deleted, behind=round(self.behind, 3), done=done)

    def truth(self) -> list[tuple[int, int, str]]:
        """Every message that is there, with a digest of its words."""
        return [
            (channel.id, message.id, md5(message.text.encode(), usedforsecurity=False).hexdigest())
            for channel in self._channels
            for message in channel.messages.values()
        ]

    def _post(self, channel: Channel) -> None:
        number = channel.newest_id + 1
        # No text twice: results of models are kept by it.
        text = f"{next(self._texts)} {channel.id - FIRST_CHANNEL}/{number}"
        now = time.time()
        self.world.post(channel, Message(number, datetime.fromtimestamp(now, UTC), text))
        self.told.append((channel.id, number, round(now, 4)))
        self._recent.append((channel, number))

    def _change(self) -> None:
        channel, number = self.random.choice(self._recent)
        if number not in channel.messages:
            return
        if self.random.random() < DELETED:
            self.deleted += len(self.world.delete(channel, [number]))
        else:
            self.edited += 1
            self.world.edit(channel, number, f"{channel.messages[number].text} Updated, {self.edited}.")


async def serve(channels: int, accounts: int) -> None:
    world = make_world(channels, accounts)
    writer = Writer(world, words(), Random("load"))  # noqa: S311 - the same posts in every run
    async with Simulator(world) as simulator:
        _say(
            address=simulator.address,
            key=simulator.public_key_pem,
            sessions=[(user_id, simulator.session(user_id)) for user_id in world.users],
            channels=[(one.id, one.access_hash, one.username, min(one.members)) for one in world.channels.values()],
        )
        writing: asyncio.Future[None] | None = None
        while command := (await asyncio.to_thread(sys.stdin.readline)).split():  # the end of it is the end of us
            match command:
                case ["post", rate, seconds, changed]:
                    writing = asyncio.ensure_future(writer.write(float(rate), float(seconds), float(changed)))
                case ["truth", path]:
                    Path(path).write_text(json.dumps(writer.truth()), encoding="utf-8")
                    _say(written=path)
        if writing is not None:
            writing.cancel()
            with suppress(asyncio.CancelledError):
                await writing


def _say(**what: object) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    asyncio.run(serve(*map(int, sys.argv[1:])))
