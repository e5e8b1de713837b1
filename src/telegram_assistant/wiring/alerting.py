"""Alerts, wired: for the `api` role."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

from redis.asyncio import Redis
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant import __version__
from telegram_assistant.alerting.delivering import LOCK_TTL, Alerting, Words
from telegram_assistant.alerting.places import Places
from telegram_assistant.alerting.watching import Watch
from telegram_assistant.config import Settings
from telegram_assistant.crawl.network import Poster
from telegram_assistant.domain.urls import Allowance
from telegram_assistant.errors import Fatal
from telegram_assistant.ingest.lock import Lock
from telegram_assistant.names import ALERTING_LOCK
from telegram_assistant.search.alerts import Webhooks
from telegram_assistant.services.services import Services
from telegram_assistant.stores.postgres.alerts import AlertChannels, AlertDeliveries, Notices
from telegram_assistant.stores.postgres.storage import Storage
from telegram_assistant.stores.postgres.visible_posts import VisiblePosts
from telegram_assistant.stores.postgres.watched_posts import WatchedPosts
from telegram_assistant.stores.sealed import Sealer
from telegram_assistant.wiring.runtime import Runtime

PATIENCE = 180.0  # seconds without a round after which alerts count as stuck
AGENT = f"telegram-assistant/{__version__}"


async def start_alerting(runtime: Runtime, services: Services) -> Alerting:
    """Lets admins set places up, and sends."""
    assert services.outlets is not None  # noqa: S101 - the API has them
    alerting = open_alerting(
        runtime.database,
        runtime.redis,
        services.outlets.sealer,
        services.outlets.places,
        settings=runtime.settings,
        clock=runtime.clock,
    )
    await runtime.start_task("alerting", alerting.run, patience=PATIENCE)
    return alerting


def open_places(settings: Settings, clock: Callable[[], datetime]) -> Places:
    allow = loopback(settings.alert_loopback)
    return Places(
        Poster(agent=AGENT, allow=allow),
        Webhooks(agent=AGENT, clock=clock, allow=allow),
        frozenset(host.strip().lower() for host in settings.slack_hosts.split(",") if host.strip()),
        settings.pagerduty_url,
    )


def open_alerting(
    database: AsyncEngine,
    redis: Redis,
    sealer: Sealer,
    places: Places,
    *,
    settings: Settings,
    clock: Callable[[], datetime],
) -> Alerting:
    """To be called where an event loop runs."""
    watched, deliveries = WatchedPosts(database), AlertDeliveries(database)
    watch = Watch(
        watched,
        Notices(database),
        Storage(database, default_mb=settings.storage_quota_mb),
        redis,
        timedelta(hours=settings.alert_channel_hours),
        clock,
    )
    words = Words(VisiblePosts(database), watched, deliveries, settings.api_public_url)
    monotonic = asyncio.get_running_loop().time
    lock = Lock(redis, ALERTING_LOCK, settings.hostname, ttl=LOCK_TTL, monotonic=monotonic)
    return Alerting(watch, AlertChannels(database), deliveries, words, places, sealer, lock)


def loopback(text: str) -> Allowance:
    """`host:port, host:port`."""
    found = set()
    for one in filter(None, (part.strip() for part in text.split(","))):
        host, _, port = one.rpartition(":")
        if not (host and port.isdecimal() and 0 < int(port) < 65536):
            raise Fatal(f"ALERT_LOOPBACK={one!r} is not host:port, for example 127.0.0.1:9000")
        found.add((host.strip("[]"), int(port)))
    return frozenset(found)
