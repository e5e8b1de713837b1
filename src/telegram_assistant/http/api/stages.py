"""The stages of the pipeline: how far each is behind, how fast it goes, and what failed."""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field

from telegram_assistant.bus.observer import Sampler, StageHistory
from telegram_assistant.http.answers import Items, example
from telegram_assistant.http.dependencies import CallerDep, ServicesDep
from telegram_assistant.services.problems import Problem
from telegram_assistant.stages import PIPELINE, Row
from telegram_assistant.stores.postgres.pipeline import OwnLetters

router = APIRouter(prefix="/stages", tags=["stages"])

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


@router.get("", operation_id="list_stages", summary="Each stage with its lag, rate and failures")
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
