"""How long a search takes among many posts, beside what the engines themselves take for the same.

TGA_BENCH_POSTS posts (20,000; the promise is for 1,000,000) and TGA_BENCH_VECTORS vectors (20,000; the promise is for
200,000). The posts are made of sentences of the file TGA_NEWS12 (`corpus.py`).
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID

import numpy as np
from sqlalchemy.ext.asyncio import AsyncEngine

from bench.corpus import CHANNELS, FIRST_DAY, SPAN, TAGS, Crowd, real_texts
from bench.engines import started_engines
from bench.figure import RESULTS, Figure
from telegram_assistant.domain.access import SYSTEM_TENANT
from telegram_assistant.domain.query import parse_query
from telegram_assistant.index.edge_shard import EdgeShard
from telegram_assistant.index.edge_tenant import Generations
from telegram_assistant.index.edge_vectors import EdgeVectors
from telegram_assistant.index.vectors import Model, Point, Where
from telegram_assistant.language.documents import Source, make_document, parts_of
from telegram_assistant.language.inflection import Inflection
from telegram_assistant.language.lexemes import Lexicon, all_of, pieces
from telegram_assistant.language.plan import keys_of, make_plan
from telegram_assistant.search.planning import but_not
from telegram_assistant.search.ranking import rank
from telegram_assistant.search.service import WINDOW
from telegram_assistant.stores.postgres.database import raw_transaction
from telegram_assistant.stores.postgres.search import SearchDocuments, with_stories
from telegram_assistant.wiring.models import open_search
from telegram_assistant.wiring.runtime import utc_now

QUERIES = 120
WARM = 40  # queries before the clock runs
SIZE, CLUSTERS, SPREAD = 768, 400, 0.6
OWNER = UUID(int=1)
SYSTEM = UUID(SYSTEM_TENANT)
PROMISED = 50.0  # milliseconds
STORY = 1.0  # millisecond of CPU
MILLION = 1_000_000
DENSE = 20_000  # posts among which stories are measured: two weeks of a million
PLACED, BATCH = 2_000, 20  # posts that are given their stories, at once
FILTERS = ("has:photo", "has:photo lang:ru", f"tag:{TAGS[0]}", "after:2025-06-01", "channel:@channel_2", "-has:album")
# What one would write by hand: all words, the first filter, the best ten by PostgreSQL's own rank.
PLAIN = """
SELECT post_id FROM search_documents WHERE words @@ $1::text::tsquery AND has @> '{photo}' AND NOT deleted
ORDER BY ts_rank(words, $1::text::tsquery) DESC LIMIT 10
"""


class Watch:
    """Milliseconds of something, many times."""

    def __init__(self) -> None:
        self._times: list[float] = []

    async def time(self, work: Callable[[], Awaitable[object]]) -> None:
        began = time.perf_counter()
        await work()
        self._times.append(1000 * (time.perf_counter() - began))

    def share(self, share: float) -> float:
        times = sorted(self._times[WARM:])
        return times[min(len(times) - 1, int(share * len(times)))]


async def text_speed(posts: int) -> tuple[list[Figure], list[str]]:
    """Three words and a filter."""
    texts = real_texts()
    if not texts:
        return [], ["There was no file of real posts (TGA_NEWS12): the speed of full text was not measured."]
    lexicon = Lexicon(Inflection())
    async with started_engines() as engines:
        crowd = Crowd(texts, lexicon)
        await crowd.fill(engines.database, posts)
        await SearchDocuments(engines.database).count_terms()
        watches = await _text_watches(engines.database, crowd, lexicon)
    names = {
        "ranked": "posts found and ranked",
        "whole": "with snippets, stories and facets",
        "plain": "PostgreSQL alone",
    }
    lines = [
        f"Three words and a filter among {posts:,} posts of {CHANNELS} channels, p50 and p95 in ms (promised: p95 under"
        f" {PROMISED:.0f} at 1,000,000): "
        + "; ".join(
            f"{title} {watches[name].share(0.5):.1f}, {watches[name].share(0.95):.1f}" for name, title in names.items()
        )
        + ".",
    ]
    ours, whole, bare = (watches[name].share(0.95) for name in names)
    return [
        Figure("search_text_p95", ours, "ms, of PostgreSQL alone", bare),
        Figure("search_whole_p95", whole, "ms, of at most", PROMISED),
    ], lines


async def story_cost(posts: int) -> tuple[list[Figure], list[str]]:
    """CPU of giving a post its story, in batches as indexing has them.

    It is compared with posts of the days beside it. So the posts come as close upon each other as MILLION of them do.
    """
    texts, lexicon = real_texts(), Lexicon(Inflection())
    if not texts:
        return [], ["There was no file of real posts (TGA_NEWS12): the cost of stories was not measured."]
    span, used = SPAN * min(posts, MILLION) / MILLION, 0.0
    async with started_engines() as engines:
        await Crowd(texts, lexicon, span=span).fill(engines.database, posts)
        await SearchDocuments(engines.database).count_terms()
        rarity = await SearchDocuments(engines.database).rarity()
        moments = [FIRST_DAY + span * at / PLACED for at in range(PLACED)]
        made = [_telling(at, text, moment) for at, (text, moment) in enumerate(zip(texts, moments, strict=False))]
        documents = [make_document(source, lexicon, rarity) for source in made]
        for start in range(0, len(documents), BATCH):
            ours, theirs = time.process_time(), engines.postgres_cpu()
            async with raw_transaction(engines.database) as connection:
                await with_stories(connection, documents[start : start + BATCH])
            used += time.process_time() - ours + engines.postgres_cpu() - theirs
    story = 1000 * used / len(documents)
    line = (
        f"Giving a post its story among posts as dense as {MILLION:,} of two years ({posts:,} in {span.days} days) took"
        f" {story:.2f} ms of CPU, ours and PostgreSQL's (at most {STORY:.0f})."
    )
    return [Figure("search_story_cpu", story, "CPU-ms a post, of at most", STORY)], [line]


def _telling(number: int, text: str, moment: datetime) -> Source:
    own = UUID(int=number + 1)
    return Source(post_id=own, channel_id=1, posted_at=moment, text=text, parts=parts_of([("A", text)]))


async def _text_watches(database: AsyncEngine, crowd: Crowd, lexicon: Lexicon) -> dict[str, Watch]:
    documents = SearchDocuments(database)
    search = open_search(database, clock=utc_now, lexicon=lexicon)
    watches = {name: Watch() for name in ("ranked", "whole", "plain")}
    now = FIRST_DAY + SPAN
    for number in range(WARM + QUERIES):
        words, narrowed = crowd.words(3), FILTERS[number % len(FILTERS)]
        text = f"{' '.join(words)} {narrowed}"
        channels = [2] if "channel:" in narrowed else list(range(1, CHANNELS + 1))

        async def ranked(text: str = text, channels: list[int] = channels) -> None:
            query = parse_query(text, now=now)
            counts = await documents.counts(sorted(keys_of(query, lexicon)))
            plan = make_plan(query, lexicon, counts, channels)
            found = await documents.newest(plan, limit=WINDOW)
            rank(found, [scored.worth for scored in plan.scored], {})

        every = all_of([f"'{lexicon.lemmas(word)[0]}'" for one in words for word in pieces(one)])

        async def plain(query: str = every) -> None:
            async with raw_transaction(database) as connection:
                await connection.fetch(PLAIN, query)

        await watches["ranked"].time(ranked)
        await watches["plain"].time(plain)
        await watches["whole"].time(lambda text=text: search.search(SYSTEM, text, limit=10))  # type: ignore[misc]  # text
    return watches


async def vector_speed(count: int) -> tuple[list[Figure], list[str]]:
    """The nearest of vectors that lie in clusters, as those of posts do; and the engine asked directly."""
    rng = np.random.default_rng(7)
    centres = rng.standard_normal((CLUSTERS, SIZE)).astype(np.float32)
    model = Model("bench", SIZE)

    def some(number: int) -> list[list[float]]:
        spread = SPREAD * rng.standard_normal((number, SIZE)).astype(np.float32)
        vectors = centres[rng.integers(CLUSTERS, size=number)] + spread
        found: list[list[float]] = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).tolist()
        return found

    asked = some(WARM + QUERIES)
    where = but_not(Where(), ())  # as for a user who sees all channels
    ours, bare = Watch(), Watch()
    with TemporaryDirectory(prefix="tga-bench-") as folder:
        index = EdgeVectors(Path(folder) / "vectors")
        await index.open(OWNER, model)
        for start in range(0, count, 1000):
            numbers = range(start, min(count, start + 1000))
            points = [_point(number, vector) for number, vector in zip(numbers, some(len(numbers)), strict=True)]
            await index.put(OWNER, model, points)
        await index.settle()
        for vector in asked:
            await ours.time(lambda vector=vector: index.search(OWNER, vector, limit=200, where=where))  # type: ignore[misc]  # vector
        await index.close()
        shard = EdgeShard.load(Generations(Path(folder) / "vectors" / str(OWNER)).where(model))

        async def alone(vector: list[float]) -> None:
            shard.search(vector, 200, where)

        for vector in asked:
            await bare.time(lambda vector=vector: alone(vector))  # type: ignore[misc]  # vector
        shard.close()
    line = (
        f"The 200 nearest of {count:,} vectors of {CHANNELS} channels, p50 and p95 in ms (promised: p95 under"
        f" {PROMISED:.0f} at 200,000): {ours.share(0.5):.1f}, {ours.share(0.95):.1f};"
        f" Qdrant Edge alone {bare.share(0.5):.1f}, {bare.share(0.95):.1f}."
    )
    return [Figure("search_vector_p95", ours.share(0.95), "ms, of Qdrant Edge alone", bare.share(0.95))], [line]


def _point(number: int, vector: list[float]) -> Point:
    return Point(
        post_id=UUID(int=number + 1),
        vector=vector,
        text_hash="",
        channel_id=number % CHANNELS + 1,
        posted_at=FIRST_DAY + timedelta(minutes=number),
        language="ru",
    )


async def _run() -> list[Figure]:
    posts = int(os.environ.get("TGA_BENCH_POSTS", "20000"))
    parts = [await text_speed(posts), await story_cost(min(posts, DENSE))]
    parts.append(await vector_speed(int(os.environ.get("TGA_BENCH_VECTORS", "20000"))))
    text = "\n\n".join(("# Search: how fast it is", *(line for _, lines in parts for line in lines))) + "\n"
    (RESULTS / "searching.md").write_text(text, encoding="utf-8")
    print(text)
    return [figure for figures, _ in parts for figure in figures]


def run() -> list[Figure]:
    return asyncio.run(_run())
