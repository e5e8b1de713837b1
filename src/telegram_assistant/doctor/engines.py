"""Redis, the media store, and the indexes: servers where they are configured, folders where they are not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
from redis.exceptions import RedisError

from telegram_assistant.backup.saving import media_folder
from telegram_assistant.config import Settings
from telegram_assistant.doctor.finding import Finding, fail, ok, warn
from telegram_assistant.domain.access import SYSTEM_TENANT
from telegram_assistant.embedded.folder import FolderLock
from telegram_assistant.errors import AssistantError, Fatal, Retry
from telegram_assistant.index.vectors import Model
from telegram_assistant.stores.media import MediaStore, S3Access
from telegram_assistant.stores.redis import check_redis, open_redis
from telegram_assistant.tls import distrust, verified_tls
from telegram_assistant.wiring.models import open_graph, open_vectors

ASK_SECONDS = 10.0
GENERATIONS = "generations.json"


async def look_at_redis(url: str, ca_file: Path | None = None) -> Finding:
    name = "Redis"
    try:
        await check_redis(url, ca_file=ca_file)
        client = open_redis(url, ca_file=ca_file)
        try:
            found: dict[str, Any] = await client.info()
        finally:
            await client.aclose()
    except (Fatal, RedisError, OSError) as exc:
        return fail(name, str(exc), "start it, or correct REDIS_URL")
    version = found.get("valkey_version") or found["redis_version"]
    policy = str(found.get("maxmemory_policy", "noeviction"))
    if int(found.get("maxmemory", 0)) and policy != "noeviction":
        todo = "set maxmemory-policy noeviction: events of the pipeline would vanish when memory is full"
        return fail(name, f"version {version} throws keys away ({policy})", todo)
    return ok(name, f"version {version}")


async def look_at_media(settings: Settings) -> Finding:
    name, secret = "media", settings.media_s3_secret_access_key
    place = media_folder(settings, settings.tga_data_dir.absolute())
    if place is not None and not place.exists():
        return ok(name, f"{place} is made with the first file")
    access = S3Access(
        endpoint=settings.media_s3_endpoint,
        region=settings.media_s3_region,
        access_key_id=settings.media_s3_access_key_id,
        secret_access_key=secret.get_secret_value() if secret else None,
        ca_file=settings.tls_ca_file,
    )
    try:
        store = MediaStore.open(settings.media_url or settings.tga_data_dir.absolute() / "media", s3=access)
        await store.check()
    except AssistantError as exc:
        return fail(name, str(exc), "correct MEDIA_URL and what belongs to it, or make the folder writable")
    return ok(name, store.shown)


async def look_at_vectors(settings: Settings, model: Model, *, running: bool) -> list[Finding]:
    home = settings.tga_data_dir.absolute() / "vectors"
    if not settings.qdrant_url:
        return [owner("vector index", home, running=running), model_of_folder(home, model)]
    name, key = "Qdrant", settings.qdrant_api_key
    headers = {"api-key": key.get_secret_value()} if key else {}
    vectors = open_vectors(settings, home.parent)
    try:
        tls = verified_tls(settings.tls_ca_file)
        async with httpx.AsyncClient(timeout=ASK_SECONDS, headers=headers, verify=tls) as client:
            answer = await client.get(settings.qdrant_url)
            version = answer.raise_for_status().json()["version"]
        current = await vectors.current(UUID(SYSTEM_TENANT))
    except (AssistantError, httpx.HTTPError, ValueError, KeyError) as exc:
        why = distrust(exc) or str(exc) or type(exc).__name__
        return [fail(name, f"{settings.qdrant_url}: {why}", "start it, or correct QDRANT_URL and QDRANT_API_KEY")]
    finally:
        await vectors.close()
    return [ok(name, f"version {version}"), _model(current, model)]


async def look_at_graph(settings: Settings, *, running: bool) -> Finding:
    if not settings.neo4j_url:
        return owner("graph", settings.tga_data_dir.absolute() / "graph", running=running)
    graph = open_graph(settings, settings.tga_data_dir)
    try:
        counts = await graph.counts(UUID(SYSTEM_TENANT))
    except AssistantError as exc:
        return fail("Neo4j", str(exc), "start it, or correct NEO4J_URL, NEO4J_USER and NEO4J_PASSWORD")
    finally:
        await graph.close()
    return ok("Neo4j", f"{sum(counts.values())} nodes of the first tenant")


def owner(what: str, home: Path, *, running: bool) -> Finding:
    """One process uses an embedded index at a time."""
    if not (home / "lock").exists():
        return warn(what, "there is none yet", "tga up makes it; after tga restore: tga reindex")
    held = FolderLock(home, what)
    try:
        held.take()
    except Retry as exc:
        todo = "find that process (fuser on the lock) and end it"
        return ok(what, "held by the tga that runs") if running else warn(what, str(exc), todo)
    except Fatal as exc:
        return fail(what, str(exc), "give the folder back to the user that runs tga")
    held.release()
    return ok(what, f"{home} is free")


def model_of_folder(home: Path, model: Model) -> Finding:
    """Read only: whoever owns the index may be at work."""
    for path in sorted(home.glob(f"*/{GENERATIONS}")):
        try:
            listed = json.loads(path.read_text(encoding="utf-8"))["generations"]
            current = [Model(one["model"], one["size"]) for one in listed if one["current"]]
        except (OSError, ValueError, KeyError, TypeError) as exc:
            return fail("vector model", f"{path} cannot be read ({exc})", f"move {home} away, then tga reindex")
        if current and current[0] != model:
            return _model(current[0], model)
    return ok("vector model", model.name)


def _model(current: Model | None, model: Model) -> Finding:
    if current is None or current == model:
        return ok("vector model", model.name)
    todo = "nothing: the worker makes new vectors in the background, or tga reindex does it at once"
    return warn("vector model", f"the index is of {current.name}, the settings say {model.name}", todo)
