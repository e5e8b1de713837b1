"""kill -9 at any moment: the next start mends what was left, and the data is there (G3)."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import psutil
import pytest

from tests.e2e.conftest import Starter

pytestmark = pytest.mark.e2e

KILLS = 10
LATEST = 2.5  # seconds after the start: from the first file of the first start to a running system
MAKING = (1, 2)  # kills while PostgreSQL makes its first files
WRITING = (4, 7, 10)  # kills of a system that is ready and has just written


def has_begun(data: Path) -> bool:
    return any(data.glob("postgres.new*/PG_VERSION"))


async def first_files(data: Path) -> None:
    for _ in range(6000):
        if has_begun(data):
            return
        await asyncio.sleep(0.005)
    pytest.fail("PostgreSQL did not begin within 30 s")


async def test_it_comes_back_from_ten_kills_with_its_data(start: Starter) -> None:
    moments = random.Random(7)  # the same moments on every run
    orphans: set[psutil.Process] = set()
    written = 0
    for number in range(1, KILLS + 1):
        tga = await start()
        if number in WRITING:
            await tga.ready()
            await tga.query("CREATE TABLE IF NOT EXISTS survivors (n int)")
            await tga.query("INSERT INTO survivors VALUES ($1)", number)
            written += 1
            await asyncio.sleep(moments.uniform(0, 0.5))
        elif number in MAKING:
            await first_files(tga.data)
            await asyncio.sleep(moments.uniform(0, 0.4))
        else:
            await asyncio.sleep(moments.uniform(0, LATEST))
        assert tga.process.returncode is None, tga.err()
        orphans |= set(tga.children())
        tga.process.kill()
        await tga.process.communicate()

    tga = await (await start()).ready()
    assert await tga.query("SELECT count(*) FROM survivors") == written == len(WRITING)
    details = await tga.well()
    assert {report["status"] for report in details["tasks"].values()} == {"ok"}
    for _ in range(3000):  # capture goes on too, once the lock of the killed one has run out
        if await tga.query("SELECT count(*) > 0 FROM posts"):
            break
        await asyncio.sleep(0.1)
    else:
        pytest.fail("nothing was captured after the kills")
    _, alive = psutil.wait_procs(orphans - set(tga.children()), timeout=300)
    assert alive == []
    assert not list(tga.data.glob("postgres.new*"))
    assert (await tga.stop()).code == 0


async def test_a_killed_engine_is_started_again_and_nobody_else_notices(start: Starter) -> None:
    tga = await (await start()).ready()
    await tga.well()
    for name in ("postgres", "valkey-server"):
        tga.engines()[name].kill()
    for _ in range(3000):
        details = await tga.details()
        if details["status"] == "ok" and all(details["tasks"][name]["restarts"] for name in ("postgres", "valkey")):
            break
        await asyncio.sleep(0.1)
    assert details["status"] == "ok", details["troubles"]
    assert tga.process.returncode is None
    assert (await tga.stop()).code == 0
