"""`tga up`: ready with one line, well, stopped within seconds, and nothing left behind."""

from __future__ import annotations

import asyncio
import re
import signal
from pathlib import Path

import httpx
import psutil
import pytest

from tests.e2e.conftest import Starter

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("with_signal, log_format", [(signal.SIGINT, "console"), (signal.SIGTERM, "json")])
async def test_it_starts_is_well_and_stops(start: Starter, with_signal: signal.Signals, log_format: str) -> None:
    tga = await (await start(LOG_FORMAT=log_format, LOG_LEVEL="INFO" if log_format == "console" else "DEBUG")).ready()
    assert "demo" in tga.out[-1]
    details = await tga.well()
    assert {report["status"] for report in details["tasks"].values()} == {"ok"}
    assert {report["status"] for report in details["engines"].values()} == {"ok"}
    async with httpx.AsyncClient(trust_env=False, timeout=300) as client:
        assert (await client.get(f"{tga.url}/health")).status_code == 200
        assert "Demo" in (await client.get(f"{tga.url}/")).text
        assert "supervised_task_up" in (await client.get(f"{tga.url}/metrics")).text

    children = tga.children()
    assert set(tga.engines()) == {"postgres", "valkey-server"}
    outcome = await tga.stop(with_signal)
    assert outcome.code == 0, outcome.err
    assert outcome.out.splitlines()[-1] == "Stopped."
    if log_format == "json":
        assert_json(outcome.err)
    else:
        assert "Traceback" not in outcome.err
    assert [child for child in children if child.is_running()] == []
    with pytest.raises(httpx.ConnectError):
        async with httpx.AsyncClient(trust_env=False, timeout=300) as client:
            await client.get(f"{tga.url}/health")


async def test_a_stop_in_the_middle_of_the_start(start: Starter, place: Path) -> None:
    """Ctrl-C during the first start, while PostgreSQL makes its files."""
    tga = await start()
    for _ in range(3000):
        if list((place / "data").glob("postgres.new*")):
            break
        await asyncio.sleep(0.01)
    children = tga.children()
    outcome = await tga.stop()
    assert outcome.code == 0
    assert outcome.err == ""
    gone, alive = psutil.wait_procs(children, timeout=300)
    assert (len(gone), alive) == (len(children), [])
    again = await (await start()).ready()
    await again.stop()


async def test_with_servers_of_ones_own_it_starts_none(
    start: Starter, place: Path, empty_database_url: str, redis_url: str
) -> None:
    database_url = f"{empty_database_url}?application_name=tga"
    tga = await start(DATABASE_URL=database_url, REDIS_URL=redis_url, METRICS_MAX_CHANNELS="1")
    await tga.ready()
    await tga.well()
    assert tga.engines() == {}
    assert not (place / "data" / "postgres").exists()
    assert not (place / "data" / "valkey").exists()
    assert await tga.query("SELECT count(*) > 1 FROM channels")
    async with httpx.AsyncClient(trust_env=False, timeout=120) as client:
        text = (await client.get(f"{tga.url}/metrics")).text
    assert set(re.findall(r'channel_id="([^"]*)"', text)) == {"all"}, "with so many, metrics tell of all together"
    assert (await tga.stop()).code == 0


def assert_json(log: str) -> None:
    """SPEC 6.4: on stderr, one object per line; what is said to people stays on stdout."""
    lines = log.splitlines()
    assert lines
    assert [line for line in lines if not (line.startswith("{") and line.endswith("}"))] == []
