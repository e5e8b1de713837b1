"""The simulated Telegram of a load run, from outside: where it is, what it has posted and when."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from bench.load_roles import ROOT, end
from telegram_assistant.domain.post import post_id


@dataclass
class Telegram:
    """Posts when it is told to; each of them is known here within a second."""

    process: asyncio.subprocess.Process
    served: dict[str, Any]
    published: dict[UUID, float] = field(default_factory=dict)  # epoch seconds
    deleted: int = 0
    edited: int = 0
    behind: float = 0.0
    _said: asyncio.Queue[dict[str, Any]] = field(default_factory=asyncio.Queue)

    @property
    def channels(self) -> list[tuple[int, int, str, int]]:
        """Ids, access hashes, usernames, and who has joined."""
        return [(one[0], one[1], one[2], one[3]) for one in self.served["channels"]]

    @property
    def alive(self) -> int:
        """Messages that are there, those from before included."""
        return len(self.channels) + len(self.published) - self.deleted

    async def post(self, rate: float, seconds: float, changed: float = 0.0) -> None:
        """Until the last of them."""
        self._tell(f"post {rate} {seconds} {changed}")
        while not (await self._said.get()).get("done"):
            pass

    async def truth(self, path: Path) -> dict[tuple[int, int], str]:
        """Every message that is there: channel and id, and the MD5 of its words."""
        self._tell(f"truth {path}")
        while "written" not in await self._said.get():
            pass
        return {(channel, number): digest for channel, number, digest in json.loads(path.read_text())}

    async def hear(self) -> None:
        """Note what it tells, until it ends."""
        if self.process.stdout is None:
            raise RuntimeError("the process has no output")
        async for line in self.process.stdout:
            said = json.loads(line)
            if "posts" in said:
                self.published |= {post_id(channel, number): at for channel, number, at in said["posts"]}
                self.edited, self.deleted, self.behind = said["edited"], said["deleted"], said["behind"]
            self._said.put_nowait(said)
        self._said.put_nowait({"done": True, "written": ""})  # no caller waits for a process that is gone

    def _tell(self, command: str) -> None:
        if self.process.stdin is None or self.process.returncode is not None:
            raise RuntimeError("the simulated Telegram has ended")
        self.process.stdin.write(f"{command}\n".encode())


@asynccontextmanager
async def simulated(channels: int, accounts: int) -> AsyncIterator[Telegram]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.load_world", str(channels), str(accounts)),
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=2**24,
        start_new_session=True,
    )
    hearing = None
    try:
        if process.stdout is None:
            raise RuntimeError("the process has no output")
        telegram = Telegram(process, json.loads(await process.stdout.readline()))
        hearing = asyncio.ensure_future(telegram.hear())
        yield telegram
    finally:
        if hearing is not None:
            hearing.cancel()
            with suppress(asyncio.CancelledError):
                await hearing
        await end(process)
