"""The worker process: it may die, hang or be cancelled, and it never outlives us."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import psutil
import pytest

from telegram_assistant.ai.vision.describer import LocalVision
from telegram_assistant.ai.vision.ocr import find_trained_data
from telegram_assistant.domain.models import Picture
from telegram_assistant.errors import Retry

pytestmark = pytest.mark.integration

Make = Callable[..., Picture]
T = TypeVar("T")


def pid_of(vision: LocalVision) -> int | None:
    pid = vision.status()["worker_pid"]
    assert pid is None or isinstance(pid, int)
    return pid


async def working(vision: LocalVision, job: Coroutine[Any, Any, T]) -> tuple[asyncio.Future[T], psutil.Process]:
    """A job that was handed over, and the worker, which will not get to it."""
    await vision.start()
    worker = psutil.Process(pid_of(vision))
    worker.suspend()
    asked = asyncio.ensure_future(job)
    await asyncio.sleep(0)
    return asked, worker


async def test_nothing_runs_until_it_is_needed_nor_after_the_end(picture: Make, pencil: Any) -> None:
    vision = LocalVision(None, nsfw=False)
    assert pid_of(vision) is None
    await vision.fingerprint(picture(pencil.logo()))
    worker = psutil.Process(pid_of(vision))
    await vision.close()
    assert not worker.is_running()
    assert psutil.Process().children() == [child for child in psutil.Process().children() if child.pid != worker.pid]
    with pytest.raises(Retry, match="closed"):
        await vision.fingerprint(picture(pencil.logo()))
    await vision.close()
    gc.collect()  # a pipe that was left open would warn now, and warnings fail


async def test_a_dead_worker_means_later_and_the_next_one_works(picture: Make, pencil: Any) -> None:
    vision = LocalVision(None, nsfw=False)
    asked, first = await working(vision, vision.describe(picture(pencil.logo())))
    first.kill()
    with pytest.raises(Retry, match="died over this request"):
        await asked
    assert pid_of(vision) is None
    seen = await vision.describe(picture(pencil.logo()))
    assert seen.dominant_colors
    assert pid_of(vision) not in {None, first.pid}
    await vision.close()


async def test_who_waits_is_not_hurt_by_anothers_death(picture: Make, pencil: Any) -> None:
    vision = LocalVision(None, nsfw=False)
    asked, worker = await working(vision, vision.fingerprint(picture(pencil.scribble(0))))
    others = [asyncio.ensure_future(vision.fingerprint(picture(pencil.scribble(seed)))) for seed in (1, 2, 3)]
    worker.kill()
    ends = await asyncio.gather(asked, *others, return_exceptions=True)
    assert isinstance(ends[0], Retry)
    assert len({end.phash for end in ends[1:] if not isinstance(end, BaseException)}) == 3
    await vision.close()


async def test_a_worker_that_takes_too_long_is_ended(picture: Make, pencil: Any) -> None:
    vision = LocalVision(None, nsfw=False, limit=0.01)
    asked, worker = await working(vision, vision.describe(picture(pencil.logo())))
    with pytest.raises(Retry, match=r"took longer than 0\.01 s and was ended"):
        await asked
    assert not worker.is_running()
    await vision.close()


async def test_an_answer_that_nobody_waits_for_is_not_taken_for_the_next(picture: Make, pencil: Any) -> None:
    vision = LocalVision(None, nsfw=False)
    expected = await vision.fingerprint(picture(pencil.scribble(2)))
    given_up, _ = await working(vision, vision.fingerprint(picture(pencil.scribble(1))))
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    assert await vision.fingerprint(picture(pencil.scribble(2))) == expected
    await vision.close()


async def test_closing_does_not_wait_for_a_long_job(picture: Make, pencil: Any) -> None:
    vision = LocalVision(None, nsfw=False)
    asked, worker = await working(vision, vision.describe(picture(pencil.logo())))
    await vision.close()
    assert not worker.is_running()
    with pytest.raises(Retry):
        await asked


async def test_a_picture_that_takes_long_to_read_has_a_result_without_text(picture: Make, pencil: Any) -> None:
    data = find_trained_data()
    if data is None:
        pytest.skip("no trained data: scripts/tessdata could not fetch it here")
    vision = LocalVision(data, nsfw=False, read_limit=0.001)
    seen = await vision.describe(picture(pencil.page(["many words to read on this page"] * 40)))
    assert seen.ocr is None
    assert "unread" in seen.labels
    await vision.close()


PARENT = """
import asyncio, io, sys
from PIL import Image
from telegram_assistant.domain.models import Picture
from telegram_assistant.ai.vision.describer import LocalVision

async def main():
    out = io.BytesIO()
    Image.new("RGB", (50, 50), "red").save(out, "PNG")
    vision = LocalVision(None, nsfw=False)
    await vision.fingerprint(Picture(sha256="", mime="image/png", content=out.getvalue()))
    print(vision.status()["worker_pid"], flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def test_it_does_not_outlive_a_killed_parent() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        worker = psutil.Process(int(parent.stdout.readline()))
        assert worker.is_running()
        parent.kill()
    gone, _ = psutil.wait_procs([worker], timeout=300)
    assert gone == [worker]
