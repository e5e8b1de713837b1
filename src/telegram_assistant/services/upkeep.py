"""What admins look after: periodic jobs, dead letters, and how much room a tenant takes and may take."""

from __future__ import annotations

from sqlalchemy.exc import DBAPIError

from telegram_assistant.bus.retry_queue import replay
from telegram_assistant.domain.access import Caller
from telegram_assistant.domain.storage import Quota
from telegram_assistant.errors import Retry
from telegram_assistant.jobs import Plan, plans
from telegram_assistant.services.problems import Problem, forbidden, not_found
from telegram_assistant.services.services import Services
from telegram_assistant.stages import STAGES
from telegram_assistant.stores.postgres.jobs import JobRuns, Run
from telegram_assistant.stores.postgres.pipeline import DeadLetters, Letter, OwnLetters
from telegram_assistant.stores.postgres.storage import Storage, StorageUsage, Usage


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


AT_ONCE = 10_000


def known_stage(name: str | None) -> str | None:
    """None: all stages."""
    if name is not None and name not in STAGES:
        raise Problem(422, f"stage: there are {', '.join(STAGES)}")
    return name


async def one_letter(services: Services, admin: Caller, letter_id: int) -> Letter:
    """Of the admin's own tenant."""
    found = await OwnLetters(services.database, admin.tenant_id).get(letter_id)
    if found is None:
        raise not_found("dead letter")
    return found


async def replay_letters(services: Services, admin: Caller, letters: list[Letter]) -> tuple[int, list[int]]:
    """How many were replayed, and the numbers of those that cannot be."""
    done = await replay(services.redis, DeadLetters(services.database), letters)
    await services.access.record(admin, "dead_letters_replayed", details={"letters": len(done)})
    left = {letter.id for letter in letters} - {letter.id for letter in done}
    return len(done), sorted(left)


async def drop_letters(services: Services, admin: Caller, letters: list[Letter]) -> int:
    done = await DeadLetters(services.database).drop([letter.id for letter in letters])
    await services.access.record(admin, "dead_letters_dropped", details={"letters": done})
    return done


async def count_storage(usage: StorageUsage, caller: Caller) -> list[Usage]:
    try:
        return await usage.of_tenant(caller.tenant_id)
    except DBAPIError as exc:
        raise Retry("Counting took too long: try again when less is going on", after=60) from exc


async def quota_of(services: Services, caller: Caller) -> Quota:
    storage = Storage(services.database, default_mb=services.settings.storage_quota_mb)
    found = await storage.quota(caller.tenant_id)
    if found is None:
        raise not_found("tenant")
    return found
