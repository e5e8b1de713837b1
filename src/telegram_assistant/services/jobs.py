"""Periodic jobs, for the operator: which there are, and one run now."""

from __future__ import annotations

from telegram_assistant.domain.access import Caller
from telegram_assistant.jobs import Plan, plans
from telegram_assistant.services.problems import Problem, forbidden
from telegram_assistant.services.services import Services
from telegram_assistant.stores.postgres.jobs import JobRuns, Run


async def ask_for(services: Services, admin: Caller, job: str) -> Run:
    """Have a job run as soon as a process is free."""
    only_the_operator(admin)
    known_job(services, job)
    runs, now = JobRuns(services.database), services.clock()
    await runs.ask(job, now)
    await services.access.record(admin, "job_run", target=job)
    found = await runs.get(job, now)
    if found is None:
        raise Problem(409, "It was asked for in the same moment by another request")
    return found


def table(services: Services) -> tuple[Plan, ...]:
    return plans(interests_minutes=services.settings.interests_sync_minutes)


def known_job(services: Services, job: str) -> None:
    names = [plan.name for plan in table(services)]
    if job not in names:
        raise Problem(422, f"job: there are {', '.join(names)}")


def only_the_operator(admin: Caller) -> None:
    if not admin.is_operator:
        raise forbidden("Only an admin of the first tenant, who runs the whole system, may see this")
