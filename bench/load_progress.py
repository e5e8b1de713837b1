"""How a load run goes, while it does: a line that renews itself on a terminal, one in half a minute elsewhere."""

from __future__ import annotations

import time
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from bench.load_outcome import Plan
from bench.load_watch import Sample

LINE_EVERY = 30.0
WIDTH = 24


class Progress:
    """Tells people; nothing depends on it."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._live = Live(console=self._console, refresh_per_second=2, transient=True)
        self._told_at = 0.0
        self._phase = ("", 0.0)  # and since when

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        if self._live.is_started:
            self._live.stop()

    def say(self, line: str) -> None:
        self._console.print(line, highlight=False, soft_wrap=True)

    def show(self, name: str, plan: Plan, sample: Sample) -> None:
        if self._phase[0] != sample.phase:
            self._phase, self._told_at = (sample.phase, sample.at), 0.0
        line = self._line(name, plan, sample)
        if self._live.is_started:
            self._live.update(Text(line, no_wrap=True, overflow="ellipsis"))
        elif time.monotonic() - self._told_at > LINE_EVERY:
            self._told_at = time.monotonic()
            self.say(line)

    def _line(self, name: str, plan: Plan, sample: Sample) -> str:
        passed = sample.at - self._phase[1]
        bar = ""
        if sample.phase == "load":
            share = min(1.0, passed / plan.seconds)
            bar = f" {'█' * round(WIDTH * share):░<{WIDTH}}"
        memory = sum(use.memory for use in sample.use.values())
        return (
            f"{name}: {sample.phase}{bar} {passed:.0f} s, posted {sample.posted:,}, saved {sample.saved:,},"
            f" indexed {sample.indexed:,}, on the way {sample.on_the_way:,}, {memory:,.0f} MB, load {sample.load:.1f},"
            f" warnings {sample.warnings}, dead {sample.dead}, restarts {sample.restarts}"
        )
