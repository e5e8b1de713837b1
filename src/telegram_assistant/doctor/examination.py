"""Everything that the doctor looks at, one after another."""

from __future__ import annotations

import asyncio

from telegram_assistant.config import Settings
from telegram_assistant.doctor import Finding, fail, warn
from telegram_assistant.doctor.machine import look_at_machine
from telegram_assistant.doctor.servers import (
    look_at_database,
    look_at_encryption,
    look_at_graph,
    look_at_media,
    look_at_redis,
    look_at_upkeep,
    look_at_vectors,
)
from telegram_assistant.embedded.folder import DataFolder, Running
from telegram_assistant.errors import Fatal
from telegram_assistant.wiring.worker import configured_model


async def examine_all(settings: Settings) -> list[Finding]:
    found: list[Finding] = []
    try:
        found += await asyncio.to_thread(lambda: list(look_at_machine(settings)))
        running = DataFolder(settings.tga_data_dir).running()
    except PermissionError as exc:
        return [*found, fail("permissions", str(exc), "run tga doctor as the user that runs tga")]
    except Fatal as exc:
        return [*found, warn("tga", str(exc), "tga doctor again in a moment")]
    found += (encryption := look_at_encryption(settings))
    if encryption[0].level == "fail":
        return found
    database_url, redis_url = _addresses(settings, running)
    found += await look_at_database(database_url, settings) if database_url else [_embedded("PostgreSQL")]
    found.append(await look_at_redis(redis_url, settings.tls_ca_file) if redis_url else _embedded("Valkey"))
    found.append(await look_at_media(settings))
    try:
        model = await configured_model(settings)
    except Fatal as exc:
        found.append(fail("models", str(exc), "correct the AI_… settings"))
    else:
        found += await look_at_vectors(settings, model, running=running is not None)
    found.append(await look_at_graph(settings, running=running is not None))
    return found + (await look_at_upkeep(database_url, settings) if database_url else [])


def _addresses(settings: Settings, running: Running | None) -> tuple[str | None, str | None]:
    """Of the tga that runs, else as configured; None: our own, which does not run."""
    if running is not None:
        return running.database_url, running.redis_url
    database, redis = settings.database_url, settings.redis_url
    return database.get_secret_value() if database else None, redis.get_secret_value() if redis else None


def _embedded(name: str) -> Finding:
    return warn(name, "it is our own, and does not run now", "start tga up to have it looked at")
