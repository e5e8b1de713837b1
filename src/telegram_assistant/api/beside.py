"""What runs beside the server: live events, alerts and periodic jobs."""

from __future__ import annotations

from functools import partial

from fastapi import FastAPI

from telegram_assistant.alerting.role import open_places, start_alerting
from telegram_assistant.api.live import start_live
from telegram_assistant.api.services import Services
from telegram_assistant.domain.models import Answerer
from telegram_assistant.jobs import EMERGING, INTERESTS, STORAGE_USAGE, TRENDS, Work
from telegram_assistant.jobs.digest_delivery import Delivery
from telegram_assistant.jobs.interests import Advisor, sync_interests
from telegram_assistant.jobs.role import open_desk, start_jobs
from telegram_assistant.jobs.storage import measure, report
from telegram_assistant.jobs.trends import daily_trends, emerging_trends
from telegram_assistant.runtime import Runtime
from telegram_assistant.search.role import open_alerts
from telegram_assistant.search.saved import Hooks
from telegram_assistant.stores.postgres.evictions import Evictions
from telegram_assistant.stores.postgres.storage import Storage
from telegram_assistant.stores.postgres.usage import StorageUsage

PATIENCE = 180.0  # seconds without a round after which alerts count as stuck


async def start_beside(runtime: Runtime, app: FastAPI, services: Services, answerer: Answerer | None) -> None:
    """`answerer`: a language model that writes digests, if there is one."""
    await start_live(runtime, app)
    await _start_saved_searches(runtime, app)
    await start_alerting(runtime, app)
    desk = open_desk(services, answerer=answerer, interests=Advisor(services.database, services.clock))
    app.state.digests = desk
    runtime.health.sections["storage"] = partial(report, _storage(services))
    await start_jobs(runtime, services, desk=desk, work=_work(services), deliveries=_deliveries(runtime, services))


def _deliveries(runtime: Runtime, services: Services) -> list[Delivery]:
    """Ways for digests besides e-mail."""
    if runtime.settings.telegram_bot_token is None:
        return []
    from telegram_assistant.bot.deliver import BotWay  # noqa: PLC0415 - its library takes seconds to load
    from telegram_assistant.bot.role import open_delivery  # noqa: PLC0415 - see above

    delivery = open_delivery(services)
    if delivery is None:
        return []
    runtime.stack.push_async_callback(delivery.close)
    return [BotWay(delivery)]


def _work(services: Services) -> dict[str, Work]:
    """What the jobs do; digests bring their own."""
    database, settings = services.database, services.settings
    work: dict[str, Work] = {
        TRENDS: daily_trends(database),
        EMERGING: emerging_trends(database),
        STORAGE_USAGE: measure(
            _storage(services),
            StorageUsage(database),
            Evictions(database),
            services.media,
            clock=services.clock,
            evict_after_days=settings.storage_evict_after_days,
        ),
    }
    if services.graph is not None:
        work[INTERESTS] = sync_interests(database, services.graph)
    return work


def _storage(services: Services) -> Storage:
    return Storage(services.database, default_mb=services.settings.storage_quota_mb)


async def _start_saved_searches(runtime: Runtime, app: FastAPI) -> None:
    """They tell what is new."""
    sealer = runtime.sealer()
    webhooks = open_places(runtime.settings, runtime.clock).webhooks
    app.state.hooks = Hooks(webhooks, sealer)
    alerts = open_alerts(runtime.database, runtime.redis, sealer, webhooks, owner=runtime.settings.hostname)
    await runtime.start_task("alerts", alerts.run, patience=PATIENCE)
