"""`tga jobs`: what there is, and having one run by whoever runs them."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime
from pathlib import Path

import pytest
from redis.asyncio import Redis
from sqlalchemy.ext.asyncio import AsyncEngine
from typer.testing import CliRunner

from telegram_assistant.bus.supervisor import Supervisor
from telegram_assistant.cli.main import app
from telegram_assistant.ingest.lock import Lock
from telegram_assistant.jobs import plans
from telegram_assistant.jobs.runner import Jobs
from telegram_assistant.names import JOBS_LOCK
from telegram_assistant.stores.postgres.jobs import JobRuns
from telegram_assistant.wiring.runtime import utc_now

pytestmark = pytest.mark.integration


async def run(environment: dict[str, str], *arguments: str) -> tuple[str, BaseException | None]:
    result = await asyncio.to_thread(CliRunner().invoke, app, ["jobs", *arguments], env=environment)
    return " ".join(result.output.split()), result.exception


@pytest.mark.usefixtures("_quiet")
async def test_jobs_are_listed_and_run(
    environment: dict[str, str], database: AsyncEngine, redis: Redis, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)  # where no .env of a developer lies
    _, nobody = await run(environment, "run", "trends")
    assert "start tga up, or tga api" in str(nobody)
    _, unknown = await run(environment, "run", "cooking")
    assert "there are digests, trends, emerging, interests, storage_usage" in str(unknown)

    async def work(_: datetime) -> str:
        return "3 trends"

    async def fail(_: datetime) -> str:
        raise RuntimeError("no disk")

    lock = Lock(redis, JOBS_LOCK, "of a test", ttl=30, monotonic=asyncio.get_running_loop().time)
    jobs = Jobs(
        plans(interests_minutes=5),
        {"trends": work, "storage_usage": fail},
        JobRuns(database),
        lock,
        clock=utc_now,
    )
    supervisor = Supervisor()
    await supervisor.start("jobs", jobs.run)
    try:
        said, _ = await run(environment, "run", "trends", "--wait", "60")
        assert "trends: done in" in said
        assert said.endswith("3 trends")
        _, failed = await run(environment, "run", "storage_usage", "--wait", "60")
        assert "storage_usage failed: RuntimeError: no disk" in str(failed)
        assert "Asked for" in (await run(environment, "run", "trends", "--wait", "0"))[0]
    finally:
        await supervisor.stop()
    listed = {one["job"]: one for one in json.loads((await run(environment, "list", "--json"))[0])}
    assert list(listed) == ["digests", "trends", "emerging", "interests", "storage_usage"]
    assert (listed["storage_usage"]["outcome"], listed["digests"]["last"]) == ("failed", None)
    assert "storage_usa" in (await run(environment, "list"))[0]
