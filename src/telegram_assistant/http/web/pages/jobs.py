"""`/jobs`: what is done again and again, when, and how it went. For whoever runs the whole system."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from telegram_assistant.http.auth import PageAdminDep, ServicesDep
from telegram_assistant.http.web.page import link, page
from telegram_assistant.jobs import DIGESTS, START, Plan
from telegram_assistant.jobs.runner import standing
from telegram_assistant.names import JOBS_LOCK
from telegram_assistant.services.jobs import ask_for, known_job, only_the_operator, table
from telegram_assistant.stores.postgres.jobs import JobRuns

SHOWN = 50

router = APIRouter(include_in_schema=False)


@router.get("/jobs")
async def jobs(
    request: Request,
    services: ServicesDep,
    admin: PageAdminDep,
    job: Annotated[str, Query(max_length=50)] = DIGESTS,
) -> HTMLResponse:
    only_the_operator(admin)
    known_job(services, job)
    runs, now = JobRuns(services.database), services.clock()
    latest = await runs.latest()
    plans = table(services)
    return page(
        request,
        "jobs.html",
        caller=admin,
        plans=plans,
        latest=latest,
        # What never ran has only begun; anything else should have come at its time.
        standing={
            plan.name: standing(plan, run, now=now, since=START if run else now)
            for plan in plans
            for run in [latest.get(plan.name)]
        },
        every={plan.name: _span(plan) for plan in plans},
        next={plan.name: plan.slot(now) + plan.every for plan in plans},
        chosen=job,
        runs=await runs.page(job, limit=SHOWN),
        owner=await services.redis.get(JOBS_LOCK),
    )


@router.post("/jobs/run")
async def run(
    services: ServicesDep, admin: PageAdminDep, job: Annotated[str, Form(max_length=50)] = DIGESTS
) -> Response:
    await ask_for(services, admin, job)
    return RedirectResponse(link("/jobs", job=job), status_code=303)


def _span(plan: Plan) -> tuple[str, int]:
    """The unit, and how many of it."""
    seconds = int(plan.every.total_seconds())
    for size, unit in ((86_400, "days"), (3600, "hours")):
        if seconds % size == 0:
            return unit, seconds // size
    return "minutes", seconds // 60
