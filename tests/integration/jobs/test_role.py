"""The jobs as the `api` role starts them: with their place in health, and done in order."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path

import pytest
from rich.console import Console

from telegram_assistant.bus.supervisor import Supervisor
from telegram_assistant.embedded.folder import DataFolder, Running
from telegram_assistant.errors import Fatal
from telegram_assistant.health import Health
from telegram_assistant.jobs import TRENDS
from telegram_assistant.services.services import Services
from telegram_assistant.terminal import Steps
from telegram_assistant.wiring.jobs import start_jobs
from telegram_assistant.wiring.runtime import Runtime

pytestmark = pytest.mark.integration


def runtime_of(services: Services, stack: AsyncExitStack, folder: Path) -> Runtime:
    supervisor = Supervisor()
    return Runtime(
        settings=services.settings,
        steps=Steps(Console(quiet=True)),
        folder=DataFolder(folder),
        supervisor=supervisor,
        health=Health(supervisor, demo=False),
        stack=stack,
        database=services.database,
        redis=services.redis,
        running=Running("", ""),
        joined=False,
    )


async def test_they_start_report_and_stop(services: Services, tmp_path: Path) -> None:
    called = asyncio.Event()

    async def trends(_: datetime) -> None:
        called.set()

    async with AsyncExitStack() as stack:
        runtime = runtime_of(services, stack, tmp_path)
        jobs = await start_jobs(runtime, services, work={TRENDS: trends})
        assert set(jobs.plans) == {"digests", "trends"}
        await called.wait()
        await jobs.settle()
        details = await runtime.health.details()
        assert details["tasks"]["jobs"]["status"] == "ok"
        assert details["jobs"]["status"] == "ok"
        assert details["jobs"]["jobs"]["trends"]["outcome"] == "done"
    assert await services.redis.get("lock:jobs") is None


async def test_a_job_without_a_time_keeps_the_service_from_starting(services: Services, tmp_path: Path) -> None:
    """SPEC 7.5."""

    async def cook(_: datetime) -> None: ...

    async with AsyncExitStack() as stack:
        runtime = runtime_of(services, stack, tmp_path)
        with pytest.raises(Fatal, match="no time for these jobs in the table: cooking"):
            await start_jobs(runtime, services, work={"cooking": cook})
