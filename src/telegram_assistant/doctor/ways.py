"""Which way leads to Telegram and to its public previews: directly, through which proxy, or none."""

from __future__ import annotations

from sqlalchemy.exc import DBAPIError

from telegram_assistant.config import Settings, TelegramServer
from telegram_assistant.doctor import Finding, fail, ok, warn
from telegram_assistant.doctor.servers import now, sealer_of
from telegram_assistant.domain.proxies import Proxy
from telegram_assistant.domain.retries import Failure
from telegram_assistant.domain.source import SourceError
from telegram_assistant.errors import Fatal
from telegram_assistant.source.telegram_way import answers
from telegram_assistant.stores.postgres.accounts import TelegramAccounts
from telegram_assistant.stores.postgres.database import open_database
from telegram_assistant.wiring.previews import open_previews

TELEGRAM, PREVIEWS = "way to Telegram", "way to previews"
BLOCKED = "if this network blocks Telegram, set TELEGRAM_PROXY or PROXY_URL (docs/howto/proxies.md)"


async def look_at_ways(database_url: str | None, settings: Settings) -> list[Finding]:
    found = [] if settings.demo else await _telegram(settings, await _own_proxies(database_url, settings))
    return [*found, *await _previews(settings)]


async def _own_proxies(database_url: str | None, settings: Settings) -> dict[str, Proxy | None]:
    """By account, of those that have one of their own. What is wrong with the database was said before."""
    sealer = sealer_of(settings)
    if database_url is None or sealer is None:
        return {}
    database = open_database(database_url, pool_size=1, ca_file=settings.tls_ca_file)
    accounts = TelegramAccounts(database, sealer)
    try:
        told = {one.name: accounts.proxy(one) for one in await accounts.all() if one.status == "active"}
    except (DBAPIError, OSError, Fatal):
        return {}
    finally:
        await database.dispose()
    return {name: settings.account_proxy(text) for name, text in told.items() if text is not None}


async def _telegram(settings: Settings, own: dict[str, Proxy | None]) -> list[Finding]:
    ways = {TELEGRAM: settings.account_proxy()} | {f"{TELEGRAM} of {name}": proxy for name, proxy in own.items()}
    server = TelegramServer.parse(settings.telegram_server) if settings.telegram_server else None
    known: dict[Proxy | None, Finding] = {}
    for name, proxy in ways.items():
        if proxy not in known:
            known[proxy] = await _tried(name, server, proxy)
    return [Finding(name, known[proxy].level, known[proxy].what, known[proxy].todo) for name, proxy in ways.items()]


async def _tried(name: str, server: TelegramServer | None, proxy: Proxy | None) -> Finding:
    """Directly is only tried where no proxy is set, or where it does not work: it shows the network what we are."""
    try:
        await answers(server, proxy)
    except SourceError as exc:
        if proxy is None:
            return fail(name, f"Telegram does not answer: {exc}", BLOCKED)
        return await _without(name, server, str(exc))
    return ok(name, "directly" if proxy is None else f"through {proxy.shown}")


async def _without(name: str, server: TelegramServer | None, trouble: str) -> Finding:
    try:
        await answers(server, None)
    except SourceError:
        todo = "check the proxy's address and secret, or take another one; directly Telegram does not answer either"
        return fail(name, trouble, todo)
    todo = "check the proxy's address and secret, or do without it: directly Telegram does answer"
    return fail(name, trouble, f"{todo} (the setting `direct`)")


async def _previews(settings: Settings) -> list[Finding]:
    site = open_previews(settings, clock=now)
    if site is None:
        return []
    proxy = settings.telegram_web_proxy
    way = "directly" if proxy is None else f"through {proxy.shown}"
    try:
        await site.page("/")
    except SourceError as exc:
        if exc.failure is not Failure.GONE:
            todo = "check the proxy, or take another one" if proxy else BLOCKED
            return [warn(PREVIEWS, f"{way}: {exc}", todo)]
    return [ok(PREVIEWS, way)]
