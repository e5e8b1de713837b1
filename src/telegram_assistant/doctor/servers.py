"""Servers that the doctor looks at: PostgreSQL, Redis, media store and indexes; and whether connections are safe."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit
from uuid import UUID

import httpx
from redis.exceptions import RedisError
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.backup.saving import media_folder
from telegram_assistant.config import Settings
from telegram_assistant.doctor import Finding, fail, ok, warn
from telegram_assistant.domain.access import SYSTEM_TENANT
from telegram_assistant.domain.urls import is_loopback
from telegram_assistant.embedded.folder import FolderLock
from telegram_assistant.errors import AssistantError, Fatal, Retry
from telegram_assistant.index.vectors import Model
from telegram_assistant.stages.index_upkeep import INDEXES, PASS, IndexesState, PassState, told_of
from telegram_assistant.stages.reconciler import ARCHIVE, ArchiveState, progress_of
from telegram_assistant.stores.postgres.accounts import Account, TelegramAccounts
from telegram_assistant.stores.postgres.database import check_server, is_here, open_database, parse_address, tls_of
from telegram_assistant.stores.postgres.migrate import RUNS_FROM, known_revisions
from telegram_assistant.stores.postgres.upkeep import Upkeep
from telegram_assistant.stores.redis import check_redis, open_redis
from telegram_assistant.stores.sealed import Sealer
from telegram_assistant.tls import distrust, verified_tls
from telegram_assistant.wiring.models import open_graph, open_media_store, open_vectors, place_of_indexes

ADVICE = "start it, or correct DATABASE_URL"
BRING_BACK = "bring the key back (TGA_SECRET_KEY, or keys/session.key from a backup), or tga login again"
ASK_SECONDS = 10.0
GENERATIONS = "generations.json"
NAME = "encryption"
TLS_ADVICE = "see docs/howto/tls.md; where only machines of yours share the network, this may stay"
NO = {"0", "f", "false", "n", "no", "none"}
NOTHING = "nothing: it is brought back from PostgreSQL; /health/details says how far it is"


OFF, FAR_OFF = 2.0, 30.0  # seconds: Telegram refuses clocks that are half a minute wrong


def now() -> datetime:
    return datetime.now(UTC)


async def look_at_database(url: str, settings: Settings, clock: Callable[[], datetime] = now) -> list[Finding]:
    try:
        await check_server(url, ca_file=settings.tls_ca_file)
    except Fatal as exc:
        return [fail("PostgreSQL", str(exc), ADVICE)]
    database = open_database(url, pool_size=1, ca_file=settings.tls_ca_file)
    try:
        found = [await _version(database), schema := await _schema(database), await _clock(database, clock)]
        if schema.level == "ok":
            found.append(await _accounts(database, settings))
    except (DBAPIError, OSError) as exc:
        return [fail("PostgreSQL", f"it does not do what it is asked: {exc}".splitlines()[0], ADVICE)]
    finally:
        await database.dispose()
    return found


async def _version(database: AsyncEngine) -> Finding:
    async with database.connect() as connection:
        return ok("PostgreSQL", f"version {await connection.scalar(text('SHOW server_version'))}")


async def _schema(database: AsyncEngine) -> Finding:
    name, known = "schema", known_revisions()
    async with database.connect() as connection:
        there = await connection.scalar(text("SELECT to_regclass('alembic_version') IS NOT NULL"))
        found = await connection.scalar(text("SELECT version_num FROM alembic_version")) if there else None
        runs = found is not None and await connection.scalar(RUNS_FROM) in known
    if found is None:
        return warn(name, "the database is empty", "tga migrate, or start tga")
    if found not in known:
        if runs:
            return warn(name, f"{found} is of a newer version; this one runs on it", "update Telegram Assistant")
        return fail(name, f"{found} is of a newer version; this one knows {known[0]}", "update Telegram Assistant")
    if found != known[0]:
        return warn(name, f"{found} is older than {known[0]}", "tga migrate, or start tga")
    return ok(name, str(found))


async def _clock(database: AsyncEngine, clock: Callable[[], datetime]) -> Finding:
    """Half of the way there and back is taken for the way."""
    name = "clock"
    async with database.connect() as connection:
        await connection.execute(text("SELECT 1"))
        before = clock()
        theirs: datetime = (await connection.execute(text("SELECT clock_timestamp()"))).scalar_one()
        after = clock()
    apart = abs((theirs - (before + (after - before) / 2)).total_seconds())
    todo = "set both machines' clocks by NTP (timedatectl set-ntp true)"
    if apart >= FAR_OFF:
        return fail(name, f"this machine and PostgreSQL's are {apart:.0f} s apart", todo)
    if apart >= OFF:
        return warn(name, f"this machine and PostgreSQL's are {apart:.0f} s apart", todo)
    return ok(name, f"{apart:.1f} s from PostgreSQL's")


async def _accounts(database: AsyncEngine, settings: Settings) -> Finding:
    name = "Telegram accounts"
    if settings.demo:
        return ok(name, "none is needed: this is a demo with a simulated Telegram")
    async with database.connect() as connection:
        if not await connection.scalar(text("SELECT to_regclass('telegram_accounts') IS NOT NULL")):
            return warn(name, "there are none yet", "tga login")
    sealer = sealer_of(settings)
    accounts = TelegramAccounts(database, sealer or Sealer("no session is opened"))
    found = await accounts.all()
    if sealer is None and found:
        return fail(name, "keys/session.key is gone: their sessions cannot be opened", BRING_BACK)
    return _judge(accounts, found, settings)


def _judge(accounts: TelegramAccounts, found: list[Account], settings: Settings) -> Finding:
    name = "Telegram accounts"
    active = [account for account in found if account.status == "active"]
    lost = ", ".join(f"{account.name} is {account.status}" for account in found if account.status != "active")
    if not active:
        if settings.telegram_session is not None:
            return ok(name, "TELEGRAM_SESSION")
        return fail(name, lost or "there are none", "tga login")
    try:
        for account in active:
            accounts.session(account)
    except Fatal as exc:
        return fail(name, str(exc), BRING_BACK)
    if lost:
        return warn(name, f"{len(active)} can read; {lost}", "tga login with it again, or tga accounts remove")
    return ok(name, f"{len(active)} can read")


def sealer_of(settings: Settings) -> Sealer | None:
    """None: there is no key. One is not made here."""
    if settings.tga_secret_key is not None:
        return Sealer(settings.tga_secret_key.get_secret_value())
    path: Path = settings.tga_data_dir / "keys" / "session.key"
    return Sealer(path.read_text(encoding="ascii")) if path.is_file() else None


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
    name = "media"
    place = media_folder(settings, settings.tga_data_dir.absolute())
    if place is not None and not place.exists():
        return ok(name, f"{place} is made with the first file")
    try:
        store = open_media_store(settings, settings.tga_data_dir.absolute())
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
    """Read only: the process that owns the index may be at work."""
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


def look_at_encryption(settings: Settings) -> list[Finding]:
    """A file of authorities that cannot be used fails alone: every connection would fail for it."""
    try:
        verified_tls(settings.tls_ca_file)
        found = [warn(NAME, what, f"{todo}; {TLS_ADVICE}") for what, todo in _troubles(settings)]
    except Fatal as exc:
        return [fail(NAME, str(exc), "correct TLS_CA_FILE or the address it stands in")]
    return found or [ok(NAME, "what leaves this machine for servers of yours is encrypted and verified")]


def _troubles(settings: Settings) -> Iterator[tuple[str, str]]:
    yield from _postgres(settings)
    yield from _redis(settings)
    for variable, url in _webs(settings):
        if url and url.lower().startswith("http://") and not _local(url):
            yield f"{variable}: what is sent to {_host(url)} can be read on the way", "use https://"
    neo4j = settings.neo4j_url or ""
    if neo4j and not _local(neo4j):
        if "+ssc://" in neo4j:
            yield f"NEO4J_URL: the certificate of {_host(neo4j)} is not checked", "use neo4j+s:// with TLS_CA_FILE"
        elif "+s://" not in neo4j:
            yield f"NEO4J_URL: what is sent to {_host(neo4j)} can be read on the way", "use neo4j+s://"
    mail = settings.smtp_host
    if mail and settings.smtp_security == "none" and not _is_local(mail):
        yield f"SMTP_SECURITY: what is sent to {mail} can be read on the way", "use starttls or tls"


def _webs(settings: Settings) -> Iterator[tuple[str, str | None]]:
    yield "QDRANT_URL", settings.qdrant_url
    yield "MEDIA_S3_ENDPOINT", settings.media_s3_endpoint
    yield "OPENAI_BASE_URL", settings.openai_base_url
    yield "GIGACHAT_BASE_URL", settings.gigachat_base_url
    yield "GIGACHAT_AUTH_URL", settings.gigachat_auth_url
    yield "TELEGRAM_BOT_API_URL", settings.telegram_bot_api_url
    yield "TGA_API_URL", settings.tga_api_url


def _postgres(settings: Settings) -> Iterator[tuple[str, str]]:
    if settings.database_url is None:
        return
    address = parse_address(settings.database_url.get_secret_value())
    if is_here(address) or tls_of(address, settings.tls_ca_file):
        return
    options = dict(parse_qsl(urlsplit(address.dsn).query))
    mode = options.get("sslmode", "prefer")
    todo = "say sslmode=verify-full in the address"
    if mode == "require" and "sslrootcert" not in options:
        yield f"DATABASE_URL: the certificate of {_host(address.dsn)} is not checked", todo
    elif mode not in {"require", "verify-ca", "verify-full"}:
        yield f"DATABASE_URL: what is sent to {_host(address.dsn)} may be read on the way", todo


def _redis(settings: Settings) -> Iterator[tuple[str, str]]:
    url = settings.redis_url.get_secret_value() if settings.redis_url else ""
    if not url or url.startswith("unix:") or _local(url):
        return
    options = dict(parse_qsl(urlsplit(url).query))
    if not url.lower().startswith("rediss:"):
        yield f"REDIS_URL: what is sent to {_host(url)} can be read on the way", "use rediss://"
    elif any(
        options.get(name, "").lower() in NO for name in ("ssl_cert_reqs", "ssl_check_hostname") if name in options
    ):
        yield f"REDIS_URL: the certificate of {_host(url)} is not checked", "take ssl_… out of it, set TLS_CA_FILE"


def _host(url: str) -> str:
    """Never the whole address: there may be a password in it."""
    try:
        return urlsplit(url).hostname or "its server"
    except ValueError:
        return "its server"


def _local(url: str) -> bool:
    return _is_local(_host(url))


def _is_local(host: str) -> bool:
    return host == "localhost" or is_loopback(host)


async def look_at_upkeep(url: str, settings: Settings) -> list[Finding]:
    database = open_database(url, pool_size=1, ca_file=settings.tls_ca_file)
    upkeep = Upkeep(database)
    try:
        state, compared = await upkeep.state(INDEXES, IndexesState), await upkeep.state(PASS, PassState)
        archive, posts = await upkeep.state(ARCHIVE, ArchiveState), await upkeep.posts()
    except (DBAPIError, OSError):
        return []  # what is wrong with the database was said before
    finally:
        await database.dispose()
    found = [_indexes(settings, state, compared)]
    if archive.hurry:
        found.append(warn("pipeline", progress_of(archive, posts), NOTHING))
    return found


def _indexes(settings: Settings, state: IndexesState, compared: PassState) -> Finding:
    name = "indexes"
    if compared.why:
        return warn(name, str(told_of(state, compared)["error"]), NOTHING)
    if not state.place:
        return ok(name, "none was made yet")
    home = settings.tga_data_dir.absolute()
    if state.place == place_of_indexes(settings, home) and (gone := list(_exchanged(settings, state, home))):
        return warn(name, f"{', '.join(gone)}: gone, or another one", "start tga up, or a worker: it rebuilds them")
    return ok(name, f"as PostgreSQL knows them, at {state.place}")


def _exchanged(settings: Settings, state: IndexesState, home: Path) -> Iterator[str]:
    """Read only: the process that owns the index may be at work."""
    if not settings.qdrant_url:
        for tenant, mark in state.vectors.items():
            if _mark(home / "vectors" / tenant / "generations.json") != mark:
                yield f"vectors/{tenant}"
    if not settings.neo4j_url and state.graph and not (home / "graph" / "graph").exists():
        yield "graph"


def _mark(path: Path) -> str | None:
    try:
        return str(json.loads(path.read_text(encoding="utf-8")).get("mark", ""))
    except (OSError, ValueError):
        return None
