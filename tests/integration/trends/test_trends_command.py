"""`tga trends` in a terminal."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import structlog
import typer
from typer.testing import CliRunner

from telegram_assistant.cli.trends import trends
from telegram_assistant.config import Settings
from tests.integration.search.archive import SYSTEM, Archive
from tests.integration.trends import rising
from tests.integration.trends.rising import CHANNELS, Past

pytestmark = pytest.mark.integration


@pytest.fixture
def _quiet() -> Iterator[None]:
    """A command sets up logging for its process; the tests after it want theirs back."""
    root, config = logging.getLogger(), structlog.get_config()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.configure(**config)


@pytest.mark.usefixtures("_quiet")
async def test_what_rises_now_is_printed(
    archive: Archive, database_url: str, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where no .env of a developer lies
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    # A command looks at its own clock, so the month ends now.
    monkeypatch.setattr(rising, "NOW", datetime.now(UTC))
    for number in CHANNELS:
        await archive.channel(number, f"channel_{number}", SYSTEM)
    past = Past(archive)
    await past.ordinary()
    environment = {
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_url,
        "TGA_DATA_DIR": str(tmp_path / "data"),
        "TELEGRAM_API_ID": "1",
        "TELEGRAM_API_HASH": "hash",
    }
    app = typer.Typer()
    app.command()(trends)

    async def run(*arguments: str) -> str:
        result = await asyncio.to_thread(CliRunner().invoke, app, arguments, env=environment)
        assert result.exception is None, result.exception
        return result.output

    assert "nothing stood out" in await run("--now")
    await past.rise("[red]Атлантида", CHANNELS[:7], before=timedelta(hours=10))
    assert "nothing stood out; tga trends --now looks" in " ".join((await run()).split())
    printed = " ".join((await run("--now", "--days", "1")).split())
    assert "[red]Атлантида" in printed
    assert "7 mentions, usually 0.0; 7 independent channels" in printed
    assert "Channel_1001 https://t.me/channel_1001/" in printed
    [found] = json.loads(await run("--json"))
    assert [step["channel"] for step in found["path"]] == [f"Channel_{number}" for number in CHANNELS[:7]]
