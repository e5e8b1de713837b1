"""An installation at the schema of a former version, on a world that it watches."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from telegram_assistant.stores.postgres.database import open_database
from telegram_simulator.model import User
from telegram_simulator.server import Simulator
from telegram_simulator.world import World
from tests.e2e.pipeline.conftest import READER, Town
from tests.upgrade.installation import Installation
from tests.upgrade.versions import Missing, Version, former

REQUIRED = os.environ.get("TGA_REQUIRE_PREVIOUS") == "1"


@pytest.fixture
def previous(request: pytest.FixtureRequest, folder: Path) -> Version:
    """The version whose name is the parameter."""
    try:
        return former(request.param, folder / "code" / request.param)
    except Missing as exc:
        if REQUIRED:
            pytest.fail(f"TGA_REQUIRE_PREVIOUS=1, and the former version is not here: {exc}")
        pytest.skip(f"the former version is not here: {exc}")


@pytest.fixture
async def town() -> AsyncIterator[Town]:
    world = World()
    world.add_user(User(READER, 501, "Ann", phone="79990000001"))
    async with Simulator(world) as sim:
        yield Town(world, sim, "")
    assert sim.unhandled == []


@pytest.fixture
async def house(
    town: Town, folder: Path, empty_database_url: str, redis_url: str, redis: Redis
) -> AsyncIterator[Installation]:
    key = folder / "key.pem"
    key.write_text(town.sim.public_key_pem, encoding="ascii")
    environment = {
        "DATABASE_URL": empty_database_url,
        "REDIS_URL": redis_url,
        "MEDIA_URL": str(folder / "media"),
        "TGA_SECRET_KEY": "of this test",
        "TELEGRAM_API_ID": "1",
        "TELEGRAM_API_HASH": "hash",
        "TELEGRAM_SESSION": town.sim.session(READER),
        "TELEGRAM_SERVER": town.sim.address,
        "TELEGRAM_RSA_KEY": str(key),
        "TELEGRAM_PACING_ENABLED": "false",
        "PARSER_SCHEDULER_INTERVAL_SEC": "1",
        "PARSER_MAX_CONCURRENCY": "1",  # so that a second process finds something to do
        "POLLING_BOUND_SEC": "5",
        "INGEST_LEASE_SEC": "4",
        "WORKER_LEASE_SEC": "2",
        "INGEST_HEALTH_PORT": "0",
        "PREVIEW_HOSTS": "",  # a test never reaches the real Telegram
        "WORKER_HEALTH_PORT": "0",
        "API_PORT": "0",
        "COLUMNS": "300",
    }
    database = open_database(empty_database_url)
    made = Installation(folder, environment, database, redis)
    yield made
    for program in made.programs:
        if program.process.returncode is None:
            await program.kill()
    await database.dispose()
