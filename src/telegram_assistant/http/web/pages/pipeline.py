"""`/pipeline`, `/jobs` and `/storage`: what each stage does and gave up, periodic jobs, and the room that all takes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Form, Path, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from telegram_assistant.bus.observer import StageHistory
from telegram_assistant.domain.access import Caller
from telegram_assistant.domain.storage import COUNTED
from telegram_assistant.errors import Retry
from telegram_assistant.http.answers import Cursor, read_cursor, write_cursor
from telegram_assistant.http.dependencies import AdminDep, CallerDep, ServicesDep
from telegram_assistant.http.web.charts import Counts, storage_bars
from telegram_assistant.http.web.page import fragment, language_of, link, page, size, span_of_seconds, zone_of
from telegram_assistant.i18n import load_texts
from telegram_assistant.jobs import DIGESTS, START, Plan
from telegram_assistant.jobs.runner import standing
from telegram_assistant.names import JOBS_LOCK
from telegram_assistant.services.problems import not_found
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
    quota_of,
    replay_letters,
    table,
)
from telegram_assistant.stages import STAGES
from telegram_assistant.stages.index_upkeep import PASS, PassState
from telegram_assistant.stages.reconciler import ARCHIVE, ArchiveState
from telegram_assistant.stores.postgres.jobs import JobRuns
from telegram_assistant.stores.postgres.media import Evictions
from telegram_assistant.stores.postgres.pipeline import Letter, OwnLetters
from telegram_assistant.stores.postgres.storage import Measured, Storage, StorageUsage
from telegram_assistant.stores.postgres.upkeep import Upkeep

ON_A_PAGE = 20
LONGEST_PAYLOAD = 20_000
KINDS = {"idle": "", "busy": "accent", "retrying": "warn", "late": "bad", "unattended": "bad"}
SERIOUS = ("unattended", "late", "retrying")

router = APIRouter(include_in_schema=False)

Stage = Annotated[str | None, Query(max_length=100)]
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
async def usage(request: Request, services: ServicesDep, caller: CallerDep) -> HTMLResponse:
    """Asked for by itself: it may take a while to count."""
    found = await count_storage(StorageUsage(services.database), caller)
    largest = max((one.bytes for one in found), default=0) or 1
    total = sum(one.bytes for one in found)
    return fragment(request, "pipeline_storage.html", caller=caller, usage=found, largest=largest, total=total)


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
    for length, unit in ((86_400, "days"), (3600, "hours")):
        if seconds % length == 0:
            return unit, seconds // length
    return "minutes", seconds // 60


DAYS = 30
FRESH = timedelta(seconds=20)
MOST_BARS = 60
MOST_EVICTED = 50


@router.get("/storage")
async def storage(request: Request, services: ServicesDep, caller: CallerDep) -> HTMLResponse:
    history = await fresh_history(services, caller)
    quota = await quota_of(services, caller)
    language = language_of(request)
    t = partial(load_texts(), language)
    bars = storage_bars(
        counts_of(history, zone_of(request)),
        [t(f"storage.kind_{kind}") for kind in COUNTED],
        label=t("storage.over_time"),
        size=partial(size, language=language),
        limit=quota.limit,
    )
    newest = [one for one in history if one.at == history[-1].at]
    return page(
        request,
        "storage.html",
        caller=caller,
        quota=quota,
        bars=bars,
        newest=newest,
        largest=max((one.bytes for one in newest), default=0) or 1,
        evicted=await Evictions(services.database).of_tenant(caller.tenant_id, limit=MOST_EVICTED),
        days=services.settings.storage_evict_after_days,
    )


@router.post("/storage/evicted/{sha256}/fetch")
async def fetch(
    services: ServicesDep, caller: CallerDep, sha256: Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")]
) -> RedirectResponse:
    if not await Evictions(services.database).fetch_again(caller.tenant_id, sha256):
        raise not_found("file that was given up")
    return RedirectResponse("/storage#evicted", status_code=303)


async def fresh_history(services: Services, caller: Caller) -> list[Measured]:
    """Counted now: the job counts only every six hours, and a reader wants to know of today."""
    storage, now = Storage(services.database), services.clock()
    history = await storage.history(caller.tenant_id, now - timedelta(days=DAYS))
    if history and now - history[-1].at < FRESH:
        return history
    with suppress(Retry):  # an archive too large to be counted on the way: the last count is shown then
        await storage.record(caller.tenant_id, await count_storage(StorageUsage(services.database), caller), now)
    return await storage.history(caller.tenant_id, now - timedelta(days=DAYS))


def counts_of(history: Sequence[Measured], zone: tzinfo) -> Counts:
    """What counts for the quota, kind by kind; thinned out to what a page can show."""
    times: dict[datetime, dict[str, int]] = {}
    for one in history:
        times.setdefault(one.at, {})[one.kind] = one.bytes
    found = [(at.astimezone(zone), [kinds.get(kind, 0) for kind in COUNTED]) for at, kinds in times.items()]
    step = -(-len(found) // MOST_BARS) or 1
    return found[::-1][::step][::-1]
