"""Telethon alone, in a process that has nothing else in it: reads every page of some channels and throws it away.

A repetition for each line on stdin; the answer is what it cost.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from telethon import TelegramClient
from telethon.sessions import StringSession
from telethon.tl import functions, types

PAGE = 100

Channel = tuple[int, int, str]  # id, access hash, username


async def read_alone(client: Any, channels: list[Channel]) -> int:
    """The pages that capture asks for, in the same way; how many messages they hold."""
    count = 0
    for channel_id, access_hash, _ in channels:
        peer, after = types.InputPeerChannel(channel_id, access_hash), 0
        while True:
            request = functions.messages.GetHistoryRequest(peer, after + 1, None, -PAGE, PAGE, 0, max(0, after - 1), 0)
            found = (await client(request)).messages
            count += sum(message.id > after for message in found)
            if not found or found[-1].id <= after:
                break
            after = found[0].id
    return count


@asynccontextmanager
async def alone_process(
    session: str, channels: list[Channel], *, calm: bool
) -> AsyncIterator[Callable[[], Awaitable[list[float]]]]:
    """A function that lets the process read everything once: messages, CPU seconds, wall seconds.

    `calm`: with the garbage collector held back as we do it, which is not how Telethon comes.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.alone"), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    asked, told = process.stdin, process.stdout
    if asked is None or told is None:
        raise RuntimeError("a pipe was asked for")

    async def ask(line: object) -> list[float]:
        asked.write(json.dumps(line).encode() + b"\n")
        answer: list[float] = json.loads(await told.readline())
        return answer

    try:
        await ask([session, channels, calm])
        yield lambda: ask("again")
    finally:
        asked.close()
        await process.wait()


async def _main() -> None:
    session, channels, calm = json.loads(await asyncio.to_thread(sys.stdin.readline))
    if calm:
        gc.collect()
        gc.freeze()
        gc.set_threshold(100_000, 20, 100)
    client = TelegramClient(StringSession(session), 1, "bench", flood_sleep_threshold=0, receive_updates=False)
    await client.connect()
    print("[]", flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        cpu, wall = time.process_time(), time.perf_counter()
        count = await read_alone(client, channels)
        print(json.dumps([count, time.process_time() - cpu, time.perf_counter() - wall]), flush=True)
    await client.disconnect()


if __name__ == "__main__":
    asyncio.run(_main())
