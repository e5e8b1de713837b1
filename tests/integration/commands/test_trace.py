"""`tga trace`: each step of a post with its time, however somebody names the post."""

from __future__ import annotations

import json
from functools import partial
from typing import Any
from uuid import uuid4

import pytest

from telegram_assistant.crawl.rules import load_rules
from telegram_assistant.domain.events import Step
from telegram_assistant.domain.models import Identity, Tagged
from telegram_assistant.domain.text import Link
from telegram_assistant.names import CRAWL_TRIGGER, INDEXING, POSTS_PARSED, POSTS_TAGGED, TAG_PERSISTENCE, TAGGING
from telegram_assistant.stages.crawling import trigger_crawls
from telegram_assistant.stages.tagging import Tagging, save_tags, tag_posts
from telegram_assistant.wiring.runtime import utc_now
from tests.integration.stages.desk import CHANNEL, POSTED, WEATHER, Desk, post
from tests.integration.stages.loop import run_stage

pytestmark = pytest.mark.integration

Tga = Any  # of conftest.py, which cannot be imported
ONE = post(1, WEATHER, links=(Link("https://t.me/[/b]", "here"),))


class Model:
    """Stands where no model is needed."""

    identity = Identity("remote", "model")

    async def tag(self, text: str, seen: str = "") -> Tagged:
        return Tagged(tags=("[/b] погода", f"[red]{len(text) + len(seen)}"))


@pytest.fixture
async def traced(desk: Desk) -> Desk:
    """A post that went through some stages, and waits at the last."""
    await desk.save(ONE, post(2))
    await desk.told(POSTS_PARSED)
    await run_stage(desk, TAGGING, {POSTS_PARSED: partial(tag_posts, tagging=Tagging(Model(), desk.budgets, utc_now))})
    await run_stage(desk, TAG_PERSISTENCE, {POSTS_TAGGED: partial(save_tags, enrichments=desk.enrichments)})
    trigger = partial(
        trigger_crawls, rules=load_rules(), stored_posts=desk.stored_posts, pages=desk.pages, clock=utc_now
    )
    await run_stage(desk, CRAWL_TRIGGER, {POSTS_TAGGED: trigger})
    waits = Step(
        post_id=ONE.id,
        stage=INDEXING,
        outcome="waiting",
        note="the model is away",
        trace_id="t",
        content_hash=ONE.content_hash,
        duration_ms=7.0,
    )
    await desk.steps.record([waits])
    return desk


async def test_each_step_is_shown_in_its_order(tga: Tga, traced: Desk) -> None:
    steps = json.loads((await tga("trace", "https://t.me/news/1", "--json")).out)
    assert [(step["stage"], step["outcome"]) for step in steps] == [
        ("telethon-ingest", "done"),
        ("tagging", "done"),
        ("tag_persistence", "done"),
        ("crawl_trigger", "done"),
        ("indexing", "waiting"),
    ]
    assert [step["at"] for step in steps] == sorted(step["at"] for step in steps)
    assert len({step["trace_id"] for step in steps[1:4]}) == 1, "one trace from parse to index"
    assert "leads into Telegram" in steps[3]["note"]
    assert f"{POSTED:%Y-%m-%d}" in steps[0]["note"]
    assert await traced.steps.of_post(ONE.id) != []


async def test_a_person_reads_it_as_a_table(tga: Tga, traced: Desk) -> None:
    shown = (await tga("trace", "@news/1")).words
    (row,) = await traced.rows("SELECT trace_id FROM post_steps WHERE stage = 'tagging' AND post_id = :id", id=ONE.id)
    assert "captured" in shown
    assert "the model is away" in shown
    assert "[/b]" in shown, "what a stranger wrote is shown as it is"
    assert "[red]" in shown
    assert row.trace_id != "t"


async def test_a_post_has_many_names(tga: Tga, traced: Desk) -> None:
    steps = 1 + len(await traced.steps.of_post(ONE.id))
    names = ["news/1", "@News/1", "https://t.me/news/1/", "https://t.me/s/news/1", f"t.me/c/{CHANNEL}/1/"]
    for reference in [*names, f"{CHANNEL}/1", str(ONE.id)]:
        printed = await tga("trace", reference, "--json")
        assert printed.code == 0, printed.out
        assert len(json.loads(printed.out)) == steps, reference


async def test_a_post_before_any_step(tga: Tga, desk: Desk) -> None:
    await desk.save(post(3))
    steps = json.loads((await tga("trace", str(post(3).id), "--json")).out)
    assert [step["stage"] for step in steps] == ["telethon-ingest"]
    assert "captured" in (await tga("trace", str(post(3).id))).out


async def test_mistakes_are_explained(tga: Tga, traced: Desk) -> None:
    assert await traced.steps.of_post(uuid4()) == []
    for reference, words in (
        ("https://t.me/news/99", "no post https://t.me/news/99 is stored"),
        (str(uuid4()), "is stored"),
        ("https://t.me/nobody_here/1", "is not watched"),
        ("https://t.me/news", "is no post"),
        ("nonsense", "is no post"),
        ("!/1", "!"),
    ):
        printed = await tga("trace", reference)
        assert printed.code == 1, reference
        assert words in printed.out, reference
