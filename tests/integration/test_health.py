"""Health tells the outcome, over real HTTP (SPEC 6.1, 6.2, 7.3)."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from redis.asyncio import Redis
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

import telegram_assistant
from telegram_assistant import health as health_module
from telegram_assistant.bus.supervisor import Supervisor, Task, TaskState
from telegram_assistant.errors import Fatal, Retry
from telegram_assistant.freshness import Freshness, Rule
from telegram_assistant.health import Health
from telegram_assistant.http.serving import health_app, listen, serve
from telegram_assistant.stores.media import MediaStore, S3Access

pytestmark = pytest.mark.integration

HOSTILE = "<script>alert('x')</script>"


@dataclass
class Site:
    """A running health server, and somebody who asks it."""

    health: Health
    supervisor: Supervisor
    client: httpx.AsyncClient

    async def json(self, path: str, status: int = 200) -> Any:
        answer = await self.client.get(path)
        assert answer.status_code == status, answer.text
        return answer.json()


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    supervisor = Supervisor(first_delay=0.01)
    health = Health(supervisor, demo=True)
    with listen("127.0.0.1", 0, variable="INGEST_HEALTH_PORT") as listener:
        app = health_app(health)
        await supervisor.start("health", lambda task: serve(app, listener, task))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with httpx.AsyncClient(base_url=url, timeout=20, trust_env=False) as client:
            yield Site(health, supervisor, client)
        await asyncio.wait_for(supervisor.stop(), 300)


async def nothing() -> None:
    """An engine that answers."""


async def steady(task: Task) -> None:
    task.ready()
    await asyncio.Event().wait()


async def failing(task: Task) -> None:
    task.ready()
    raise Retry(f"no answer {HOSTILE}")


async def test_all_is_well(site: Site, database: AsyncEngine, redis: Redis) -> None:
    async def select_one() -> None:
        async with database.connect() as connection:
            await connection.execute(text("SELECT 1"))

    site.health.engines |= {"postgres": select_one, "redis": redis.ping}
    assert await site.json("/health") == {"status": "ok", "troubles": [], "demo": True}
    details = await site.json("/health/details")
    assert details["status"] == "ok"
    assert details["version"] == telegram_assistant.__version__
    assert details["engines"] == {name: {"status": "ok", "error": None} for name in ("postgres", "redis")}
    assert details["tasks"]["health"]["status"] == "ok"
    assert details["tasks"]["health"]["restarts"] == 0
    for moment in (details["time"], details["tasks"]["health"]["since"]):
        assert datetime.fromisoformat(moment).utcoffset() == timedelta(0)


async def test_an_engine_that_is_down_is_not_well(site: Site) -> None:
    async def refused() -> None:
        raise ConnectionRefusedError("nobody is there")

    site.health.engines["redis"] = refused
    brief = await site.json("/health", 503)
    assert brief["status"] == "failing"
    (trouble,) = brief["troubles"]
    said = (
        r"engine redis: ConnectionRefusedError: nobody is there \(since \d\d:\d\d:\d\d UTC\); nothing goes .*; start .*"
    )
    assert re.fullmatch(said, trouble), "what, since when, at what cost, and what to do"
    details = await site.json("/health/details")
    assert details["engines"]["redis"]["status"] == "down"


async def test_an_engine_that_hangs_is_not_well(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_module, "PROBE_SECONDS", 0.1)

    async def hangs() -> None:
        await asyncio.Event().wait()

    site.health.engines |= {"postgres": hangs, "redis": nothing}
    details = await site.json("/health/details")
    assert details["engines"]["postgres"]["status"] == "down"
    assert "no answer within" in details["engines"]["postgres"]["error"]
    assert details["engines"]["redis"]["status"] == "ok"


async def test_a_task_that_keeps_failing_is_not_well(site: Site) -> None:
    """SPEC 7.3, 7.6."""
    task = await site.supervisor.start("parser", failing)
    task.failures = 2
    for _ in range(30_000):
        if task.state is TaskState.FAILING:
            break
        await asyncio.sleep(0.01)
    brief = await site.json("/health", 503)
    assert [said.partition(" (since")[0] for said in brief["troubles"]] == [f"task parser: no answer {HOSTILE}"]
    details = await site.json("/health/details")
    assert details["tasks"]["parser"]["status"] == "failing"
    assert details["tasks"]["parser"]["restarts"] >= 1


async def test_a_task_without_progress_is_not_well(site: Site) -> None:
    """LESSONS 15: a consumer idle for 29 h in a "healthy" process."""
    task = await site.supervisor.start("consumer", steady, patience=60)
    await site.json("/health")
    assert task.progressed is not None
    task.progressed -= 29 * 3600
    brief = await site.json("/health", 503)
    assert [said.partition(" (since")[0] for said in brief["troubles"]] == ["task consumer: stuck"]


async def test_a_role_says_how_it_is_doing(site: Site) -> None:
    """SPEC 6.2: `scheduler` and `parser` stand beside `tasks`."""
    interval = 300
    status = "ok"

    async def scheduler() -> dict[str, Any]:
        return {"status": status, "last_tick_ts": None, "interval_sec": interval, "lock_owner": "me"}

    site.health.sections["scheduler"] = scheduler
    details = await site.json("/health/details")
    assert details["scheduler"] == {
        "status": "ok",
        "last_tick_ts": None,
        "interval_sec": 300,
        "lock_owner": "me",
    }
    status = "stale"
    brief = await site.json("/health", 503)
    assert [said.partition(" (since")[0] for said in brief["troubles"]] == ["role scheduler: stale"]
    assert brief["scheduler"]["status"] == "stale", "as the first system's operators look for it"


async def test_a_part_that_does_not_work_is_told_and_is_no_503(site: Site) -> None:
    async def parser() -> dict[str, Any]:
        overdue = [{"channel": f"@late{HOSTILE}", "since": "2025-10-28T12:00:00+00:00", "error": None}]
        channels = {"active": 40, "overdue": 3, "failing": 0, "dead": 0}
        error = "3 of 40 channels are overdue"
        return {"status": "degraded", "error": error, "overdue": overdue, "channels": channels}

    async def refused() -> None:
        raise ConnectionRefusedError("nobody is there")

    site.health.sections["parser"] = parser
    site.health.engines["media"] = refused
    brief = await site.json("/health")
    assert brief["status"] == "degraded"
    assert len(brief["troubles"]) == 2
    page = await site.client.get("/")
    assert "3 of 40 channels are overdue" in page.text
    assert "All is well" not in page.text
    assert "@late" in page.text
    assert "and 2 more" in page.text
    assert HOSTILE not in page.text


async def test_what_is_tried_in_vain_is_not_well(site: Site) -> None:
    """G9: by freshness, whatever the number of channels."""
    ticks = 0.0
    site.health.freshness = freshness = Freshness(lambda: ticks)
    freshness.watch("account", "a", Rule(within=45, shown="Alice", what="does not answer", cost="nothing is read"))
    with freshness.trying("account", "a"):
        assert (await site.json("/health"))["status"] == "ok"
        ticks += 46
        brief = await site.json("/health", 503)
        (said,) = brief["troubles"]
        assert re.fullmatch(
            r"account Alice: it does not answer since \d\d:\d\d:\d\d UTC \(no answer\); nothing is read", said
        )
        metrics = (await site.client.get("/metrics")).text
        assert 'part_stale{kind="account",part="Alice"} 1.0' in metrics
        assert 'health_troubles{level="failing"} 1.0' in metrics
    details = await site.json("/health/details")
    assert (details["status"], details["troubles"]) == ("ok", [])
    assert details["freshness"]["account"]["Alice"]["succeeded_seconds_ago"] == 0


async def test_n32_an_object_store_that_hangs_is_told(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_module, "PROBE_SECONDS", 0.5)

    with socket.create_server(("127.0.0.1", 0)) as hangs:  # it accepts nothing, and so answers nothing
        endpoint = f"http://127.0.0.1:{hangs.getsockname()[1]}"
        access = S3Access(endpoint=endpoint, region="us-east-1", access_key_id="a", secret_access_key="b")
        site.health.engines["media"] = MediaStore.open("s3://pictures", s3=access).answers
        brief = await site.json("/health")
    assert brief["status"] == "degraded", "posts are captured, their files wait"
    assert brief["troubles"][0].startswith("engine media: no answer within")


async def test_n32_a_role_that_is_slow_to_report_is_as_it_was_a_moment_ago(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = False

    async def pipeline() -> dict[str, Any]:
        if slow:
            await asyncio.Event().wait()
        return {"status": "ok", "stages": {}}

    site.health.sections["pipeline"] = pipeline
    assert (await site.json("/health"))["status"] == "ok"
    slow = True
    monkeypatch.setattr(health_module, "PROBE_SECONDS", 0.2)
    assert (await site.json("/health"))["status"] == "ok"
    assert "no report" in (await site.json("/health/details"))["pipeline"]["report_error"]
    monkeypatch.setattr(health_module, "REPORT_SECONDS", 0.0)
    assert "no report" in (await site.json("/health", 503))["troubles"][0]


async def test_a_role_that_cannot_report_is_not_well_and_the_page_stays(site: Site) -> None:
    async def broken() -> dict[str, Any]:
        raise ConnectionError(f"Redis is gone {HOSTILE}")

    for name in ("scheduler", "parser", "accounts", "ledger"):
        site.health.sections[name] = broken
    details = await site.json("/health/details")
    assert details["status"] == "failing"
    assert "ConnectionError: Redis is gone" in details["scheduler"]["error"]
    await site.json("/health", 503)
    page = await site.client.get("/")
    assert page.status_code == 200
    assert "Redis is gone" in page.text
    assert HOSTILE not in page.text


async def test_metrics_can_be_scraped(site: Site) -> None:
    async def refused() -> None:
        raise ConnectionRefusedError

    site.health.engines |= {"postgres": nothing, "redis": refused}
    await site.json("/health/details")
    answer = await site.client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }
    assert samples["supervised_task_up", "health"] == 1
    assert samples["engine_up", "postgres"] == 1
    assert samples["engine_up", "redis"] == 0


async def test_the_page_says_demo_and_runs_no_script(site: Site) -> None:
    """G6: what an error quotes may come from a post."""
    await site.supervisor.start(f"odd {HOSTILE}", failing)
    page = await site.client.get("/")
    assert page.status_code == 200
    assert "Demo" in page.text
    assert "<title>Telegram Assistant (demo)</title>" in page.text
    assert "<script" not in page.text
    assert "&lt;script&gt;" in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]


async def test_the_page_of_real_channels_does_not_say_demo() -> None:
    health = Health(Supervisor(), demo=False)
    transport = httpx.ASGITransport(health_app(health))
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        page = (await client.get("/")).text
    assert "Demo" not in page
    assert "(demo)" not in page


@pytest.mark.parametrize("path", ["/nothing", "/health/", "/health/details/x"])
async def test_other_paths_are_not_there(site: Site, path: str) -> None:
    assert (await site.client.get(path)).status_code in {307, 404}


async def test_a_server_that_fell_over_listens_again(site: Site) -> None:
    """The port stays ours, so that a restart cannot lose it to somebody else."""
    task = site.supervisor.tasks["health"]
    serving = next(t for t in asyncio.all_tasks() if t.get_coro().__qualname__ == "Server.serve")  # type: ignore[union-attr]  # it has one
    serving.cancel()
    for _ in range(30_000):
        if task.restarts == 1 and task.state is TaskState.OK:
            break
        await asyncio.sleep(0.01)
    assert (await site.json("/health"))["status"] == "ok"
    assert task.restarts == 1


def test_a_taken_port_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            Fatal, match=rf"Cannot listen on 127\.0\.0\.1:{port} .*: stop what uses that port, or set X"
        ):
            listen("127.0.0.1", port, variable="X")


def test_a_host_that_is_not_ours_is_one_line() -> None:
    with pytest.raises(Fatal, match=r"Cannot listen on 192\.0\.2\.1:0"):
        listen("192.0.2.1", 0, variable="X")
