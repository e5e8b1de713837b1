"""The bot over an archive, with a Bot API on loopback: people of two tenants, some of them linked."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from rich.console import Console

from telegram_assistant.bus.supervisor import Supervisor
from telegram_assistant.embedded.folder import DataFolder, Running
from telegram_assistant.health import Health
from telegram_assistant.services.services import Services
from telegram_assistant.stores.postgres.telegram_users import TelegramUsers
from telegram_assistant.terminal import Steps
from telegram_assistant.wiring.bot import BotRole, start_bot
from telegram_assistant.wiring.runtime import Runtime, utc_now
from tests.integration.bot.bot_api import TOKEN, BotApi, Person

Town = Any  # of the conftest.py above, which cannot be imported


@dataclass
class Bot:
    """A bot that runs."""

    role: BotRole
    runtime: Runtime


@pytest.fixture
async def api() -> AsyncIterator[BotApi]:
    async with BotApi().serve() as served:
        yield served


@pytest.fixture
async def services(services: Services, api: BotApi) -> Services:
    changed = {"telegram_bot_token": SecretStr(TOKEN), "telegram_bot_api_url": api.url, "hostname": "of-a-test"}
    return replace(services, settings=services.settings.model_copy(update=changed))


@asynccontextmanager
async def running(services: Services, folder: Path, **wired: Any) -> AsyncIterator[Bot]:
    """The bot as `tga bot` runs it, until the end of the block."""
    supervisor = Supervisor(first_delay=0.01, longest_delay=0.05)
    async with AsyncExitStack() as stack:
        runtime = Runtime(
            settings=services.settings,
            steps=Steps(Console(file=io.StringIO())),
            folder=DataFolder(folder),
            supervisor=supervisor,
            health=Health(supervisor, demo=False),
            stack=stack,
            database=services.database,
            redis=services.redis,
            running=Running("", ""),
            joined=True,
            clock=utc_now,
        )
        yield Bot(await start_bot(runtime, services, **wired), runtime)


@pytest.fixture
async def bot(services: Services, tmp_path: Path) -> AsyncIterator[Bot]:
    async with running(services, tmp_path) as found:
        yield found


@pytest.fixture
def link(services: Services, api: BotApi) -> Callable[..., Awaitable[Person]]:
    """Somebody of the town with Telegram, whom the bot knows."""

    async def make(person: Any, number: int, language: str = "en") -> Person:
        assert await TelegramUsers(services.database).link(person.tenant_id, person.user_id, number)
        made = Person(api, number, language)
        api.chats.add(number)
        return made

    return make


@pytest.fixture
async def ann(town: Town, link: Callable[..., Awaitable[Person]]) -> Person:
    """The admin of the system's tenant."""
    return await link(town.admin, 111)


@pytest.fixture
async def bob(town: Town, link: Callable[..., Awaitable[Person]]) -> Person:
    """The admin of tenant B, who speaks Russian."""
    return await link(town.other, 222, "ru")
