"""`tga up` with a bot's token: the bot answers, and stops with the rest."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.integration.bot.bot_api import BotApi, Person

pytestmark = pytest.mark.e2e

Starter = Any  # of conftest.py, which cannot be imported

TOKEN = "4242:AAE-a-token-of-a-test-000000000000000"


async def test_the_bot_runs_with_everything_else(start: Starter) -> None:
    async with BotApi().serve() as api:
        tga = await start(TELEGRAM_BOT_TOKEN=TOKEN, TELEGRAM_BOT_API_URL=api.url)
        await tga.ready()
        async with asyncio.timeout(300):
            said = await Person(api, 999).asks("/start")
        assert "only talk to people who have an account" in said.text
        tasks = (await tga.details())["tasks"]
        assert {tasks[name]["status"] for name in ("bot", "bot_updates", "jobs", "alerts")} == {"ok"}
        outcome = await tga.stop()
    assert outcome.code == 0
    assert TOKEN not in outcome.out + outcome.err
