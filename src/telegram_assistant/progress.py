"""Progress for people: a spinner per step on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

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
