"""An engine that stops while a command runs is one line for a person; a mistake of ours keeps its traceback."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from telegram_assistant.cli.session import with_runtime
from telegram_assistant.config import Settings
from telegram_assistant.errors import Fatal
from telegram_assistant.wiring.runtime import Runtime

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("_quiet")]


@pytest.fixture(autouse=True)
def _settings(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)  # where no .env of a developer lies
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)


async def execute(runtime: Runtime, statement: str) -> None:
    async with runtime.database.connect() as connection:
        await connection.execute(text(statement))


async def test_a_database_that_stops_meanwhile_is_one_line() -> None:
    ended = "SELECT pg_terminate_backend(pg_backend_pid())"
    with pytest.raises(Fatal, match=r"an engine stopped or refuses .*: look with tga doctor, and try again") as found:
        await asyncio.to_thread(with_runtime, lambda runtime: execute(runtime, ended))
    assert "\n" not in str(found.value)


async def test_a_mistake_of_ours_is_not_taken_for_an_engine() -> None:
    with pytest.raises(DBAPIError, match="division by zero"):
        await asyncio.to_thread(with_runtime, lambda runtime: execute(runtime, "SELECT 1 / 0"))
