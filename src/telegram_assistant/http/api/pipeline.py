"""What runs behind the pages: the stages of the pipeline, dead letters for admins, and periodic jobs for the operator.

Of dead letters an admin sees those of the tenant only.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, cast

from fastapi import APIRouter, Body, Depends, Path, Query
from pydantic import BaseModel, ConfigDict, Field, model_validator

from telegram_assistant.bus.observer import Sampler, StageHistory
from telegram_assistant.domain.access import Caller
from telegram_assistant.http.answers import (
    Cursor,
    FromValue,
    Items,
    Page,
    example,
    page_of,
    read_cursor,
    read_place,
    write_cursor,
    write_place,
)
from telegram_assistant.http.dependencies import AdminDep, CallerDep, ServicesDep
from telegram_assistant.services.problems import Problem
from telegram_assistant.services.services import Services
from telegram_assistant.services.upkeep import (
    AT_ONCE,
    ask_for,
    drop_letters,
    known_job,
    known_stage,
    one_letter,
    only_the_operator,
    replay_letters,
    table,
)
from telegram_assistant.stages import PIPELINE, Row
from telegram_assistant.stores.postgres.jobs import JobRuns, Outcome
from telegram_assistant.stores.postgres.pipeline import Letter, OwnLetters

stages = APIRouter(prefix="/stages", tags=["stages"])

WHAT_TO_DO = {
    "unattended": "No process works on it: start tga worker, or tga up.",
    "late": "Something has waited for more than ten minutes: look at the health page and into the log of the worker.",
    "retrying": "Some events failed and are tried again by themselves; /dead-letters shows what was given up.",
}


class StageAnswer(BaseModel):
    """One stage."""

    model_config = example(
        stage="tagging",
        does="tags, topics and entities",
        reads=["posts.parsed"],
        writes=["posts.tagged"],
        state="busy",
        behind=4,
        oldest_seconds=1.5,
        tried_again_later=0,
        dead_letters=0,
        per_minute=840.0,
        rate_counts="events",
        workers=1,
        what_to_do=None,
    )

    stage: str
    does: str
    reads: list[str]
    writes: list[str]
    state: Literal["idle", "busy", "retrying", "late", "unattended"]
    behind: int = Field(description="Batches that are not finished; each holds up to a hundred events.")
    oldest_seconds: float = Field(description="How long the oldest of them has waited.")
    tried_again_later: int
    dead_letters: int = Field(description="Of your tenant.")
    per_minute: float
    rate_counts: Literal["events", "batches"] = Field(description="batches: the stage runs in another process.")
    workers: int
    what_to_do: str | None


def sampler_of(services: ServicesDep) -> Sampler:
    sampler = services.sampler
    if sampler is None or not sampler.stages:
        raise Problem(503, "The stages were not looked at yet: try again in a moment", headers={"Retry-After": "5"})
    return sampler


SamplerDep = Annotated[Sampler, Depends(sampler_of)]


@stages.get("", operation_id="list_stages", summary="Each stage with its lag, rate and failures")
async def list_stages(services: ServicesDep, caller: CallerDep, sampler: SamplerDep) -> Items[StageAnswer]:
    """The pipeline, from the first stage to the last."""
    letters = await OwnLetters(services.database, caller.tenant_id).counts()
    shown = [row for row in PIPELINE if row.stage in sampler.stages]
    return Items(items=[_answer(row, sampler.stages[row.stage], letters.get(row.stage, 0)) for row in shown])


def _answer(row: Row, history: StageHistory, letters: int) -> StageAnswer:
    now = history.now
    return StageAnswer(
        stage=row.stage,
        does=row.does,
        reads=list(row.inputs),
        writes=list(row.outputs),
        state=cast("Any", history.state),
        behind=now.behind,
        oldest_seconds=round(now.oldest_seconds, 1),
        tried_again_later=now.waiting,
        dead_letters=letters,
        per_minute=round(history.per_minute, 1),
        rate_counts="events" if history.counts_events else "batches",
        workers=now.workers,
        what_to_do=WHAT_TO_DO.get(history.state),
    )


MOST_LETTERS = 200

dead_letters = APIRouter(prefix="/dead-letters", tags=["dead letters"])

LetterId = Annotated[int, Path(ge=1, lt=2**63)]


class LetterAnswer(FromValue):
    """An event that a stage gave up."""

    model_config = example(
        id=17,
        stage="tagging",
        event="posts.parsed",
        reason="the model refuses this text",
        attempts=3,
        trace_id="6f1d2c",
        created_at="2026-11-15T08:00:04Z",
        replayed_at=None,
        can_replay=True,
    )

    id: int
    stage: str
    event: str
    reason: str
    attempts: int
    trace_id: str | None
    created_at: datetime
    replayed_at: datetime | None
    can_replay: bool = Field(description="False: it never was an event, and can only be dropped.")


class WholeLetterAnswer(LetterAnswer):
    """With everything that it takes to understand why."""

    payload: Any = Field(description="The event as it travelled, or what came instead.")
    traceback: str | None


class Chosen(BaseModel):
    """Which letters: by number, or all of a stage."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"ids": [17, 18]}, {"stage": "tagging"}]})

    ids: list[Annotated[int, Field(ge=1, lt=2**63)]] | None = Field(None, min_length=1, max_length=1000)
    stage: str | None = Field(None, max_length=100)

    @model_validator(mode="after")
    def _one_of_both(self) -> Chosen:
        if (self.ids is None) == (self.stage is None):
            raise ValueError("say either ids or stage")
        return self


class Handled(BaseModel):
    """What was done."""

    done: int
    left: list[int] = Field(description="Letters that cannot be replayed because they are no events: drop them.")
    action: Literal["replayed", "dropped"]


@dead_letters.get("", operation_id="list_dead_letters", summary="What waits here, newest first (admins)")
async def list_letters(
    services: ServicesDep,
    admin: AdminDep,
    stage: Annotated[str | None, Query(max_length=100)] = None,
    limit: Annotated[int, Query(ge=1, le=MOST_LETTERS)] = 50,
    cursor: Cursor = None,
) -> Page[LetterAnswer]:
    before = int(read_cursor(cursor, int)[0]) if cursor is not None else None
    found = await OwnLetters(services.database, admin.tenant_id).page(
        stage=known_stage(stage), limit=limit + 1, before=before
    )
    return page_of(found, limit, LetterAnswer.model_validate, lambda letter: write_cursor(letter.id))


@dead_letters.get("/{letter_id}", operation_id="get_dead_letter", summary="One whole, with its content (admins)")
async def get_letter(services: ServicesDep, admin: AdminDep, letter_id: LetterId) -> WholeLetterAnswer:
    letter = await one_letter(services, admin, letter_id)
    return WholeLetterAnswer.model_validate(letter)


@dead_letters.post("/{letter_id}/replay", operation_id="replay_dead_letter", summary="Try one again (admins)")
async def replay_letter(services: ServicesDep, admin: AdminDep, letter_id: LetterId) -> Handled:
    """It goes to the stage that failed, and only there."""
    letter = await one_letter(services, admin, letter_id)
    return await _replayed(services, admin, [letter])


@dead_letters.delete(
    "/{letter_id}", status_code=204, operation_id="drop_dead_letter", summary="Forget one for good (admins)"
)
async def drop_letter(services: ServicesDep, admin: AdminDep, letter_id: LetterId) -> None:
    letter = await one_letter(services, admin, letter_id)
    await drop_letters(services, admin, [letter])


@dead_letters.post("/replay", operation_id="replay_dead_letters", summary="Try many again (admins)")
async def replay_many(services: ServicesDep, admin: AdminDep, chosen: Annotated[Chosen, Body()]) -> Handled:
    letters = await _chosen(services, admin, chosen)
    return await _replayed(services, admin, letters)


@dead_letters.post("/drop", operation_id="drop_dead_letters", summary="Forget many for good (admins)")
async def drop_many(services: ServicesDep, admin: AdminDep, chosen: Annotated[Chosen, Body()]) -> Handled:
    letters = await _chosen(services, admin, chosen)
    return Handled(done=await drop_letters(services, admin, letters), left=[], action="dropped")


async def _replayed(services: Services, admin: Caller, letters: list[Letter]) -> Handled:
    done, left = await replay_letters(services, admin, letters)
    return Handled(done=done, left=left, action="replayed")


async def _chosen(services: Services, admin: Caller, chosen: Chosen) -> list[Letter]:
    if chosen.ids is None:
        own = OwnLetters(services.database, admin.tenant_id)
        return await own.page(stage=known_stage(chosen.stage), limit=AT_ONCE)
    return [await one_letter(services, admin, number) for number in dict.fromkeys(chosen.ids)]


MOST_RUNS = 200

jobs = APIRouter(prefix="/jobs", tags=["jobs"])


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


@jobs.get("", operation_id="list_jobs", summary="When jobs are due and how they went (for the operator)")
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


@jobs.get("/runs", operation_id="list_job_runs", summary="Runs of a job, the newest first (for the operator)")
async def list_runs(
    services: ServicesDep,
    admin: AdminDep,
    job: Annotated[str, Query(max_length=50, examples=["digests"])] = "digests",
    limit: Annotated[int, Query(ge=1, le=MOST_RUNS)] = 50,
    cursor: Cursor = None,
) -> Page[RunOut]:
    only_the_operator(admin)
    known_job(services, job)
    before = read_place(cursor)[0] if cursor is not None else None
    found = await JobRuns(services.database).page(job, limit=limit + 1, before=before)
    return page_of(found, limit, RunOut.model_validate, lambda run: write_place(run.scheduled_for))


@jobs.post("/run", operation_id="run_job", summary="Run a job now (for the operator)", status_code=202)
async def run_job(services: ServicesDep, admin: AdminDep, wanted: Annotated[JobIn, Body()]) -> RunOut:
    """The process that holds the lock of the jobs begins it within seconds."""
    return RunOut.model_validate(await ask_for(services, admin, wanted.job))
