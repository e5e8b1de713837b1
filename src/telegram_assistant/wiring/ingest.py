"""The ingest role, wired: scheduler, visits, relay, requests, holes, media and live updates."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from telegram_assistant.bus.observer import Pressure
from telegram_assistant.bus.streams import Publisher
from telegram_assistant.config import Settings, TelegramServer
from telegram_assistant.domain.visits import ModeOverride
from telegram_assistant.errors import Fatal
from telegram_assistant.freshness import Freshness
from telegram_assistant.ingest.account_in_use import Budget
from telegram_assistant.ingest.accounts import AccountPool
from telegram_assistant.ingest.audit import AuditDesk, Auditor
from telegram_assistant.ingest.backfill import ALIVE_SECONDS, Backfill, HoleFiller
from telegram_assistant.ingest.catching_up import CatchingUp
from telegram_assistant.ingest.comments import CommentReader
from telegram_assistant.ingest.follows import FollowDesk
from telegram_assistant.ingest.gauges import Gauges, OddRows
from telegram_assistant.ingest.heartbeat import ClockWatch, Heartbeat
from telegram_assistant.ingest.live import LiveReaders
from telegram_assistant.ingest.lock import is_gone, new_identity
from telegram_assistant.ingest.media import DownloadRules, MediaProcessor, MediaUpkeep
from telegram_assistant.ingest.origins import Origins
from telegram_assistant.ingest.pages import Memory
from telegram_assistant.ingest.parser import ChannelParser
from telegram_assistant.ingest.polling import Capacity, Polling, polling_rules, unlimited
from telegram_assistant.ingest.relay import Relay
from telegram_assistant.ingest.requests import ChannelRequests
from telegram_assistant.ingest.saver import Saver
from telegram_assistant.ingest.scheduler import LOCK_TTL, Scheduler
from telegram_assistant.ingest.silence import SilenceWatch
from telegram_assistant.ingest.statistics import Statistics
from telegram_assistant.ingest.takeouts import Takeouts
from telegram_assistant.ingest.topics import TopicReader
from telegram_assistant.ingest.visits import LONGEST_POSTPONEMENT, RETRY_DEAD, Visitor, VisitRules
from telegram_assistant.ingest.witnesses import Comparison
from telegram_assistant.metrics import CHANNEL_LABELS
from telegram_assistant.source.preview import Previews
from telegram_assistant.source.telegram_account import TelegramAccount
from telegram_assistant.source.telegram_client import READER, open_client
from telegram_assistant.stages import groups
from telegram_assistant.stores.media import MediaStore
from telegram_assistant.stores.postgres.accounts import AccountLeases
from telegram_assistant.stores.postgres.audits import Audits, Unreadable
from telegram_assistant.stores.postgres.channels import Channels
from telegram_assistant.stores.postgres.comments import Comments
from telegram_assistant.stores.postgres.media import Evictions, MediaQueue
from telegram_assistant.stores.postgres.rhythms import Intervals, Rhythms
from telegram_assistant.stores.postgres.storage import Storage
from telegram_assistant.stores.postgres.takeouts import AccountTakeouts
from telegram_assistant.stores.postgres.topics import ForumTopics
from telegram_assistant.stores.postgres.upkeep import Horizon, StoredTimes, Upkeep
from telegram_assistant.stores.postgres.watched_channels import Requests
from telegram_assistant.stores.postgres.witnesses import Witnesses
from telegram_assistant.wiring.connecting import open_accounts, take_kept_account
from telegram_assistant.wiring.models import media_rules_of, open_media_store, open_saver
from telegram_assistant.wiring.previews import open_previews
from telegram_assistant.wiring.runtime import Runtime

# Seconds without progress after which a job counts as stuck: a slow page is within them, and so is a large file.
USUAL_PATIENCE = 120.0
PATIENCE = {"media": 900.0, "audit": 600.0, "witnesses": 600.0}  # an audit lets all else go first
CLOCK_SLACK = timedelta(minutes=5)
RETRY_SECONDS = 60.0  # after the first failure of a channel
LEAST_LOCK_TTL = 3.0
ACCOUNT_LEASE = 30.0  # seconds after which the accounts of a process that died go to another


def client_maker(settings: Settings) -> Callable[..., Any]:
    """Makes clients of Telegram as the settings say; what is left to say is the session and its purpose."""
    if settings.telegram_api_id is None or settings.telegram_api_hash is None:
        raise Fatal("TELEGRAM_API_ID and TELEGRAM_API_HASH are not set")
    return partial(
        open_client,
        api_id=settings.telegram_api_id,
        api_hash=settings.telegram_api_hash.get_secret_value(),
        server=TelegramServer.parse(settings.telegram_server) if settings.telegram_server else None,
        rsa_key_pem=_read_key(settings.telegram_rsa_key),
    )


def login_client(settings: Settings, proxy: str | None = None) -> Any:
    """A client that may sign in, and nothing else."""
    return client_maker(settings)(purpose="login", proxy=settings.account_proxy(proxy))


class Opener:
    """Makes the accounts' connections; nothing is connected yet."""

    def __init__(self, settings: Settings, freshness: Freshness | None = None, *, demo: bool = False) -> None:
        self._make = client_maker(settings)
        self._freshness = freshness
        self._proxy = (lambda _own: None) if demo else settings.account_proxy  # the demo's Telegram is on this machine

    def __call__(
        self, session: str, account_id: str, gate: Budget | None, *, live: bool = False, proxy: str | None = None
    ) -> TelegramAccount:
        client = self._make(session=session, purpose="live" if live else "read", proxy=self._proxy(proxy))
        # Without a budget it is no account yet: a session is looked at once, and its row is what health watches.
        return TelegramAccount(client, account_id, gate=gate, freshness=self._freshness if gate else None)


def _read_key(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        return path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as exc:
        raise Fatal(f"Cannot read TELEGRAM_RSA_KEY ({path}): {exc}; it must be a PEM file") from exc


def _polling(runtime: Runtime) -> Polling | None:
    settings = runtime.settings
    if not settings.feature_predictive_polling_enabled:
        return None
    capacity = Capacity(open_accounts(runtime), clock=runtime.clock) if is_paced(runtime) else unlimited
    rules = polling_rules(settings)
    return Polling(Rhythms(runtime.database), runtime.redis, rules=rules, clock=runtime.clock, capacity=capacity)


def is_paced(runtime: Runtime) -> bool:
    return runtime.settings.telegram_pacing_enabled and not runtime.demo


def _visit_rules(settings: Settings) -> VisitRules:
    return VisitRules(
        override=ModeOverride(settings.parser_mode_override),
        incremental_enabled=settings.feature_incremental_parsing_enabled,
        max_age_hours=settings.lpa_max_age_hours,
        retry_max=settings.parser_retry_max,
        concurrency=settings.parser_max_concurrency,
        lease=timedelta(seconds=settings.ingest_lease_sec),
        # Who fails twice shows in health within two ticks, however short they are.
        retry_failed=timedelta(seconds=min(RETRY_SECONDS, settings.parser_scheduler_interval_sec)),
        interval=timedelta(seconds=settings.parser_scheduler_interval_sec),
    )


def _clocks(runtime: Runtime) -> ClockWatch:
    """What is stored on purpose lies no further ahead than the longest wait between visits, and some slack."""
    settings = runtime.settings
    interval = timedelta(seconds=settings.parser_scheduler_interval_sec)
    visit = max(timedelta(seconds=LONGEST_POSTPONEMENT), timedelta(seconds=polling_rules(settings).bound))
    visit += CLOCK_SLACK
    horizon = Horizon(
        visit=visit,
        dead=RETRY_DEAD + CLOCK_SLACK,
        promise=max(2 * visit, timedelta(hours=4)),
        lease=timedelta(seconds=settings.ingest_lease_sec) + visit,
    )
    return ClockWatch(StoredTimes(runtime.database), horizon, interval=interval, clock=runtime.clock)


def account_leases(runtime: Runtime) -> AccountLeases:
    owner = new_identity(runtime.settings.hostname)
    ttl = min(ACCOUNT_LEASE, runtime.settings.ingest_lease_sec)
    return AccountLeases(runtime.database, owner, ttl=ttl, is_gone=is_gone)


async def open_pool(runtime: Runtime, channels: Channels) -> AccountPool:
    """The accounts, ready to read; closed with the runtime."""
    await take_kept_account(runtime)
    settings = runtime.settings
    session = settings.telegram_session
    pool = AccountPool(
        open_accounts(runtime),
        channels,
        Opener(settings, runtime.freshness, demo=runtime.demo),
        clock=runtime.clock,
        paced=is_paced(runtime),
        session=session.get_secret_value() if session else None,
        leases=account_leases(runtime),
    )
    await pool.start()
    runtime.stack.push_async_callback(pool.close)
    return pool


def _takeouts(runtime: Runtime, channels: Channels, pool: AccountPool) -> Takeouts:
    at_least, store = runtime.settings.telegram_takeout_min_messages, AccountTakeouts(runtime.database)
    pool.takeouts = Takeouts(store, channels, pool.roster, at_least=at_least, clock=runtime.clock)
    return pool.takeouts


@dataclass(frozen=True, slots=True)
class _Capture:
    """What the jobs of capture share."""

    runtime: Runtime
    channels: Channels
    saver: Saver
    origins: Origins
    memory: Memory
    statistics: Statistics
    polling: Polling | None
    pressure: Pressure

    def visitor(self) -> Visitor:
        runtime, settings = self.runtime, self.runtime.settings
        parser = ChannelParser(
            self.channels,
            self.saver,
            runtime.redis,
            self.statistics,
            clock=runtime.clock,
            catch_up=CatchingUp(Audits(runtime.database), self.saver, clock=runtime.clock),
            memory=self.memory,
            adaptive=settings.feature_adaptive_thresholds_enabled,
        )
        rules, owner = _visit_rules(settings), settings.hostname
        return Visitor(
            self.channels, parser, self.origins, owner=owner, rules=rules, clock=runtime.clock, polling=self.polling
        )

    def scheduler(self, visitor: Visitor) -> Scheduler:
        runtime, settings, clock = self.runtime, self.runtime.settings, self.runtime.clock
        silence = SilenceWatch(
            self.channels,
            self.statistics,
            runtime.redis,
            owner=settings.hostname,
            clock=clock,
            adaptive=settings.feature_adaptive_thresholds_enabled,
        )
        return Scheduler(
            self.channels,
            runtime.redis,
            owner=settings.hostname,
            interval=settings.parser_scheduler_interval_sec,
            clock=clock,
            due=visitor.wake,
            watch=silence.check,
            polling=self.polling,
            visits_lately=visitor.visits_lately,
            # Another process takes over before health calls the scheduler stale.
            lock_ttl=min(LOCK_TTL, max(LEAST_LOCK_TTL, settings.parser_scheduler_interval_sec)),
        )

    def media(self, store: MediaStore) -> MediaProcessor:
        runtime, settings = self.runtime, self.runtime.settings
        rules = DownloadRules(
            media=media_rules_of(settings),
            concurrency=settings.media_max_concurrency,
            max_attempts=settings.media_retry_max,
        )
        return MediaProcessor(
            MediaQueue(runtime.database),
            self.channels,
            store,
            self.origins,
            rules=rules,
            clock=runtime.clock,
            quotas=Storage(runtime.database, default_mb=settings.storage_quota_mb),
        )

    def backfill(self) -> Backfill:
        runtime, settings = self.runtime, self.runtime.settings
        return Backfill(
            self.channels,
            HoleFiller(self.channels, self.saver, clock=runtime.clock, memory=self.memory),
            self.origins,
            runtime.redis,
            owner=settings.hostname,
            alive_seconds=min(ALIVE_SECONDS, settings.ingest_lease_sec),
            pressure=self.pressure,
        )

    def live(self, pool: AccountPool, due: asyncio.Event) -> LiveReaders:
        runtime = self.runtime
        return LiveReaders(
            self.channels,
            self.saver,
            pool,
            clock=runtime.clock,
            due=due,
            freshness=runtime.freshness,
            gaps_apart=runtime.settings.parser_scheduler_interval_sec,
        )

    def auditor(self) -> Auditor:
        runtime = self.runtime
        return Auditor(
            self.channels,
            Audits(runtime.database),
            self.saver,
            self.origins,
            every_seconds=runtime.settings.audit_interval_hours * 3600,
            clock=runtime.clock,
            memory=self.memory,
        )


async def start_ingest(runtime: Runtime) -> None:
    """Build and start everything that captures."""
    settings, clock, channels = runtime.settings, runtime.clock, Channels(runtime.database)
    store = open_media_store(runtime.settings, runtime.folder.path)
    await store.check()
    runtime.health.engines["media"] = store.answers
    pool = await open_pool(runtime, channels)
    takeouts = _takeouts(runtime, channels, pool)
    memory = Memory(Unreadable(runtime.database), READER, clock=clock)
    await memory.start()
    site = open_previews(settings, clock=clock, allow=runtime.crawl_allowed)
    previews = None if site is None else Previews(site)
    window = timedelta(days=settings.parser_stats_window_days)
    capture = _Capture(
        runtime,
        channels,
        open_saver(runtime),
        Origins(pool) if previews is None else Origins(pool, previews, demo=runtime.demo),
        memory,
        Statistics(runtime.redis, Intervals(runtime.database), window=window, clock=clock),
        _polling(runtime),
        Pressure(runtime.redis, groups(), most_mb=settings.streams_max_mb),
    )
    saver, origins = capture.saver, capture.origins
    visitor = capture.visitor()
    scheduler = capture.scheduler(visitor)
    live = capture.live(pool, visitor.wake)
    auditor = capture.auditor()
    clocks = _clocks(runtime)
    here = store.shown if settings.media_url else f"{socket.gethostname()}:{store.shown}"
    files = MediaUpkeep(Upkeep(runtime.database), Evictions(runtime.database), store, here)
    if previews is not None and not runtime.demo:  # the demo's account tells of another Telegram than the web does
        again = timedelta(hours=settings.witness_interval_hours)
        witnesses, audits = Witnesses(runtime.database), Audits(runtime.database)
        comparison = Comparison(channels, witnesses, audits, pool, previews, again=again, clock=clock)
        await runtime.start_task("witnesses", comparison.run, patience=PATIENCE["witnesses"])
    CHANNEL_LABELS.limit = settings.metrics_max_channels
    gauges = Gauges(channels, runtime.redis, clock=clock)
    for name, job in (
        ("accounts", pool.keep),
        ("relay", Relay(runtime.database, Publisher(runtime.redis), saver.committed, capture.pressure).run),
        ("visits", visitor.run),
        ("requests", ChannelRequests(Requests(runtime.database), origins, clock=clock, due=visitor.wake).run),
        ("scheduler", scheduler.run),
        ("live", live.run),
        ("heartbeat", Heartbeat(pool, runtime.freshness, told_time=clocks.telegram_says).run),
        ("clock", clocks.run),
        ("backfill", capture.backfill().run),
        ("takeouts", takeouts.run),
        ("media", capture.media(store).run),
        ("media_upkeep", files.run),
        ("comments", CommentReader(Comments(runtime.database), saver, origins, clock=clock).run),
        ("topics", TopicReader(ForumTopics(runtime.database), origins, clock=clock).run),
        ("audit", auditor.run),
        ("audit_requests", AuditDesk(runtime.redis, channels, auditor).run),
        ("follows", FollowDesk(runtime.redis, pool).run),
        ("gauges", gauges.run),
    ):
        await runtime.start_task(name, job, patience=PATIENCE.get(name, USUAL_PATIENCE))
    runtime.health.sections |= {
        "scheduler": scheduler.report,
        "parser": scheduler.report_parser,
        "live": live.report,
        "clock": clocks.report,
        "files": files.report,
        "publishing": capture.pressure.report,
        "accounts": pool.report,
        "takeouts": takeouts.report,
        "ledger": gauges.report,
        "audit": auditor.report,
        "rows": OddRows(runtime.database).report,
    }
    if site is not None:
        runtime.health.sections["previews"] = site.report
