"""Trends: are planted bursts found within a day, and nothing of the ordinary rhythm; in worlds and on real posts.

Fifty worlds of the simulator's channels and stories, without a database; a few of them through PostgreSQL, which must
find the same. Real posts: the file named by TGA_NEWS12 (JSON lines, gzip); tagging it takes some minutes.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncEngine

from bench.engines import started_engines
from bench.figure import RESULTS, Figure
from bench.trend_looks import Looker, Memory
from bench.trend_worlds import SIZES, Plant, Told, TrendWorld, make_world
from telegram_assistant.ai.local.provider import LocalTagger, ModelProcess
from telegram_assistant.domain.access import SYSTEM_TENANT, SYSTEM_USER
from telegram_assistant.domain.models import Tagged
from telegram_assistant.domain.post import post_id
from telegram_assistant.domain.trends import DAY, LEAST_DAYS, Kind, Subject, Trend, Window
from telegram_assistant.jobs.trends import EMERGING_EVERY, EMERGING_HOURS, EMERGING_MORE, find_trends, sources_of
from telegram_assistant.language.clean import plain
from telegram_assistant.language.lexemes import pieces
from telegram_assistant.language.signatures import signature
from telegram_assistant.language.taxonomy import load_taxonomy
from telegram_assistant.stores.postgres.database import raw_transaction
from telegram_assistant.stores.postgres.trend_counts import Mention
from telegram_assistant.stores.postgres.trends import Trends

WORLDS = range(2000, 2050)  # others than those that the rules were chosen on
HOURLY_WORLDS = range(2000, 2004)  # that are looked at every quarter of an hour, too
STORED_WORLDS = range(2000, 2002)
REAL_SINCE = "2024-11-08"  # from then on most of the channels are there
REAL_DAYS = 12
SHORTEST = 80  # characters: TAGGING_MIN_CHARS of the settings
SYSTEM = UUID(SYSTEM_TENANT)


@dataclass
class Tally:
    """What was found of what was planted."""

    right: int = 0
    wrong: list[str] = field(default_factory=list)
    planted: Counter[int] = field(default_factory=Counter)
    found: Counter[int] = field(default_factory=Counter)
    delays: list[float] = field(default_factory=list)  # minutes after a plant began
    looks: int = 0

    def judge(self, new: Sequence[Trend], plants: Sequence[Plant], at: datetime, known: set[int]) -> None:
        self.looks += 1
        for trend in new:
            own = [place for place, plant in enumerate(plants) if _is_it(trend, plant, at)]
            self.right += bool(own)
            if not own:
                self.wrong.append(trend.main.subject.key)
            for place in set(own) - known:
                known.add(place)
                self.found[plants[place].channels] += 1
                self.delays.append((at - plants[place].begins) / timedelta(minutes=1))

    @property
    def precision(self) -> float:
        return self.right / max(1, self.right + len(self.wrong))

    @property
    def recall(self) -> float:
        return self.found.total() / self.planted.total()


def _is_it(trend: Trend, plant: Plant, at: datetime) -> bool:
    """Within a day, and about the right thing."""
    return plant.begins < at <= plant.ends + DAY and not plant.subjects.isdisjoint(trend.subjects)


def daily(tally: Tally, world: TrendWorld) -> None:
    looker, memory, known = Looker(world.posts), Memory(), set[int]()
    tally.planted.update(plant.channels for plant in world.plants)
    for end in world.looks:
        window = Window(end)
        tally.judge(memory.new(looker.look(window), window), world.plants, end, known)


def emerging(tally: Tally, world: TrendWorld) -> None:
    """Every quarter of an hour, as the job does."""
    looker, memory, known = Looker(world.posts), Memory(), set[int]()
    tally.planted.update(plant.channels for plant in world.plants)
    at = world.looks[0] - DAY
    while at < world.looks[-1]:
        at += EMERGING_EVERY
        window = Window(at, EMERGING_HOURS)
        tally.judge(memory.new(looker.look(window, more=EMERGING_MORE), window), world.plants, at, known)


async def stored() -> tuple[int, int, float]:
    """Through PostgreSQL: in how many looks, in how many of them with the same result, and seconds for one."""
    same = looks = 0
    seconds = 0.0
    for seed in STORED_WORLDS:
        world = make_world(seed)
        looker = Looker(world.posts)
        async with started_engines() as engines:
            await _fill(engines.database, world.posts)
            trends = Trends(engines.database)
            for end in world.looks:
                began = time.perf_counter()
                saved = await find_trends(engines.database, SYSTEM, end)
                seconds += time.perf_counter() - began
                rows = [await trends.get(SYSTEM, trend_id) for trend_id in (*saved.new, *saved.going_on)]
                ours = {(row.mentions, row.channels, round(row.expected, 6)) for row in rows if row}
                pure = {
                    (one.main.mentions, one.channels, round(one.main.expected, 6)) for one in looker.look(Window(end))
                }
                looks += 1
                same += ours == pure
    return looks, same, seconds / looks


async def _fill(database: AsyncEngine, posts: Sequence[Told]) -> None:
    """As indexing leaves them, with words too short for a signature: then where a post comes from decides."""
    rows = []
    for post in posts:
        origin = _numbers(post.source) if post.source != post.post_id else None
        details = {"forward": {"channel_id": origin[0], "message_id": origin[1]}} if origin else {}
        named = {kind: [one.key for one in post.subjects if one.kind is kind] for kind in Kind}
        entities = [{"kind": "place", "name": name} for name in named[Kind.ENTITY]]
        rows.append((post, json.dumps(details), named, json.dumps({"entities": entities})))
    async with raw_transaction(database) as connection:
        await connection.execute(
            "INSERT INTO channels (id, title) SELECT x, x::text FROM unnest($1::bigint[]) x",
            sorted({post.channel_id for post in posts}),
        )
        await connection.execute(
            "INSERT INTO subscriptions (tenant_id, user_id, channel_id) SELECT $1, $2, id FROM channels",
            SYSTEM,
            UUID(SYSTEM_USER),
        )
        await connection.copy_records_to_table(
            "posts",
            records=[
                (post.post_id, *_numbers(post.post_id), post.posted_at, "", details) for post, details, _, _ in rows
            ],
            columns=["id", "channel_id", "message_id", "posted_at", "content_hash", "details"],
        )
        await connection.copy_records_to_table(
            "search_documents",
            records=[
                (post.post_id, post.channel_id, post.posted_at, named[Kind.PHRASE], named[Kind.TOPIC])
                for post, _, named, _ in rows
            ],
            columns=["post_id", "channel_id", "posted_at", "tags", "topics"],
        )
        await connection.copy_records_to_table(
            "post_enrichment",
            records=[(post.post_id, "tags", "", data, "bench") for post, _, _, data in rows],
            columns=["post_id", "kind", "content_hash", "data", "provider"],
        )
        await connection.execute("ANALYZE")


def _numbers(made: UUID) -> tuple[int, int]:
    """Channel and message of a post of a world."""
    return made.int >> 64, made.int & (2**64 - 1)


def real_posts() -> list[Told]:
    """Tagged by the local models; none without the file."""
    path = Path(os.environ.get("TGA_NEWS12", ""))
    if not path.is_file():
        return []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [row for line in lines if (row := json.loads(line))["date"] >= REAL_SINCE]
    tagged = asyncio.run(_tag([row["text"] for row in rows]))
    mentions: dict[UUID, Mention] = {}
    subjects: dict[UUID, frozenset[Subject]] = {}
    for row, found in zip(rows, tagged, strict=True):
        channel = int(str(row["channel_id"]).removeprefix("-100"))
        made = post_id(channel, row["message_id"])
        numbers = signature(list(pieces(plain(row["text"]))))
        mentions[made] = Mention(made, channel, datetime.fromisoformat(row["date"]), numbers, None)
        subjects[made] = frozenset(_subjects(found))
    sources = sources_of(mentions)
    posts = [
        Told(one, found.channel_id, found.posted_at, sources[one], subjects[one]) for one, found in mentions.items()
    ]
    return sorted(posts, key=lambda post: (post.posted_at, post.post_id))


async def _tag(texts: Sequence[str]) -> list[Tagged]:
    process = ModelProcess()
    try:
        tagger = LocalTagger(process, load_taxonomy())
        return [await tagger.tag(text) if len(text) >= SHORTEST else Tagged() for text in texts]
    finally:
        await process.close()


def _subjects(found: Tagged) -> Iterator[Subject]:
    yield from (Subject(Kind.PHRASE, tag.casefold()) for tag in found.tags)
    yield from (Subject(Kind.TOPIC, topic) for topic in found.topics)
    yield from (Subject(Kind.ENTITY, entity.name) for entity in found.entities)


def real_lines(posts: Sequence[Told]) -> Iterator[str]:
    """What was new on each of the last days."""
    memory = Memory()
    last = posts[-1].posted_at.replace(hour=0, minute=0, second=0, microsecond=0)
    yield "| day | new | score | mentions | usually | channels | with it |"
    yield "|---|---|---|---|---|---|---|"
    for back in reversed(range(REAL_DAYS)):
        window = Window(last - back * DAY)
        old = {post.channel_id for post in posts if post.posted_at < window.start - LEAST_DAYS * DAY}
        found = Looker([post for post in posts if post.channel_id in old]).look(window)
        for trend in memory.new(found, window):
            others = ", ".join(subject.key for subject in trend.subjects[1:5])
            main = trend.main
            yield (
                f"| {window.start:%Y-%m-%d} | {main.subject.key} | {main.score:.1f} | {main.mentions} |"
                f" {main.expected:.2f} | {trend.channels} | {others} |"
            )


def _sizes(tally: Tally) -> str:
    return ", ".join(
        f"{size} channels {tally.found[size]}/{tally.planted[size]}" for size in SIZES if tally.planted[size]
    )


def run() -> list[Figure]:
    days, hours = Tally(), Tally()
    for seed in WORLDS:
        world = make_world(seed)
        daily(days, world)
        if seed in HOURLY_WORLDS:
            emerging(hours, world)
    looks, same, seconds = asyncio.run(stored())
    lines = [
        "# Trends",
        "",
        f"{len(WORLDS)} worlds, {days.looks} midnights, {days.planted.total()} planted bursts. Found: {_sizes(days)}.",
        f"Reported though nothing was planted: {', '.join(sorted(days.wrong)) or 'nothing'}.",
        "",
        f"Every quarter of an hour ({len(HOURLY_WORLDS)} worlds, {hours.looks:,} looks): {_sizes(hours)};",
        f"found {median(hours.delays):.0f} minutes after the burst began (median).",
        f"Reported besides: {', '.join(sorted(hours.wrong)) or 'nothing'}.",
        "",
        f"Through PostgreSQL: {same} of {looks} looks with the same result, {1000 * seconds:.0f} ms each.",
        "",
    ]
    if posts := real_posts():
        lines += [f"Real posts ({len(posts):,} of twelve channels): what was new.", "", *real_lines(posts), ""]
    else:
        print("no file of real posts (TGA_NEWS12): only worlds are looked at")
    text = "\n".join(lines)
    (RESULTS / "trends.md").write_text(text, encoding="utf-8")
    print(text)
    return [
        Figure("trends_precision", days.precision, "share of what was reported", 1.0),
        Figure("trends_recall", days.recall, "share of planted bursts, within a day", 1.0),
        Figure("trends_emerging_precision", hours.precision, "share of what was reported", 1.0),
        Figure("trends_emerging_recall", hours.recall, "share of planted bursts", 1.0),
        Figure("trends_emerging_delay", median(hours.delays), "minutes, of a day", 1440.0),
        Figure("trends_same_through_postgres", same, "looks, of all", float(looks)),
    ]
