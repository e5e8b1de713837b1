"""Commands as a person types them, in a thread of this process: a process of their own takes two seconds each."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pytest
import structlog
from redis.asyncio import Redis
from sqlalchemy.ext.asyncio import AsyncEngine
from typer.testing import CliRunner

from telegram_assistant.cli.main import app
from telegram_assistant.config import Settings
from telegram_assistant.errors import AssistantError
from telegram_assistant.stores.media import MediaStore
from tests.integration.stages.desk import Desk


@dataclass(frozen=True)
class Printed:
    """What a command printed, lines and columns put together."""

    code: int
    out: str

    @property
    def words(self) -> str:
        return " ".join(self.out.split())


Tga: TypeAlias = Callable[..., Awaitable[Printed]]


@pytest.fixture
def _quiet() -> Iterator[None]:
    """A command sets up logging for its process; the tests after it want theirs back."""
    root, config = logging.getLogger(), structlog.get_config()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.configure(**config)


@pytest.fixture
def environment(database_url: str, redis_url: str, folder: Path) -> dict[str, str]:
    return {
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_url,
        "TGA_DATA_DIR": str(folder / "data"),
        "TELEGRAM_API_ID": "1",
        "TELEGRAM_API_HASH": "hash",
        "PREVIEW_HOSTS": "",  # a test never reaches the real Telegram
    }


@pytest.fixture
def tga(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, _quiet: None) -> Tga:
    monkeypatch.chdir(tmp_path)  # where no .env of a developer lies
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)

    async def run(*arguments: str) -> Printed:
        result = await asyncio.to_thread(CliRunner().invoke, app, arguments, env=environment)
        if isinstance(result.exception, AssistantError):
            return Printed(result.exit_code, str(result.exception))  # cli.main.run prints it
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Printed(result.exit_code, result.output)

    return run


@pytest.fixture
async def desk(database: AsyncEngine, redis: Redis) -> Desk:
    made = Desk(database, redis, MediaStore.open("memory://"))
    await made.open_channel()
    return made
