"""Periodic jobs: when they are due and how they went. For the operator."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Body, Query
from pydantic import BaseModel, Field

from telegram_assistant.http.answers import LONGEST, FromValue, Items, Page, example, page_of, read_place, write_place
from telegram_assistant.http.dependencies import AdminDep, ServicesDep
from telegram_assistant.services.upkeep import ask_for, known_job, only_the_operator, table
from telegram_assistant.stores.postgres.jobs import JobRuns, Outcome

MOST = 200

router = APIRouter(prefix="/jobs", tags=["jobs"])


class RunOut(FromValue):
    """One time that a job was due."""

    scheduled_for: datetime
    outcome: Outcome
    attempts: int
    started_at: datetime | None
    ended_at: datetime | None
    runner: str
    note: str = Field(description="What was done, in a few words.")
    error: str


class JobOut(BaseModel):
    """A job."""

    model_config = example(
        name="digests",
        every_seconds=60,
        next_at="2026-11-15T10:01:00Z",
        last={
            "scheduled_for": "2026-11-15T10:00:00Z",
            "outcome": "done",
            "attempts": 1,
            "started_at": "2026-11-15T10:00:00Z",
            "ended_at": "2026-11-15T10:00:01Z",
            "runner": "api-1",
            "note": "2 due, 2 built, 1 sent",
            "error": "",
        },
    )

    name: str
    every_seconds: float
    next_at: datetime
    last: RunOut | None


class JobIn(BaseModel):
    """Which job."""

    model_config = example(job="digests")

    job: str = Field(max_length=50)


@router.get("", operation_id="list_jobs", summary="When jobs are due and how they went (for who runs it all)")
async def list_jobs(services: ServicesDep, admin: AdminDep) -> Items[JobOut]:
    only_the_operator(admin)
    latest = await JobRuns(services.database).latest()
    now = services.clock()
    return Items(
        items=[
            JobOut(
                name=plan.name,
                every_seconds=plan.every.total_seconds(),
                next_at=plan.slot(now) + plan.every,
                last=RunOut.model_validate(latest[plan.name]) if plan.name in latest else None,
            )
            for plan in table(services)
        ]
    )


@router.get("/runs", operation_id="list_job_runs", summary="Runs of a job, the newest first (for who runs it all)")
async def list_runs(
    services: ServicesDep,
    admin: AdminDep,
    job: Annotated[str, Query(max_length=50, examples=["digests"])] = "digests",
    limit: Annotated[int, Query(ge=1, le=MOST)] = 50,
    cursor: Annotated[str | None, Query(max_length=LONGEST)] = None,
) -> Page[RunOut]:
    only_the_operator(admin)
    known_job(services, job)
    before = read_place(cursor)[0] if cursor is not None else None
    found = await JobRuns(services.database).page(job, limit=limit + 1, before=before)
    return page_of(found, limit, RunOut.model_validate, lambda run: write_place(run.scheduled_for))


@router.post("/run", operation_id="run_job", summary="Run a job now (for who runs it all)", status_code=202)
async def run_job(services: ServicesDep, admin: AdminDep, wanted: Annotated[JobIn, Body()]) -> RunOut:
    """The process that holds the lock of the jobs begins it within seconds."""
    return RunOut.model_validate(await ask_for(services, admin, wanted.job))
