"""Whether memory stays flat, and how the cost of a post grows, while very many posts are captured.

As many as fit into BENCH_SECONDS (600 if nothing is said), and a million at most.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

import psutil

from bench.capture import Capture, cost
from bench.engines import started_engines
from bench.figure import RESULTS, Figure
from bench.telegram import served_world
from telegram_assistant.source.telegram_account import TelegramAccount
from telegram_assistant.wiring.roles import collect_garbage_less

SECONDS = 600.0
CHANNELS, POSTS, COPIES = 4, 2_500, 100  # a million in all
TOGETHER = 8  # channels between two looks at the memory
MEGABYTE = 2**20


@dataclass(frozen=True)
class Look:
    """After so many posts: resident memory of this process, and its CPU time per post since the look before."""

    posts: int
    megabytes: float
    cpu: float


async def _measure(seconds: float) -> list[Look]:
    looks: list[Look] = []
    async with AsyncExitStack() as stack:
        engines = await stack.enter_async_context(started_engines())
        served = await stack.enter_async_context(served_world(channels=CHANNELS, posts=POSTS, copies=COPIES))
        await engines.add_channels(served.channels)
        capture = Capture(engines, await stack.enter_async_context(TelegramAccount(served.client(), "bench")), served)
        collect_garbage_less()
        process, posts, end = psutil.Process(), 0, time.perf_counter() + seconds
        for start in range(0, len(served.peers), TOGETHER):
            spent = await cost(capture.run(served.peers[start : start + TOGETHER]))
            found, posts = capture.captured, posts + capture.captured
            looks.append(Look(posts, process.memory_info().rss / MEGABYTE, spent.cpu / found))
            await engines.redis.flushdb()  # no process reads the streams here
            if time.perf_counter() > end:
                break
    return looks


def _figures(looks: Sequence[Look]) -> list[Figure]:
    """The last tenth beside the second: in the first, caches and pools get their size."""
    tenth = max(1, len(looks) // 10)
    early, late = looks[tenth : 2 * tenth] or looks, looks[-tenth:]
    return [
        Figure("memory_posts_captured", looks[-1].posts, "posts", CHANNELS * POSTS * COPIES),
        Figure(
            "memory_resident",
            max(look.megabytes for look in late),
            "MB",
            max(look.megabytes for look in early),
        ),
        Figure(
            "memory_cpu_per_post",
            min(look.cpu for look in late) * 1e6,
            "µs/post",
            min(look.cpu for look in early) * 1e6,
        ),
    ]


def _write_table(looks: Sequence[Look]) -> None:
    step = max(1, len(looks) // 12)
    lines = ["# Capturing on and on", "", "| posts captured | resident MB | CPU µs/post |", "|---:|---:|---:|"]
    lines += [f"| {look.posts:,} | {look.megabytes:.0f} | {look.cpu * 1e6:.0f} |" for look in looks[::step]]
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "memory.md").write_text("\n".join([*lines, ""]), encoding="utf-8")


def run() -> list[Figure]:
    """Resident memory after the last posts, beside that after the first."""
    looks = asyncio.run(_measure(float(os.environ.get("BENCH_SECONDS", SECONDS))))
    _write_table(looks)
    return _figures(looks)
