"""The demo: a simulated Telegram for who has no account yet. The rest of the system knows only its address.

The world is the same after a restart: it is made anew from its seed and the moment of its birth, and what happened
since then happens again before the server opens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from telegram_assistant.bus.supervisor import Task
from telegram_assistant.config import Settings
from telegram_simulator.generate import demo_world
from telegram_simulator.life import Life
from telegram_simulator.server import Simulator

API_ID = "1"
POSTS_PER_HOUR = 180.0  # of all channels together: something new every twenty seconds
GROWTH = timedelta(minutes=10)


class Demo:
    """Simulator and life of the demo world, as one supervised job."""

    def __init__(self, home: Path, *, clock: Callable[[], datetime]) -> None:
        self._home = home
        self._clock = clock
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._world = demo_world(now=self._born())
        self._life = Life(self._world, seed=1, rate=POSTS_PER_HOUR, growth=GROWTH)
        self._life.step(clock())
        self._simulator = Simulator(self._world, state_path=home / "sessions.json")

    async def run(self, task: Task) -> None:
        async with self._simulator:
            task.ready()
            await self._life.run()

    def telegram(self) -> dict[str, str]:
        """The settings that lead to the simulator; call it when the job is ready."""
        key = self._home / "key.pem"
        key.write_text(self._simulator.public_key_pem, encoding="ascii")
        return {
            "telegram_api_id": API_ID,
            "telegram_api_hash": "demo",
            "telegram_session": self._simulator.session(),
            "telegram_server": self._simulator.address,
            "telegram_rsa_key": str(key),
        }

    @property
    def usernames(self) -> list[str]:
        """The channels that a visitor is shown around in."""
        return [channel.username for channel in self._world.channels.values() if channel.username and not channel.group]

    def _born(self) -> datetime:
        path = self._home / "born.json"
        try:
            return msgspec.json.decode(path.read_bytes(), type=datetime)
        except FileNotFoundError:
            born = self._clock().replace(microsecond=0)
            path.write_bytes(msgspec.json.encode(born))
            return born


def with_telegram(settings: Settings, telegram: dict[str, str]) -> Settings:
    """The same settings, pointed at the simulator."""
    return Settings.model_validate({**settings.model_dump(), **telegram})


async def make_demo(home: Path, *, clock: Callable[[], datetime]) -> Demo:
    """In a thread: making a world takes a second, and the health page should answer meanwhile."""
    return await asyncio.to_thread(lambda: Demo(home, clock=clock))
