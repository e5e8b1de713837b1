"""PostgreSQL: whether it answers, its version, its schema, its clock, and the accounts that it keeps."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.config import Settings
from telegram_assistant.doctor.finding import Finding, fail, ok, warn
from telegram_assistant.errors import Fatal
from telegram_assistant.stores.postgres.accounts import Account, TelegramAccounts
from telegram_assistant.stores.postgres.database import check_server, open_database
from telegram_assistant.stores.postgres.migrate import RUNS_FROM, known_revisions
from telegram_assistant.stores.sealed import Sealer

OFF, FAR_OFF = 2.0, 30.0  # seconds: Telegram refuses clocks that are half a minute wrong
ADVICE = "start it, or correct DATABASE_URL"
BRING_BACK = "bring the key back (TGA_SECRET_KEY, or keys/session.key from a backup), or tga login again"


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
        if schema.level != "fail":
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
    sealer = _sealer(settings)
    accounts = TelegramAccounts(database, sealer or Sealer("nobody's"))
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


def _sealer(settings: Settings) -> Sealer | None:
    """None: there is no key. One is not made here."""
    if settings.tga_secret_key is not None:
        return Sealer(settings.tga_secret_key.get_secret_value())
    path: Path = settings.tga_data_dir / "keys" / "session.key"
    return Sealer(path.read_text(encoding="ascii")) if path.is_file() else None
