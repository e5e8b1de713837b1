"""What the `api` role does by itself, wired: periodic jobs (it does not start without them, SPEC 7.5), and alerts of
saved searches and of troubles."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from redis.asyncio import Redis
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant import __version__
from telegram_assistant.alerting.delivering import LOCK_TTL, Alerting, Words
from telegram_assistant.alerting.places import Places
from telegram_assistant.alerting.watching import Watch
from telegram_assistant.config import Settings
from telegram_assistant.crawl.network import Poster
from telegram_assistant.domain.digests import Issue
from telegram_assistant.domain.urls import Allowance
from telegram_assistant.errors import Fatal
from telegram_assistant.ingest.lock import Lock
from telegram_assistant.jobs import DIGESTS, Work, plans
from telegram_assistant.jobs.digest_formats import Mail, MailServer
from telegram_assistant.jobs.digests import Delivery, DigestJob
from telegram_assistant.jobs.runner import LOCK_TTL as JOBS_TTL
from telegram_assistant.jobs.runner import Jobs
from telegram_assistant.language.inflection import Inflection
from telegram_assistant.language.lexemes import Lexicon
from telegram_assistant.names import ALERTING_LOCK, ALERTS_LOCK, JOBS_LOCK
from telegram_assistant.search.alerts import LOCK_TTL as SEARCH_TTL
from telegram_assistant.search.alerts import Alerts, Webhooks
from telegram_assistant.search.planning import Planner
from telegram_assistant.services.services import Services
from telegram_assistant.stores.postgres.alerts import AlertChannels, AlertDeliveries, Notices
from telegram_assistant.stores.postgres.digests import DigestIssues, Digests
from telegram_assistant.stores.postgres.jobs import JobRuns
from telegram_assistant.stores.postgres.saved_searches import SavedSearches, SearchAlerts
from telegram_assistant.stores.postgres.search import SearchDocuments
from telegram_assistant.stores.postgres.storage import Storage
from telegram_assistant.stores.postgres.visible_posts import VisiblePosts
from telegram_assistant.stores.postgres.watched_posts import WatchedPosts
from telegram_assistant.stores.sealed import Sealer
from telegram_assistant.wiring.runtime import Runtime

PATIENCE = 180.0  # seconds without a round after which alerts count as stuck
AGENT = f"telegram-assistant/{__version__}"


async def start_alerting(runtime: Runtime, services: Services) -> Alerting:
    """Lets admins set places up, and sends."""
    assert services.senders is not None  # noqa: S101 - the API has them
    alerting = open_alerting(
        runtime.database,
        runtime.redis,
        services.senders.sealer,
        services.senders.places,
        settings=runtime.settings,
        clock=runtime.clock,
    )
    await runtime.start_task("alerting", alerting.run, patience=PATIENCE)
    return alerting


def open_places(settings: Settings, clock: Callable[[], datetime]) -> Places:
    poster = Poster(agent=AGENT, allow=loopback(settings.alert_loopback))
    return Places(
        poster,
        Webhooks(poster, clock),
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


def open_alerts(
    database: AsyncEngine,
    redis: Redis,
    sealer: Sealer,
    webhooks: Webhooks,
    *,
    owner: str,
    lexicon: Lexicon | None = None,
) -> Alerts:
    """`owner`: this process, for the lock. To be called where an event loop runs."""
    documents, posts = SearchDocuments(database), VisiblePosts(database)
    return Alerts(
        SavedSearches(database),
        SearchAlerts(database),
        documents,
        posts,
        Planner(documents, posts, lexicon or Lexicon(Inflection())),
        webhooks,
        sealer,
        redis,
        Lock(redis, ALERTS_LOCK, owner, ttl=SEARCH_TTL, monotonic=asyncio.get_running_loop().time),
    )


JOBS_PATIENCE = 120.0  # seconds without a round after which the jobs count as stuck


async def start_jobs(
    runtime: Runtime,
    services: Services,
    *,
    work: Mapping[str, Work] | None = None,
    deliveries: Sequence[Delivery] = (),
) -> Jobs:
    """`work`: what the other jobs of the table do, by name; `deliveries`: ways for digests besides e-mail."""
    settings = runtime.settings
    digests = DigestJob(
        Digests(services.database),
        DigestIssues(services.database),
        services.digests,
        [Mail(MailServer.from_settings(settings)), *deliveries],
        clock=services.clock,
        page=lambda issue: page_of(settings, issue),
    )
    jobs = open_jobs(services, {DIGESTS: digests, **(work or {})})
    runtime.health.sections["jobs"] = jobs.report
    await runtime.start_task("jobs", jobs.run, patience=JOBS_PATIENCE)
    return jobs


def open_jobs(services: Services, work: Mapping[str, Work]) -> Jobs:
    """To be called where an event loop runs."""
    settings = services.settings
    monotonic = asyncio.get_running_loop().time
    lock = Lock(services.redis, JOBS_LOCK, settings.hostname, ttl=JOBS_TTL, monotonic=monotonic)
    table = plans(interests_minutes=settings.interests_sync_minutes)
    return Jobs(table, work, JobRuns(services.database), lock, clock=services.clock)


def page_of(settings: Settings, issue: Issue) -> str | None:
    if not settings.api_public_url:
        return None
    return f"{settings.api_public_url.rstrip('/')}/digests/{issue.digest_id}/issues/{issue.id}"
