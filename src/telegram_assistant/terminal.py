"""A command in a terminal: its progress for people (plain lines elsewhere), and being stopped."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from rich.console import Console


class Steps:
    """Shows what is being started and how long each step took."""

    def __init__(self, console: Console) -> None:
        self._console = console

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        began = time.monotonic()
        if not self._console.is_terminal:
            yield
            self._console.print(f"{title} ({time.monotonic() - began:.1f} s)", highlight=False)
            return
        with self._console.status(f"{title} …"):
            yield
        self._console.print(f"[green]✓[/] {title} [dim]({time.monotonic() - began:.1f} s)[/]", highlight=False)

    def say(self, line: str) -> None:
        self._console.print(line, highlight=False, soft_wrap=True)


T = TypeVar("T")


@contextmanager
def stop_signals() -> Iterator[asyncio.Event]:
    """An event that SIGINT and SIGTERM set, instead of an exception in the middle of something."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, stopped.set)
    try:
        yield stopped
    finally:
        for name in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(name)


async def first_of(work: Coroutine[object, object, T], stopped: asyncio.Event) -> T | None:
    """The result of `work`, or None when we are stopped before. Its errors are raised."""
    working = asyncio.ensure_future(work)
    stopping = asyncio.ensure_future(stopped.wait())
    waiting: set[asyncio.Future[Any]] = {working, stopping}
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:  # also where the one who waits is cancelled: the work does not outlive it
        for one in waiting:
            one.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
