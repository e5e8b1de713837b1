"""From a committed post to `posts.indexed`: how many a second, how long each takes, and what memory it needs.

Posts are saved here as ingest saves them; real `tga worker` processes do the rest, with the embedded indexes. Texts
only: no pictures and no links, so vision and crawling have nothing to do. Without models means: TAGGING_MIN_CHARS is so
high that no post is tagged, and vectors come ready-made from a server on loopback (AI_EMBED_PROVIDER=openai).
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

from sqlalchemy import text

from bench.engines import Engines, started_engines
from bench.figure import RESULTS, Figure, machine
from bench.plot import Curve, Panel, draw
from bench.workers import Desk, ready_vectors, started_workers
from telegram_assistant.ai.local.provider import LocalEmbedder, LocalTagger, ModelProcess
from telegram_assistant.domain.post import post_id
from telegram_assistant.index.edge_vectors import EdgeVectors
from telegram_assistant.index.graph import PostNode
from telegram_assistant.index.ladybug_graph import LadybugGraph
from telegram_assistant.index.vectors import Model, Point
from telegram_assistant.language.taxonomy import load_taxonomy
from telegram_simulator.generate import build_world

SIZE = 512  # of the local vectors
SHORTEST = 80  # characters: TAGGING_MIN_CHARS of the settings
PAGE = 10  # posts that are saved together where speed is measured
PLAIN, WITH_MODELS = 2_000, 240  # posts
RATES = {10: 20.0, 30: 8.0, 100: 20.0}  # posts a second, for so many seconds
PATIENCE = 4.0  # seconds that are waited for the last posts of a rate
LONGEST = 60.0
ALONE = 60  # posts that the models are given without any pipeline
TENANT = UUID(int=1)
MOMENT = datetime(2026, 11, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Delay:
    """Of the posts of one rate; those that were not indexed in time count with the time that they waited so far."""

    rate: int
    median: float
    p95: float
    posts: int
    late: int  # not indexed when we stopped waiting


@dataclass(frozen=True)
class Plan:
    """Which models there are, and how many posts are enough to see the speed."""

    name: str
    posts: int
    settings: Mapping[str, str]


@dataclass(frozen=True)
class Group:
    """What was measured with one set of workers."""

    name: str
    workers: int
    speed: float  # posts a second
    delays: Sequence[Delay]
    memory: Mapping[str, float]
    load: float  # of the machine, when it began


def texts() -> list[str]:
    """Of a simulated world, long enough to be tagged."""
    world = build_world(seed=7, channels=12, posts=250)
    found = (message.text for channel in world.channels.values() for message in channel.messages.values())
    return [words for words in dict.fromkeys(found) if len(words) >= SHORTEST]


async def speed(desk: Desk, posts: int) -> float:
    """All at once; posts a second from the first save to the last that is told as indexed."""
    began = time.perf_counter()
    ids = [post for _ in range(posts // PAGE) for post in await desk.save(PAGE)]
    done = await desk.until_indexed(ids, LONGEST)
    return done / (max(desk.indexed.get(post, 0.0) for post in ids) - began)


async def at_rate(desk: Desk, rate: int, seconds: float) -> Delay:
    """Posts come one by one at even intervals, whether the pipeline keeps up or not."""
    began = time.perf_counter()
    saving = []
    for number in range(round(rate * seconds)):
        await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
        saving.append(asyncio.ensure_future(desk.save(1)))
    ids = [post for saved in await asyncio.gather(*saving) for post in saved]
    done = await desk.until_indexed(ids, PATIENCE)
    now = time.perf_counter()
    delays = sorted(desk.indexed.get(post, now) - desk.committed[post] for post in ids)
    return Delay(rate, _quantile(delays, 0.5), _quantile(delays, 0.95), len(ids), len(ids) - done)


async def measure(
    engines: Engines, words: Sequence[str], plan: Plan, workers: int, rates: Mapping[int, float]
) -> Group:
    await engines.forget_posts()
    async with engines.database.begin() as connection:
        await connection.execute(text("TRUNCATE model_results"))  # what was tagged once would not be again
    load = os.getloadavg()[0]
    folder = Path(tempfile.mkdtemp(dir=engines.folder))
    desk = Desk(engines, words)
    async with started_workers(engines, folder, workers, plan.settings) as running, desk.opened():
        await speed(desk, 20 * PAGE if workers > 1 else 2 * PAGE)  # models are loaded, indexes made
        measured = await speed(desk, plan.posts)
        delays = [await at_rate(desk, rate, seconds) for rate, seconds in rates.items()]
        memory = running.memory()
    shutil.rmtree(folder, ignore_errors=True)
    return Group(plan.name, workers, measured, delays, memory, load)


async def indexes_alone(folder: Path, posts: int) -> float:
    """Posts a second into both indexes, in batches of a hundred, by this loop alone."""
    vectors, graph, model = EdgeVectors(folder / "vectors"), LadybugGraph(folder / "graph"), Model("ready", SIZE)
    ids = [post_id(1, number + 1) for number in range(posts)]
    vector = [0.5 - number / SIZE for number in range(SIZE)]
    await vectors.open(TENANT, model)
    await graph.put([_node(ids[0], 0)])
    began = time.perf_counter()
    for start in range(0, posts, 100):
        some = ids[start : start + 100]
        await vectors.put(TENANT, model, [_point(one, vector) for one in some])
        await graph.put([_node(one, number) for number, one in enumerate(some, start)])
    took = time.perf_counter() - began
    await vectors.close()
    await graph.close()
    return posts / took


def _point(post: UUID, vector: Sequence[float]) -> Point:
    return Point(post_id=post, vector=vector, text_hash="0" * 64, channel_id=1, posted_at=MOMENT)


def _node(post: UUID, number: int) -> PostNode:
    return PostNode(
        tenant_id=TENANT, post_id=post, channel_id=1, channel_title="One", message_id=number + 1, posted_at=MOMENT
    )


async def models_alone(sample: Sequence[str]) -> float:
    """Posts a second that are tagged and embedded by the local models, in the one process that they have."""
    process = ModelProcess()
    tagger, embedder = LocalTagger(process, load_taxonomy(None)), LocalEmbedder(process)
    await tagger.tag(sample[0])
    began = time.perf_counter()
    for words in sample:
        await tagger.tag(words)
    await embedder.embed(list(sample))
    took = time.perf_counter() - began
    await process.close()
    return len(sample) / took


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


async def _measure() -> tuple[list[Group], float, float]:
    words = texts()
    async with started_engines() as engines, ready_vectors(SIZE) as address:
        await Desk(engines, words).open()
        switched_off = {
            "TAGGING_MIN_CHARS": "1000000",
            "AI_EMBED_PROVIDER": "openai",
            "OPENAI_BASE_URL": address,
            "OPENAI_EMBEDDING_SIZE": str(SIZE),
        }
        groups = [
            await measure(engines, words, plan, workers, rates)
            for plan in (Plan("without models", PLAIN, switched_off), Plan("local models", WITH_MODELS, {}))
            for workers, rates in ((1, RATES), (2, {}))
        ]
        indexes = await indexes_alone(engines.folder / "alone", PLAIN // 2)
    return groups, indexes, await models_alone(words[:ALONE])


def _figures(groups: Sequence[Group], indexes: float, models: float) -> list[Figure]:
    plain, plain_two, local, local_two = groups
    figures = [
        Figure("pipeline_without_models", plain.speed, "posts/s", indexes),
        Figure("pipeline_without_models_two_workers", plain_two.speed, "posts/s", plain.speed),
        Figure("pipeline_local_models", local.speed, "posts/s", models),
        Figure("pipeline_local_models_two_workers", local_two.speed, "posts/s", local.speed),
        Figure("pipeline_memory", sum(local.memory.values()), "MB", local.memory.get("text models", 0.0) or 1.0),
    ]
    for group, name in ((plain, "without_models"), (local, "local_models")):
        quiet = group.delays[0].median
        for delay in group.delays:
            if delay.rate in (10, 100):
                at = f"pipeline_delay_{name}_at_{delay.rate}"
                figures += [Figure(f"{at}_p50", delay.median, "s", quiet), Figure(f"{at}_p95", delay.p95, "s", quiet)]
    return figures


def _write(groups: Sequence[Group], indexes: float, models: float) -> None:
    lines = [
        "# From a committed post to both indexes",
        "",
        f"`python -m bench pipeline` on {machine()}. Others may have used it too: `load` is that when a line began.",
        "",
        *(__doc__ or "").strip().splitlines()[2:],
        "The machine has to do everything at once: PostgreSQL, Valkey, the saving, the workers and their models.",
        "",
        "| | workers | posts/s | beside | load |",
        "|---|---:|---:|---|---:|",
    ]
    besides = {
        "without models": f"{indexes:,.0f} posts/s into both indexes by nobody but one loop",
        "local models": f"{models:,.1f} posts/s tagged and embedded by the same models alone",
    }
    lines += [
        f"| {group.name} | {group.workers} | {group.speed:,.1f} | {besides[group.name]} | {group.load:.1f} |"
        for group in groups
    ]
    lines += [
        "",
        "Time from the commit to `posts.indexed`, one worker, posts at even intervals whether it keeps up or not.",
        f"Posts that were not indexed {PATIENCE:g} s after the last one count with the time they waited so far.",
        "",
        "| | posts/s | p50, s | p95, s | posts | not indexed by then |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {group.name} | {one.rate} | {one.median:.3f} | {one.p95:.3f} | {one.posts:,} | {one.late:,} |"
        for group in groups
        for one in group.delays
    ]
    lines += ["", "![Delay by rate](pipeline.svg)", "", "Resident memory after all of this, MB:", ""]
    for group in groups:
        parts = ", ".join(f"{what} {amount:.0f}" for what, amount in sorted(group.memory.items()))
        lines.append(f"- {group.name}, {group.workers} worker{'s' * (group.workers > 1)}: {parts}")
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "pipeline.md").write_text("\n".join([*lines, ""]), encoding="utf-8")
    curves = [Curve(g.name, [(d.rate, d.median, d.p95) for d in g.delays]) for g in groups if g.delays]
    panel = Panel("From the commit to posts.indexed", curves, across="posts a second", upwards="delay, s")
    draw([panel], RESULTS / "pipeline.svg", strokes="solid: median, dashed: 95 % are faster")


def run() -> list[Figure]:
    """Speed, delay and memory of the pipeline; two workers beside one."""
    measured = asyncio.run(_measure())
    _write(*measured)
    return _figures(*measured)
