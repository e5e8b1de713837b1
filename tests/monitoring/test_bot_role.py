"""`tga bot` alone, as in compose.yaml: the health check of its container, and what Prometheus reads."""

from __future__ import annotations

import asyncio
import os
import re
import sys

import httpx
import pytest

from tests.e2e.conftest import READY, Starter, Tga
from tests.integration.bot.bot_api import BotApi, Person
from tests.monitoring.conftest import ROOT

pytestmark = pytest.mark.e2e

TOKEN = "4242:AAE-a-token-of-a-test-000000000000000"


async def start_bot(start: Starter, database_url: str, redis_url: str, api: BotApi) -> Tga:
    """With servers of its own and the tables in place."""
    data = start.place / "data"
    settings = {
        "TGA_DATA_DIR": str(data),
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_url,
        "BOT_HEALTH_PORT": "0",
        "TELEGRAM_BOT_TOKEN": TOKEN,
        "TELEGRAM_BOT_API_URL": api.url,
    }
    errors = start.place / "bot-stderr"
    with errors.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "telegram_assistant", "bot"),
            stdout=asyncio.subprocess.PIPE,
            stderr=file,
            cwd=start.place,
            env={**os.environ, **settings},
            start_new_session=True,
        )
    bot = Tga(process, data, errors)
    start.started.append(bot)  # which are ended, whatever happens
    await bot.ready()
    found = READY.search(bot.out[-1])
    assert found is not None
    bot.url = found[1]
    return bot


async def test_it_is_well_answers_and_is_scraped(start: Starter, database_url: str, redis_url: str) -> None:
    async with BotApi().serve() as api:
        bot = await start_bot(start, database_url, redis_url, api)
        assert "only talk to people" in (await Person(api, 999).asks("/start")).text
        script = ROOT / "deploy" / "docker" / "healthcheck.py"
        check = await asyncio.create_subprocess_exec(sys.executable, str(script), bot.url.rpartition(":")[2])
        assert await check.wait() == 0
        async with httpx.AsyncClient(trust_env=False, timeout=20) as client:
            text = (await client.get(f"{bot.url}/metrics")).text
        assert set(re.findall(r'engine_up\{engine="(\w+)"\} 1', text)) >= {"postgres", "redis"}
        outcome = await bot.stop()
    assert outcome.code == 0
    assert TOKEN not in outcome.out + outcome.err
