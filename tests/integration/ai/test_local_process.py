"""The worker process: lost, hanging, cancelled, closed; none is left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from telegram_assistant.ai.local.provider import LocalEmbedder, ModelProcess
from telegram_assistant.errors import Retry

pytestmark = pytest.mark.integration

PARENT = """
import asyncio, sys, time
from telegram_assistant.ai.local.provider import LocalEmbedder
from telegram_assistant.ai.local.provider import ModelProcess

async def main():
    process = ModelProcess()
    await LocalEmbedder(process).embed(["x"])
    print("worker", process.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.fixture
async def process() -> AsyncIterator[ModelProcess]:
    process = ModelProcess()
    yield process
    await process.close()


async def gone(pid: int) -> None:
    """Returns when the process has ended."""
    _, alive = await asyncio.to_thread(
        psutil.wait_procs, [process for process in psutil.process_iter() if process.pid == pid], 30
    )
    assert alive == []


async def test_a_worker_that_dies_is_replaced(process: ModelProcess) -> None:
    embedder = LocalEmbedder(process)
    before = await embedder.embed(["привет"])
    first = process.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    with pytest.raises(Retry, match="died") as caught:
        await embedder.embed(["привет"])
    assert caught.value.after == 1.0
    again = await embedder.embed(["привет"])
    assert process.pid not in {None, first}
    assert again.vectors == before.vectors


async def test_a_cancelled_caller_does_not_disturb_the_next(process: ModelProcess) -> None:
    embedder = LocalEmbedder(process)
    one, other = (await embedder.embed(["один", "другой"])).vectors
    pid = process.pid
    for _ in range(5):
        slow = asyncio.create_task(embedder.embed(["длинный текст " * 500] * 8))
        await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow
        assert (await embedder.embed(["один"])).vectors[0] == pytest.approx(one, abs=1e-5)
        assert (await embedder.embed(["другой"])).vectors[0] == pytest.approx(other, abs=1e-5)
    assert process.pid == pid  # loading the models again would cost seconds


async def test_a_worker_that_hangs_is_ended(process: ModelProcess) -> None:
    embedder = LocalEmbedder(process)
    await embedder.embed(["x"])
    pid = process.pid
    assert pid is not None
    process.worker.limit = 0.2
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(Retry, match="took longer"):
        await embedder.embed(["y"])
    await gone(pid)
    process.worker.limit = 60.0
    assert (await embedder.embed(["y"])).vectors


async def test_closing_ends_the_worker_and_refuses_more() -> None:
    process = ModelProcess()
    embedder = LocalEmbedder(process)
    await embedder.embed(["x"])
    pid = process.pid
    assert pid is not None
    await process.close()
    assert not psutil.pid_exists(pid)
    with pytest.raises(Retry, match="closed"):
        await embedder.embed(["x"])
    await process.close()


async def test_closing_does_not_wait_for_work_in_hand() -> None:
    process = ModelProcess()
    embedder = LocalEmbedder(process)
    await embedder.embed(["x"])
    pid = process.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)  # it will never answer
    waiting = asyncio.create_task(embedder.embed(["y"]))
    await asyncio.sleep(0)
    await process.close()
    with pytest.raises(Retry):
        await waiting
    await gone(pid)


async def test_nothing_is_started_before_it_is_needed() -> None:
    process = ModelProcess()
    assert process.pid is None
    await process.close()


async def test_a_worker_does_not_outlive_a_killed_parent() -> None:
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", PARENT, stdout=subprocess.PIPE)
    try:
        assert parent.stdout is not None
        while not (line := await parent.stdout.readline()).startswith(b"worker"):
            assert line
    finally:
        parent.kill()
        await parent.wait()
    await gone(int(line.split()[1]))


async def test_a_worker_that_cannot_start_is_told_as_retry(tmp_path: Path) -> None:
    process = ModelProcess(tmp_path / "no-such-file.toml")
    with pytest.raises(Retry, match="does not start"):
        await LocalEmbedder(process).embed(["x"])
    await process.close()
