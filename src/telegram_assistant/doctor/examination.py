"""Everything that the doctor looks at, one after another; and what it looks at on this machine."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import httpx

from telegram_assistant.ai.vision.ocr import FOLDERS, WANTED, find_trained_data
from telegram_assistant.config import Settings
from telegram_assistant.doctor import Finding, fail, ok, warn
from telegram_assistant.doctor.servers import (
    look_at_database,
    look_at_encryption,
    look_at_graph,
    look_at_media,
    look_at_redis,
    look_at_upkeep,
    look_at_vectors,
)
from telegram_assistant.doctor.ways import look_at_ways
from telegram_assistant.embedded.folder import DataFolder, Running
from telegram_assistant.errors import Fatal
from telegram_assistant.http.serving import listen
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
    found += await look_at_ways(database_url, settings)
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


COMFORT = 10  # times the least that we start with
ASK_SECONDS = 3.0
OTHERS = stat.S_IRWXG | stat.S_IRWXO


def look_at_machine(settings: Settings) -> Iterator[Finding]:
    home = settings.tga_data_dir.absolute()
    yield folder(home)
    yield keys(home / "keys")
    yield disk(home, settings.tga_min_free_disk_mb)
    yield port("health", settings.ingest_health_host, settings.ingest_health_port, "INGEST_HEALTH_PORT")
    yield port("pages", settings.api_host, settings.api_port, "API_PORT")
    yield trained_data(settings.tessdata_prefix)


def folder(home: Path) -> Finding:
    name = "data folder"
    if not home.exists():
        return warn(name, f"{home} does not exist yet", "tga up makes it; else set TGA_DATA_DIR to where it is")
    if not home.is_dir():
        return fail(name, f"{home} is not a folder", "set TGA_DATA_DIR to one")
    if not os.access(home, os.W_OK | os.X_OK):
        return fail(name, f"{home} cannot be written", "change its owner, or set TGA_DATA_DIR to a folder of yours")
    if home.stat().st_mode & stat.S_IWOTH:
        return fail(name, f"everybody may write in {home}", f"chmod 711 {home}")
    return ok(name, str(home))


def keys(place: Path) -> Finding:
    name = "keys"
    if not place.is_dir():
        return warn(name, "there are none yet", "tga up makes them")
    for path in (place, *sorted(place.iterdir())):
        if path.stat().st_mode & OTHERS:
            mode = "700" if path.is_dir() else "600"
            return fail(name, f"others may read {path}", f"chmod {mode} {path}")
    return ok(name, f"only this user can read {place}")


def disk(home: Path, least_mb: int) -> Finding:
    name = "disk"
    place = next(path for path in (home, *home.parents) if path.exists())
    free = shutil.disk_usage(place).free >> 20
    if free < least_mb:
        todo = "free some space, or set TGA_DATA_DIR to a folder on another disk"
        return fail(name, f"{free} MB are free, {least_mb} MB are needed", todo)
    if free < COMFORT * least_mb:
        return warn(name, f"only {free} MB are free", "free some space soon, or see STORAGE_EVICT_AFTER_DAYS")
    return ok(name, f"{free} MB are free")


def port(title: str, host: str, number: int, variable: str) -> Finding:
    """Free, or ours."""
    name = f"port of {title}"
    try:
        listen(host, number, variable=variable).close()
    except Fatal as exc:
        if _answers_as_tga(host, number):
            return ok(name, f"{host}:{number} answers")
        return fail(name, str(exc).partition(": ")[0], f"stop what uses it, or set {variable} to another")
    return ok(name, f"{host}:{number} is free")


def _answers_as_tga(host: str, number: int) -> bool:
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    try:
        answer = httpx.get(f"http://{shown}:{number}/health", timeout=ASK_SECONDS, trust_env=False).json()
    except (httpx.HTTPError, ValueError):
        return False
    return isinstance(answer, dict) and {"status", "demo"} <= answer.keys()


def trained_data(configured: Path | None, elsewhere: tuple[str, ...] = FOLDERS) -> Finding:
    name = "text on pictures"
    todo = "install tesseract-ocr-rus and tesseract-ocr-eng, or set TESSDATA_PREFIX"
    found = find_trained_data(configured, elsewhere)
    if found is None:
        return warn(name, "Tesseract's data is not here: pictures are not read", todo)
    missing = [language for language in WANTED if language not in found.languages]
    if missing:
        return warn(name, f"{found.folder} has no {' and no '.join(missing)}", todo)
    return ok(name, found.folder)
