"""Periodic jobs, wired: the `api` role starts them, and does not start without them (SPEC 7.5)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from telegram_assistant.config import Settings
from telegram_assistant.domain.digests import Issue
from telegram_assistant.ingest.lock import Lock
from telegram_assistant.jobs import DIGESTS, Work, plans
from telegram_assistant.jobs.digest_formats import Mail, MailServer
from telegram_assistant.jobs.digests import Delivery, DigestJob
from telegram_assistant.jobs.runner import LOCK_TTL, Jobs
from telegram_assistant.names import JOBS_LOCK
from telegram_assistant.services.services import Services
from telegram_assistant.stores.postgres.digests import DigestIssues, Digests
from telegram_assistant.stores.postgres.jobs import JobRuns
from telegram_assistant.wiring.runtime import Runtime

PATIENCE = 120.0  # seconds without a round after which the jobs count as stuck


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
        [Mail(MailServer.of(settings)), *deliveries],
        clock=services.clock,
        page=lambda issue: page_of(settings, issue),
    )
    jobs = open_jobs(services, {DIGESTS: digests, **(work or {})})
    runtime.health.sections["jobs"] = jobs.report
    await runtime.start_task("jobs", jobs.run, patience=PATIENCE)
    return jobs


def open_jobs(services: Services, work: Mapping[str, Work]) -> Jobs:
    """To be called where an event loop runs."""
    settings = services.settings
    monotonic = asyncio.get_running_loop().time
    lock = Lock(services.redis, JOBS_LOCK, settings.hostname, ttl=LOCK_TTL, monotonic=monotonic)
    table = plans(interests_minutes=settings.interests_sync_minutes)
    return Jobs(table, work, JobRuns(services.database), lock, clock=services.clock)


def page_of(settings: Settings, issue: Issue) -> str | None:
    if not settings.api_public_url:
        return None
    return f"{settings.api_public_url.rstrip('/')}/digests/{issue.digest_id}/issues/{issue.id}"
