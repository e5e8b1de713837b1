"""`tga dead-letters list|show|replay|drop`: what failed is visible and can be run again (G4, LESSONS 16)."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from telegram_assistant.bus.retry_queue import RetryQueue
from telegram_assistant.bus.streams import FIELD
from telegram_assistant.domain.models import Identity, Tagged
from telegram_assistant.errors import Reject
from telegram_assistant.names import POSTS_PARSED, POSTS_TAGGED, TAGGING, VISION_ANALYSIS, stream
from telegram_assistant.stages.tagging import Tagging, tag_posts
from telegram_assistant.wiring.runtime import utc_now
from tests.integration.stages.desk import FOOTBALL, WEATHER, Desk, post
from tests.integration.stages.loop import run_stage

pytestmark = pytest.mark.integration

Tga = Any  # of conftest.py, which cannot be imported
REASON = "[/b] it [red]refuses[/red] this"


class Model:
    """Tags everything but one text, as long as it is ill."""

    identity = Identity("remote", "model")

    def __init__(self, ill: bool) -> None:
        self.ill = ill

    async def tag(self, text: str, seen: str = "") -> Tagged:
        if self.ill and text == WEATHER:
            raise Reject(REASON) from ValueError(f"what the model said {seen}")
        return Tagged(tags=("погода",))


async def run_tagging(desk: Desk, *, ill: bool) -> None:
    tagging = Tagging(Model(ill), desk.budgets, utc_now)
    await run_stage(desk, TAGGING, {POSTS_PARSED: lambda events: tag_posts(events, tagging=tagging)})


@pytest.fixture
async def letters(desk: Desk) -> dict[str, int]:
    """Two letters of tagging by their reason: a post that its model refuses, and something that is no event."""
    await desk.save(post(1, WEATHER), post(2, FOOTBALL))
    await desk.told(POSTS_PARSED)
    await desk.redis.xadd(stream(POSTS_PARSED), {FIELD: "no json"})
    await run_tagging(desk, ill=True)
    found = {letter.reason: letter.id for letter in await desk.letters.find()}
    assert len(found) == 2
    return {"post": found.pop(REASON), "nonsense": found.popitem()[1]}


async def test_they_are_listed_and_shown_with_all_that_is_known(tga: Tga, letters: dict[str, int]) -> None:
    listed = json.loads((await tga("dead-letters", "list", "--json")).out)
    assert {one["id"] for one in listed} == set(letters.values())
    table = (await tga("dead-letters", "list", "--stage", "tagging")).words
    assert "[/b] it [red]refuses[/red]" in table, "what a stranger wrote is shown as it is"
    assert (await tga("dead-letters", "list", "--stage", "indexing")).words == "No dead letters."
    shown = (await tga("dead-letters", "show", str(letters["post"]))).out
    (event,) = [one for one in listed if one["id"] == letters["post"]]
    assert f'"trace_id": "{event["trace_id"]}"' in shown
    assert event["payload"]["text"] == WEATHER
    assert WEATHER in shown
    assert "ValueError: what the model said" in shown
    nonsense = (await tga("dead-letters", "show", str(letters["nonsense"]))).out
    assert '"payload": "no json"' in nonsense


async def test_a_replay_goes_to_the_stage_that_failed_and_finishes(
    tga: Tga, desk: Desk, letters: dict[str, int]
) -> None:
    before = await desk.redis.xlen(stream(POSTS_PARSED))
    tagged = await desk.told(POSTS_TAGGED)
    assert [event.post_id for event in tagged] == [post(2).id]
    assert (await tga("dead-letters", "replay", str(letters["post"]))).words == "1 replayed."
    assert await RetryQueue(desk.redis, TAGGING).size() == 1
    assert await RetryQueue(desk.redis, VISION_ANALYSIS).size() == 0
    assert await desk.redis.xlen(stream(POSTS_PARSED)) == before, "nobody else hears of it"
    await run_tagging(desk, ill=False)
    assert [event.post_id for event in await desk.told(POSTS_TAGGED)] == [post(1).id]
    assert [letter.id for letter in await desk.letters.find()] == [letters["nonsense"]]
    assert [(step.stage, step.outcome) for step in await desk.steps.of_post(post(1).id)] == [(TAGGING, "done")]
    assert await RetryQueue(desk.redis, TAGGING).size() == 0


async def test_a_replay_that_fails_again_is_the_same_letter_again(
    tga: Tga, desk: Desk, letters: dict[str, int]
) -> None:
    assert "1 replayed." in (await tga("dead-letters", "replay", str(letters["post"]))).out
    await run_tagging(desk, ill=True)
    assert {letter.id for letter in await desk.letters.find()} == set(letters.values())
    assert [(step.stage, step.outcome) for step in await desk.steps.of_post(post(1).id)] == [(TAGGING, "dead")]


async def test_all_can_be_replayed_and_what_is_no_event_can_only_be_dropped(
    tga: Tga, desk: Desk, letters: dict[str, int]
) -> None:
    number = letters["nonsense"]
    printed = (await tga("dead-letters", "replay", "--all", "--stage", "tagging")).words
    assert printed == f"{number}: is no event and cannot be replayed; tga dead-letters drop {number} 1 replayed."
    await run_tagging(desk, ill=False)
    assert (await tga("dead-letters", "drop", str(number))).words == "1 dropped."
    assert (await tga("dead-letters", "list")).words == "No dead letters."
    assert await desk.letters.counts() == {}


async def test_mistakes_are_explained(tga: Tga, letters: dict[str, int]) -> None:
    for command, words in (
        (("show", "999"), "there is no dead letter 999"),
        (("replay",), "or say --all"),
        (("drop", str(letters["post"]), "--all"), "or say --all"),
        (("drop", str(letters["post"]), "998"), "there is no dead letter 998"),
        (("list", "--stage", "cooking"), "there is no stage 'cooking'"),
    ):
        printed = await tga("dead-letters", *command)
        assert printed.code == 1, command
        assert words in printed.out
    assert len(json.loads((await tga("dead-letters", "list", "--json")).out)) == 2


async def test_through_the_front_door(environment: dict[str, str], letters: dict[str, int], folder: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "telegram_assistant", "dead-letters", "list"),
        env={"PATH": os.environ["PATH"], "COLUMNS": "200", **environment},
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(300):
        printed, _ = await process.communicate()
    assert process.returncode == 0, printed.decode()
    assert REASON in printed.decode()
    assert str(letters["nonsense"]) in printed.decode()


@pytest.mark.parametrize(
    "arguments",
    [
        ("dead-letters", "list", "--limit", "-1"),
        ("dead-letters", "show", str(2**63)),
        ("dead-letters", "drop", str(2**63)),
        ("channels", "priority", "@news", str(2**31)),
    ],
)
async def test_numbers_that_no_table_holds_are_refused_in_words(tga: Tga, arguments: tuple[str, ...]) -> None:
    printed = await tga(*arguments)
    assert printed.code == 2
    assert "Invalid value" in printed.words
