"""`/pipeline` and `/jobs`: what each stage does and gave up, and periodic jobs for the operator."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Form, Path, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from telegram_assistant.bus.observer import StageHistory
from telegram_assistant.domain.access import Caller
from telegram_assistant.http.answers import LONGEST, read_cursor, write_cursor
from telegram_assistant.http.dependencies import AdminDep, CallerDep, ServicesDep
from telegram_assistant.http.web.page import fragment, link, page, span_of_seconds
from telegram_assistant.jobs import DIGESTS, START, Plan
from telegram_assistant.jobs.runner import standing
from telegram_assistant.names import JOBS_LOCK
from telegram_assistant.services.services import Services
from telegram_assistant.services.upkeep import (
    AT_ONCE,
    ask_for,
    count_storage,
    drop_letters,
    known_job,
    known_stage,
    one_letter,
    only_the_operator,
    replay_letters,
    table,
)
from telegram_assistant.stages import STAGES
from telegram_assistant.stages.index_upkeep import PASS, PassState
from telegram_assistant.stages.reconciler import ARCHIVE, ArchiveState
from telegram_assistant.stores.postgres.jobs import JobRuns
from telegram_assistant.stores.postgres.pipeline import Letter, OwnLetters
from telegram_assistant.stores.postgres.storage import StorageUsage
from telegram_assistant.stores.postgres.upkeep import Upkeep

ON_A_PAGE = 20
LONGEST_PAYLOAD = 20_000
KINDS = {"idle": "", "busy": "accent", "retrying": "warn", "late": "bad", "unattended": "bad"}
SERIOUS = ("unattended", "late", "retrying")

router = APIRouter(include_in_schema=False)

Stage = Annotated[str | None, Query(max_length=100)]
Cursor = Annotated[str | None, Query(max_length=LONGEST)]
LetterId = Annotated[int, Path(ge=1, lt=2**63)]


@dataclass(frozen=True, slots=True)
class ShownStage:
    """A stage as a card."""

    name: str
    history: StageHistory
    dead: int  # letters of the tenant

    @property
    def kind(self) -> str:
        return KINDS[self.history.state]

    @property
    def behind(self) -> list[float]:
        return [float(sample.behind) for sample in self.history.samples]

    @property
    def errors(self) -> list[float]:
        return [float(sample.waiting + sample.dead) for sample in self.history.samples]


@dataclass(frozen=True, slots=True)
class ShownLetter:
    """A dead letter with its content to read."""

    letter: Letter
    payload: str


@router.get("/pipeline")
async def pipeline(
    request: Request, services: ServicesDep, caller: CallerDep, stage: Stage = None, cursor: Cursor = None
) -> HTMLResponse:
    letters = await _letters(services, caller, stage, cursor) if caller.is_admin else {}
    return page(request, "pipeline.html", caller=caller, **await _stages(services, caller), **letters)


@router.get("/pipeline/stages")
async def stages(request: Request, services: ServicesDep, caller: CallerDep) -> HTMLResponse:
    """Polled."""
    return fragment(request, "pipeline_stages.html", caller=caller, **await _stages(services, caller))


@router.get("/pipeline/storage")
async def storage(request: Request, services: ServicesDep, caller: CallerDep) -> HTMLResponse:
    """Asked for by itself: it may take a while to count."""
    usage = await count_storage(StorageUsage(services.database), caller)
    largest = max((one.bytes for one in usage), default=0) or 1
    total = sum(one.bytes for one in usage)
    return fragment(request, "pipeline_storage.html", caller=caller, usage=usage, largest=largest, total=total)


@router.get("/pipeline/letters")
async def letters(
    request: Request, services: ServicesDep, admin: AdminDep, stage: Stage = None, cursor: Cursor = None
) -> HTMLResponse:
    found = await _letters(services, admin, stage, cursor)
    return fragment(request, "pipeline_letters.html", caller=admin, **found)


@router.post("/pipeline/letters/{letter_id}/replay")
async def replay(request: Request, services: ServicesDep, admin: AdminDep, letter_id: LetterId) -> Response:
    letter = await one_letter(services, admin, letter_id)
    count, _ = await replay_letters(services, admin, [letter])
    return await _after(request, services, admin, done=("replayed", count))


@router.post("/pipeline/letters/{letter_id}/drop")
async def drop(request: Request, services: ServicesDep, admin: AdminDep, letter_id: LetterId) -> Response:
    letter = await one_letter(services, admin, letter_id)
    return await _after(request, services, admin, done=("dropped", await drop_letters(services, admin, [letter])))


@router.post("/pipeline/letters/replay")
async def replay_all(
    request: Request, services: ServicesDep, admin: AdminDep, stage: Annotated[str, Form(max_length=100)] = ""
) -> Response:
    """All of a stage, or of all."""
    found = await OwnLetters(services.database, admin.tenant_id).page(stage=known_stage(stage or None), limit=AT_ONCE)
    count, _ = await replay_letters(services, admin, found)
    return await _after(request, services, admin, done=("replayed", count))


async def _after(request: Request, services: Services, admin: Caller, *, done: tuple[str, int]) -> Response:
    if "hx-request" not in request.headers:
        return RedirectResponse("/pipeline#letters", status_code=303)
    found = await _letters(services, admin, None, None)
    return fragment(request, "pipeline_letters.html", caller=admin, **(found | {"done": done}))


async def _stages(services: Services, caller: Caller) -> dict[str, Any]:
    sampler = services.sampler
    letters = await OwnLetters(services.database, caller.tenant_id).counts()
    found = sampler.stages if sampler else {}
    shown = [ShownStage(name, found[name], letters.get(name, 0)) for name in STAGES if name in found]
    health = await services.health.details() if caller.is_operator else None
    return {
        "stages": shown,
        "serious": [one for one in shown if one.history.state in SERIOUS],
        "dead": sum(letters.values()),
        "troubles": health["troubles"] if health else [],
        "brought_back": await _brought_back(services) if health else [],
        "span_of": span_of_seconds,
    }


async def _brought_back(services: Services) -> list[tuple[str, dict[str, int]]]:
    """What was lost and is on its way back, whichever process does it: which words, and how far it is."""
    upkeep = Upkeep(services.database)
    compared, archive = await upkeep.state(PASS, PassState), await upkeep.state(ARCHIVE, ArchiveState)
    found = []
    if compared.why:
        found.append(("rebuilding", {"n": compared.examined, "of": compared.of}))
    if archive.hurry:
        found.append(("looking_again", {"n": archive.examined, "of": await upkeep.posts()}))
    return found


async def _letters(services: Services, admin: Caller, stage: str | None, cursor: str | None) -> dict[str, Any]:
    before = int(read_cursor(cursor, int)[0]) if cursor else None
    own = OwnLetters(services.database, admin.tenant_id)
    found = await own.page(stage=known_stage(stage or None), limit=ON_A_PAGE + 1, before=before)
    return {
        "letters": [_shown(letter) for letter in found[:ON_A_PAGE]],
        "counts": await own.counts(),
        "stage": stage or "",
        "next": write_cursor(found[ON_A_PAGE - 1].id) if len(found) > ON_A_PAGE else None,
        "done": None,
    }


def _shown(letter: Letter) -> ShownLetter:
    payload = json.dumps(letter.payload, ensure_ascii=False, indent=2)
    return ShownLetter(letter, payload[:LONGEST_PAYLOAD])


SHOWN = 50


@router.get("/jobs")
async def jobs(
    request: Request,
    services: ServicesDep,
    admin: AdminDep,
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
async def run(services: ServicesDep, admin: AdminDep, job: Annotated[str, Form(max_length=50)] = DIGESTS) -> Response:
    await ask_for(services, admin, job)
    return RedirectResponse(link("/jobs", job=job), status_code=303)


def _span(plan: Plan) -> tuple[str, int]:
    """The unit, and how many of it."""
    seconds = int(plan.every.total_seconds())
    for size, unit in ((86_400, "days"), (3600, "hours")):
        if seconds % size == 0:
            return unit, seconds // size
    return "minutes", seconds // 60
