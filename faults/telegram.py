"""The simulated Telegram of an installation: a world of many channels, one who posts in it, and a gate before it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random

from faults.gate import Gate
from telegram_simulator.model import Channel, File, Kind, Message, User
from telegram_simulator.pictures import Picture
from telegram_simulator.server import Simulator
from telegram_simulator.world import World

FIRST_CHANNEL, FIRST_USER, FIRST_FILE = 1_600_000_000, 200_000_001, 5_000_000_000
HISTORY = 6  # posts of a channel before the run
MANY = 500  # channels; in a larger world nothing was posted before: reading it would take most of the run
APART = timedelta(minutes=20)
WITH_FILE = 8  # one new post of so many
WORDS = (
    *("budget", "bridge", "harvest", "market", "museum", "railway", "science", "season", "senate", "stadium"),
    *("station", "storm", "school", "theatre", "traffic", "valley", "village", "vineyard", "weather", "winter"),
)


@dataclass
class Telegram:
    """What is true: the world. What the system is told: the address of the gate."""

    world: World
    simulator: Simulator
    gate: Gate
    random: Random
    numbers: int = 0
    posting: asyncio.Event = field(default_factory=asyncio.Event)
    unreadable: set[tuple[int, int]] = field(default_factory=set)  # channel and message: of a type that no client knows
    gaps: bool = True  # ids of a channel are not dense

    @property
    def address(self) -> str:
        return f"2:127.0.0.1:{self.gate.port}"

    @property
    def channels(self) -> list[Channel]:
        return list(self.world.channels.values())

    def session(self, user_id: int) -> str:
        return self.simulator.session(user_id)

    @property
    def count(self) -> int:
        return sum(len(channel.messages) for channel in self.channels)

    def post(self, channel: Channel, *, with_file: bool = False) -> Message:
        """One more post, now; some have a file."""
        self.numbers += 1
        number = channel.newest_id + (self.random.randrange(1, 4) if self.gaps else 1)
        file = self._file() if with_file or self.numbers % WITH_FILE == 0 else None
        message = Message(number, datetime.now(UTC), self.text(), file=file)
        return self.world.post(channel, message)

    def spoil(self, channel: Channel) -> Message:
        """One more post, of a type that no client knows."""
        number = channel.newest_id + 1
        self.unreadable.add((channel.id, number))
        return self.world.post(channel, Message(number, datetime.now(UTC), self.text(), unknown=True))

    def picture(self, channel: Channel) -> Message:
        """One more post, with a photo that has words on it."""
        self.numbers += 1
        draw = Picture("card", ("A photo with words",), self.numbers, 480, 480, 24_000)
        file = File(FIRST_FILE + self.numbers, 1, Kind.PHOTO, "image/jpeg", draw=draw, width=480, height=480)
        return self.world.post(channel, Message(channel.newest_id + 1, datetime.now(UTC), self.text(), file=file))

    def text(self) -> str:
        """No text twice, each long enough to be tagged."""
        self.numbers += 1
        words = " ".join(self.random.choices(WORDS, k=14))
        return f"Report {self.numbers}: {words}."

    async def write(self, a_second: float) -> None:
        """Post in one channel after the other, in no order, while `posting` is set."""
        while True:
            await self.posting.wait()
            self.post(self.random.choice(self.channels))
            await asyncio.sleep(self.random.expovariate(a_second))

    def _file(self) -> File:
        self.numbers += 1
        content = b"minutes of meeting %d" % self.numbers
        return File(
            FIRST_FILE + self.numbers, 1, Kind.DOCUMENT, "text/plain", draw=lambda: content, name=f"{self.numbers}.txt"
        )


def make_world(channels: int, accounts: int) -> World:
    """Every account has joined its share of the channels."""
    world, now = World(), datetime.now(UTC)
    for number in range(accounts):
        world.add_user(User(FIRST_USER + number, 7_000 + number, f"Reader {number + 1}", phone=f"7999100{number:04}"))
    for number in range(channels):
        channel = Channel(
            id=FIRST_CHANNEL + number,
            access_hash=9_000_000 + number,
            title=f"Channel {number + 1}",
            username=f"faults_{number + 1}",
            created=now - timedelta(days=90),
            members={FIRST_USER + number * accounts // channels},
        )
        world.add_channel(channel)
    return world


@asynccontextmanager
async def simulated(channels: int, accounts: int, a_second: float) -> AsyncIterator[Telegram]:
    world = make_world(channels, accounts)
    async with Simulator(world) as simulator:
        gate = Gate(simulator.port)
        await gate.start()
        telegram = Telegram(world, simulator, gate, Random("faults"))  # noqa: S311 - the same posts in every run
        history = HISTORY if channels <= MANY else 0
        for channel in telegram.channels:
            began = datetime.now(UTC) - (history + 1) * APART
            for number in range(1, history + 1):
                world.post(channel, Message(number * 7, began + number * APART, telegram.text()))
        writing = asyncio.ensure_future(telegram.write(a_second))
        try:
            yield telegram
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
            await gate.stop()
