"""Dead letters: what a stage could not handle, why, and once more. For admins, and only their tenant's own."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Path, Query
from pydantic import BaseModel, ConfigDict, Field, model_validator

from telegram_assistant.domain.access import Caller
from telegram_assistant.http.answers import LONGEST, FromValue, Page, example, page_of, read_cursor, write_cursor
from telegram_assistant.http.dependencies import AdminDep, ServicesDep
from telegram_assistant.services.problems import Problem
from telegram_assistant.services.services import Services
from telegram_assistant.services.upkeep import AT_ONCE, drop_letters, one_letter, replay_letters
from telegram_assistant.stages import STAGES
from telegram_assistant.stores.postgres.pipeline import Letter, OwnLetters

MOST = 200

router = APIRouter(prefix="/dead-letters", tags=["dead letters"])

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


@router.get("", operation_id="list_dead_letters", summary="What waits here, newest first (admins)")
async def list_letters(
    services: ServicesDep,
    admin: AdminDep,
    stage: Annotated[str | None, Query(max_length=100)] = None,
    limit: Annotated[int, Query(ge=1, le=MOST)] = 50,
    cursor: Annotated[str | None, Query(max_length=LONGEST)] = None,
) -> Page[LetterAnswer]:
    _check(stage)
    before = int(read_cursor(cursor, int)[0]) if cursor is not None else None
    found = await OwnLetters(services.database, admin.tenant_id).page(stage=stage, limit=limit + 1, before=before)
    return page_of(found, limit, LetterAnswer.model_validate, lambda letter: write_cursor(letter.id))


@router.get("/{letter_id}", operation_id="get_dead_letter", summary="One whole, with its content (admins)")
async def get_letter(services: ServicesDep, admin: AdminDep, letter_id: LetterId) -> WholeLetterAnswer:
    letter = await one_letter(OwnLetters(services.database, admin.tenant_id), letter_id)
    return WholeLetterAnswer.model_validate(letter)


@router.post("/{letter_id}/replay", operation_id="replay_dead_letter", summary="Try one again (admins)")
async def replay_letter(services: ServicesDep, admin: AdminDep, letter_id: LetterId) -> Handled:
    """It goes to the stage that failed, and only there."""
    letter = await one_letter(OwnLetters(services.database, admin.tenant_id), letter_id)
    return await _replayed(services, admin, [letter])


@router.delete("/{letter_id}", status_code=204, operation_id="drop_dead_letter", summary="Forget one for good (admins)")
async def drop_letter(services: ServicesDep, admin: AdminDep, letter_id: LetterId) -> None:
    letter = await one_letter(OwnLetters(services.database, admin.tenant_id), letter_id)
    await drop_letters(services, admin, [letter])


@router.post("/replay", operation_id="replay_dead_letters", summary="Try many again (admins)")
async def replay_many(services: ServicesDep, admin: AdminDep, chosen: Annotated[Chosen, Body()]) -> Handled:
    letters = await _chosen(OwnLetters(services.database, admin.tenant_id), chosen)
    return await _replayed(services, admin, letters)


@router.post("/drop", operation_id="drop_dead_letters", summary="Forget many for good (admins)")
async def drop_many(services: ServicesDep, admin: AdminDep, chosen: Annotated[Chosen, Body()]) -> Handled:
    letters = await _chosen(OwnLetters(services.database, admin.tenant_id), chosen)
    return Handled(done=await drop_letters(services, admin, letters), left=[], action="dropped")


async def _replayed(services: Services, admin: Caller, letters: list[Letter]) -> Handled:
    done, left = await replay_letters(services, admin, letters)
    return Handled(done=done, left=left, action="replayed")


async def _chosen(letters: OwnLetters, chosen: Chosen) -> list[Letter]:
    if chosen.ids is None:
        _check(chosen.stage)
        return await letters.page(stage=chosen.stage, limit=AT_ONCE)
    return [await one_letter(letters, number) for number in dict.fromkeys(chosen.ids)]


def _check(stage: str | None) -> None:
    if stage is not None and stage not in STAGES:
        raise Problem(422, f"stage: there are {', '.join(STAGES)}")
