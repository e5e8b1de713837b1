"""Progress for people: plain lines where no terminal is, and nothing said of a step that failed."""

from __future__ import annotations

import asyncio
import io
import re

import pytest
from rich.console import Console

from telegram_assistant.terminal import Steps, first_of

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("terminal", [True, False])
def test_a_step_is_told_when_it_is_done(terminal: bool) -> None:
    out = io.StringIO()
    with Steps(Console(file=out, force_terminal=terminal, width=80)).step("Database schema"):
        if not terminal:
            assert out.getvalue() == ""
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.getvalue())
    assert re.search(r"Database schema \(\d+\.\d s\)", plain)
    assert ("\x1b" in out.getvalue()) is terminal


@pytest.mark.parametrize("terminal", [True, False])
def test_a_step_that_failed_is_not_told_as_done(terminal: bool) -> None:
    out = io.StringIO()
    steps = Steps(Console(file=out, force_terminal=terminal, width=80))
    with pytest.raises(LookupError), steps.step("Database schema"):
        raise LookupError
    assert " s)" not in out.getvalue()


def test_a_long_line_is_not_broken() -> None:
    """Else the address in the ready line could not be clicked or read by a script."""
    out = io.StringIO()
    Steps(Console(file=out, width=40)).say("ready: http://127.0.0.1:8011/ " + "x" * 100)
    assert len(out.getvalue().splitlines()) == 1


async def test_work_ends_with_the_one_who_waits_for_it() -> None:
    """A sign-in on the page was left connected to Telegram when the process stopped in the midst of it."""
    begun, ended = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0)  # as a connection takes a moment to close
            ended.set()

    waiting = asyncio.ensure_future(first_of(work(), asyncio.Event()))
    await begun.wait()
    waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
    assert ended.is_set()
