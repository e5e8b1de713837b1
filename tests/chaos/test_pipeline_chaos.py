"""G2 to G5 and G10 under fire: workers and ingest killed, engines restarted, Redis emptied, indexes deleted, a provider
that is down and talks nonsense, poison.

`make chaos` has the long one; a short one runs with the other tests. CHAOS_SEED repeats a run's world, its kills, its
poison and its edits (not the timing of the machine). At the end every post that is there has one vector and one node
made of what it says now, or lies in the dead letters with a reason; and a replay finishes those.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import Any, TypeAlias

import pytest
from redis.exceptions import RedisError
from rich.console import Console
from rich.table import Table
from sqlalchemy.exc import SQLAlchemyError

from telegram_simulator.model import Ids
from tests.chaos.conftest import end
from tests.chaos.pipeline_run import PipelinePlan, PipelineRun, start_run
from tests.chaos.test_chaos import complete, differing, no_files_wait
from tests.pipeline_state import Difference, difference, due, held, on_the_way

Begin: TypeAlias = Callable[[PipelinePlan], Awaitable[PipelineRun]]
NODES_COMPARED = 200
SHOWN = 5

# Live posts that are not indexed as they are now, each with the open dead letter that says why, if there is one.
UNINDEXED = """
SELECT p.id, (SELECT min(d.reason) FROM dead_letters d WHERE d.replayed_at IS NULL
              AND d.payload->>'post_id' = p.id::text) AS reason
FROM posts p
LEFT JOIN post_steps s ON s.post_id = p.id AND s.stage = 'indexing' AND s.content_hash = p.content_hash
  AND s.outcome = 'done'
WHERE p.deleted_at IS NULL AND s.post_id IS NULL
"""
STEPS = """
SELECT p.id, p.version, p.captured_at, s.stage, s.outcome, s.note, s.content_hash = p.content_hash AS current, s.at
FROM posts p LEFT JOIN post_steps s ON s.post_id = p.id WHERE p.id = ANY(:posts) ORDER BY p.id, s.at
"""


@pytest.fixture
async def begin_pipeline(folder: Path) -> AsyncIterator[Begin]:
    async with AsyncExitStack() as stack:
        runs: list[PipelineRun] = []

        async def start(plan: PipelinePlan) -> PipelineRun:
            runs.append(await start_run(plan, folder, stack))
            return runs[-1]

        yield start
        for run in runs:
            await end(run.tasks)


@pytest.mark.e2e
async def test_a_little_chaos_in_the_pipeline(begin_pipeline: Begin) -> None:
    plan = PipelinePlan(
        seed=int(os.environ.get("CHAOS_SEED", "7")),
        ids=Ids.SPARSE,
        channels=6,
        posts=20,
        kills=6,
        pause=(1.5, 3.5),
        lived=timedelta(hours=4),
        settle_seconds=600,
        seen=2,
        poisons=10,
        changes=14,
        outage=(2, 3),
    )
    await chaos(await begin_pipeline(plan))


@pytest.mark.chaos
@pytest.mark.timeout(3600)  # it takes ten minutes; a busy machine is slow, not red
async def test_chaos_in_the_pipeline(begin_pipeline: Begin) -> None:
    """40 channels, two thousand posts and more, two workers, at least 20 kills."""
    scale = float(os.environ.get("CHAOS_SCALE", "1"))
    plan = PipelinePlan(
        seed=int(os.environ.get("CHAOS_SEED") or secrets.randbelow(10_000)),
        ids=Ids.SPARSE,
        channels=int(40 * scale),
        posts=50,
        kills=24,
        pause=(3, 9),
        lived=timedelta(hours=8),
        settle_seconds=1200,
        seen=6,
        poisons=60,
        changes=200,
        outage=(4, 10),
    )
    await chaos(await begin_pipeline(plan))


async def chaos(run: PipelineRun) -> None:
    print(f"CHAOS_SEED={run.plan.seed}")
    began = monotonic()
    await run.ask_for_everything()
    run.tasks = [asyncio.ensure_future(work) for work in (*(slot.keep() for slot in run.slots), run.ask_for_history())]
    await until(run, lambda: working(run), "the first posts are indexed")
    troubles = run.troubles()
    run.tasks += troubles
    await run.kill_at_random()
    await end(troubles)
    run.stood_still_at = datetime.now(UTC)
    await run.provider.recover()
    run.say("seed", run.plan.seed)
    run.say("kills", ", ".join(f"{count} {what}" for what, count in sorted(run.kills.items())))
    run.say("starts of ingest and the workers", ", ".join(f"{slot.name} {slot.starts}" for slot in run.slots))
    run.say("poisoned entries, edits and deletions by hand", (len(run.doses), run.changed))
    run.say("provider went away", run.outages)
    run.say("provider answered", ", ".join(f"{count} {what}" for what, count in run.provider.answered.most_common()))
    chaotic = monotonic() - began
    try:
        await settle(run)
    finally:
        run.say("seconds of chaos, to settle", (round(chaotic), round(monotonic() - began - chaotic)))
    await judge(run)


async def settle(run: PipelineRun) -> None:
    """Nothing breaks any more. What an operator would do is done: revive, look at everything again, replay."""
    await run.change("UPDATE channels SET status = 'active', failures = 0 WHERE status = 'dead'")
    await run.change("UPDATE channel_requests SET next_attempt_at = NULL")
    await until(run, lambda: complete(run), "every channel is captured")
    await run.change("UPDATE channels SET refreshed = '{}', next_visit_at = now()")
    await until(run, lambda: same(run), "edits and deletions are right")
    await until(run, lambda: no_files_wait(run), "every file is there")
    await until(run, lambda: calm(run), "nothing is on its way")
    await until(run, lambda: accounted(run), "each post is indexed or in the dead letters")
    letters = await letters_of_posts(run)
    run.say("dead letters that are no poison", "; ".join(f"{count} {what}" for what, count in letters.most_common()))
    run.say("posts that wait in them", len(await run.rows(UNINDEXED)))
    printed = await run.tga("dead-letters", "replay", "--all")
    run.say("replayed", printed.strip().splitlines()[-1])
    await until(run, lambda: calm(run), "nothing is on its way after the replay")
    await until(run, lambda: indexed(run), "each post is indexed after the replay")


async def until(run: PipelineRun, true: Callable[[], Awaitable[bool]], what: str) -> None:
    deadline = monotonic() + run.plan.settle_seconds
    while True:
        for task in run.tasks:
            if task.done() and not task.cancelled():
                task.result()
        with suppress(SQLAlchemyError, RedisError):  # a pooled connection from before the last restart
            if await true():
                return
        if monotonic() > deadline:
            await judge(run, failed=what)
        await asyncio.sleep(0.5)


async def same(run: PipelineRun) -> bool:
    visited = await run.rows("SELECT 1 FROM channels WHERE refreshed = '{}'")
    return not visited and not await differing(run)


async def calm(run: PipelineRun) -> bool:
    growing = await run.rows("SELECT 1 FROM media_groups WHERE announced_items <> items_count")
    return not growing and not await on_the_way(run.database, run.redis)


async def accounted(run: PipelineRun) -> bool:
    return all(row.reason for row in await run.rows(UNINDEXED))


async def indexed(run: PipelineRun) -> bool:
    return not await run.rows(UNINDEXED)


async def open_letters(run: PipelineRun) -> tuple[list[Any], list[Any]]:
    """Those of poison, and the others."""
    poison = {dose.entry for dose in (*run.doses, *run.forgotten)}
    rows = await run.rows("SELECT stage, entry_id, reason FROM dead_letters WHERE replayed_at IS NULL")
    ours = [row for row in rows if row.entry_id.partition("#")[0] not in poison]
    return [row for row in rows if row not in ours], ours


async def letters_of_posts(run: PipelineRun) -> Counter[str]:
    _, ours = await open_letters(run)
    return Counter(f"{row.stage}: {row.reason[:70]}" for row in ours)


async def working(run: PipelineRun) -> bool:
    return bool(await run.rows("SELECT 1 FROM post_steps WHERE stage = 'indexing' LIMIT 1"))


async def judge(run: PipelineRun, failed: str | None = None) -> None:
    """Stop everything, read the indexes, print the figures, and fail unless each is what it must be."""
    pending = await on_the_way(run.database, run.redis)
    verdicts: list[tuple[str, object, object]] = [
        ("events on their way", sum(pending.values()), 0),
        ("poison not in the dead letters", await unburied(run), 0),
        ("dead letters left that are no poison", (await letters_of_posts(run)).total(), 0),
        *await indexes_verdict(run),
    ]
    table = Table("what", "figure", "must be", title="Chaos in the pipeline")
    for what, value in run.figures:
        table.add_row(what, str(value), "")
    for what, value, wanted in verdicts:
        table.add_row(what, str(value), str(wanted), style=None if value == wanted else "bold red")
    Console(width=160).print(table)
    wrong = [f"{what}: {value} instead of {wanted}" for what, value, wanted in verdicts if value != wanted]
    assert failed is None, f"not within {run.plan.settle_seconds:.0f} s: {failed}; {wrong}; {pending}"
    assert wrong == []
    assert run.kills.total() >= run.plan.kills
    assert run.outages
    assert run.provider.failures


async def indexes_verdict(run: PipelineRun) -> list[tuple[str, object, object]]:
    await run.stop()
    wanted = await due(run.database)
    found = await held(run.data.path, details=list(wanted)[:NODES_COMPARED])
    wrong = difference(found, wanted)
    await explain(run, wrong)
    counted = await run.rows(
        "SELECT (SELECT count(*) FROM post_versions) AS edited,"
        " (SELECT count(*) FROM posts WHERE deleted_at IS NOT NULL) AS deleted,"
        " (SELECT count(*) FROM picture_results) AS seen, (SELECT count(*) FROM post_pages) AS read,"
        " (SELECT count(*) FROM post_enrichment WHERE kind = 'album') AS albums"
    )
    run.say("posts, vectors, nodes", (len(wanted), found.vectors.total(), found.nodes.total()))
    run.say("edited, deleted, pictures seen, pages read, albums", tuple(counted[0]))
    run.say("times that posts were published again", run.logged().count("published_again"))
    return [
        ("posts without a vector", len(wrong.without_vector), 0),
        ("posts without a node", len(wrong.without_node), 0),
        ("vectors or nodes doubled", len(wrong.doubled), 0),
        ("deleted posts in an index", len(wrong.not_removed), 0),
        ("vectors of an older text", len(wrong.other_text), 0),
        (f"nodes that differ, of {len(found.details)} compared", len(wrong.other_node), 0),
    ]


async def explain(run: PipelineRun, wrong: Difference) -> None:
    for what, posts in vars(wrong).items():
        for post_id in list(posts)[:SHOWN]:
            print(what, post_id, *(posts[post_id] if isinstance(posts, dict) else ()), sep="\n  ")
    lost = [row.id for row in await run.rows(UNINDEXED) if row.reason is None][:SHOWN]
    for row in await run.rows(STEPS, posts=lost):
        print("neither indexed nor in the dead letters:", *row)
    for channel_id, message_id, kind in (await differing(run))[:SHOWN]:
        print(kind, run.world.channels[channel_id].messages.get(message_id), sep="\n  ")


async def unburied(run: PipelineRun) -> int:
    """Doses that a stage has read and not put into the dead letters with a reason."""
    rows = await run.rows("SELECT stage, entry_id FROM dead_letters WHERE reason <> ''")
    buried = {(row.stage, row.entry_id.partition("#")[0]) for row in rows}
    return sum((stage, dose.entry) not in buried for dose in run.doses for stage in dose.readers)
