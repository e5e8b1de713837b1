"""A page that hangs, crashes or floods its reader costs that reader only."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from telegram_assistant.crawl.pool import Pool
from telegram_assistant.crawl.worker import Extracted
from telegram_assistant.errors import Retry, Skip

pytestmark = pytest.mark.integration

HOSTILE = (sys.executable, str(Path(__file__).with_name("hostile_worker.py")))
Make = Callable[..., Pool]


@pytest.fixture
async def make() -> AsyncIterator[Make]:
    pools: list[Pool] = []

    def made(*arguments: str, **options: Any) -> Pool:
        pools.append(Pool((*HOSTILE, *arguments), **{"seconds": 20.0, **options}))
        return pools[-1]

    yield made
    for pool in pools:
        await pool.close()


async def ask(pool: Pool, what: str = "fine") -> Extracted:
    return await pool.extract(what.encode(), url="http://a.test/", kind="text/html", charset="utf-8")


async def test_a_process_serves_many_pages(make: Make) -> None:
    pool = make()
    answers = [await ask(pool) for _ in range(3)]
    assert len({answer.title for answer in answers}) == 1
    assert answers[0].text == "fine"


@pytest.mark.parametrize("what", ["hang", "spin"])
async def test_a_page_that_hangs_is_skipped_and_its_process_killed(make: Make, what: str) -> None:
    pool = make(seconds=2)
    first = await ask(pool)
    with pytest.raises(Skip, match="could not be read within 2 s"):
        await ask(pool, what)
    assert not psutil.pid_exists(int(first.title))
    second = await ask(pool)
    assert second.title != first.title


@pytest.mark.parametrize(
    "what,words",
    [
        ("abort", "exit status -6"),
        ("raise", "RecursionError: too deep"),
        ("exit", "exit status 3"),
        ("memory", "MemoryError"),
    ],
)
async def test_a_page_that_crashes_its_process_is_skipped(make: Make, what: str, words: str) -> None:
    pool = make()
    with pytest.raises(Skip, match=f"crashed its reader: {words}"):
        await ask(pool, what)
    assert (await ask(pool)).text == "fine"


async def test_what_libraries_print_does_not_disturb(make: Make) -> None:
    pool = make()
    assert (await ask(pool, "print")).text == "print"
    assert (await ask(pool)).text == "fine"


async def test_an_answer_without_measure_is_refused(make: Make) -> None:
    pool = make()
    with pytest.raises(Skip, match="confused"):
        await ask(pool, "huge")
    assert (await ask(pool)).text == "fine"


async def test_a_process_that_cannot_start_is_tried_later(make: Make) -> None:
    with pytest.raises(Retry, match=r"does not start \(ImportError: no module named x"):
        await ask(make("broken"))


async def test_a_process_that_died_between_pages(make: Make) -> None:
    pool = make()
    pid = int((await ask(pool)).title)
    os.kill(pid, signal.SIGKILL)
    assert (await ask(pool)).text == "fine", "the page that comes next is not to blame"


async def test_processes_are_replaced_after_their_share_of_pages(make: Make) -> None:
    pool = make(pages=2)
    pids = [(await ask(pool)).title for _ in range(5)]
    assert pids[0] == pids[1] != pids[2] == pids[3] != pids[4]


async def test_as_many_work_as_are_allowed(make: Make) -> None:
    pool = make(size=2)
    answers = await asyncio.gather(*(ask(pool, str(number)) for number in range(20)))
    assert [answer.text for answer in answers] == [str(number) for number in range(20)]
    assert len({answer.title for answer in answers}) == 2


async def test_a_caller_who_is_cancelled_takes_the_process_along(make: Make) -> None:
    """Its answer would be taken for that of the next page."""
    pool = make()
    pid = int((await ask(pool)).title)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(ask(pool, "hang"), 0.5)
    assert not psutil.pid_exists(pid)
    assert (await ask(pool, "next")).text == "next"


async def test_closing_ends_every_process(make: Make) -> None:
    pool = make(size=2)
    pids = {int(answer.title) for answer in await asyncio.gather(ask(pool), ask(pool))}
    await pool.close()
    assert [pid for pid in pids if psutil.pid_exists(pid)] == []
