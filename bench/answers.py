"""Does search understand words as people type them, and does it say "nothing" when there is nothing?

On the real posts of `corpus.py` (TGA_NEWS12), through `Search` itself with the local models. Misspelt names and names
in the other alphabet must find what the right spelling finds; nonsense must find nothing. The words stand in
`answers.toml`, so that anybody can dispute them: every second one was tuned on, the others are reported.
"""

from __future__ import annotations

import asyncio
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID

from bench.corpus import RealPost, real_posts
from bench.engines import Engines, started_engines
from bench.figure import RESULTS, Figure
from bench.retrieval import AT_ONCE, Matrix, embedded
from telegram_assistant.ai.local.provider import LocalEmbedder, ModelProcess
from telegram_assistant.domain.access import SYSTEM_TENANT, SYSTEM_USER
from telegram_assistant.domain.post import post_id
from telegram_assistant.index.edge_vectors import EdgeVectors
from telegram_assistant.index.vectors import Model, Point
from telegram_assistant.language.documents import Source, make_document, parts_of
from telegram_assistant.language.inflection import Inflection
from telegram_assistant.language.lexemes import Lexicon
from telegram_assistant.search.planning import Meaning
from telegram_assistant.search.service import Search
from telegram_assistant.stores.postgres.database import raw_transaction
from telegram_assistant.stores.postgres.search import SearchDocuments
from telegram_assistant.wiring.models import open_search

SYSTEM = UUID(SYSTEM_TENANT)
WORDS = Path(__file__).with_suffix(".toml")
FIRST = 10  # posts that are compared
ENOUGH = 8  # of them


@dataclass(frozen=True)
class Spelt:
    """What somebody typed, what is right, and how many of the first posts are the same."""

    typed: str
    right: str
    same: int
    of: int

    @property
    def good(self) -> bool:
        return self.of > 0 and self.same >= ENOUGH * self.of / FIRST


async def fill(engines: Engines, posts: Sequence[RealPost], vectors: EdgeVectors, model: Model, made: Matrix) -> None:
    """As ingest and indexing leave them."""
    documents, lexicon = SearchDocuments(engines.database), Lexicon(Inflection())
    channels = sorted({(post.channel_id, post.channel) for post in posts})
    async with raw_transaction(engines.database) as connection:
        await connection.executemany("INSERT INTO channels (id, title) VALUES ($1, $2)", channels)
        await connection.executemany(
            "INSERT INTO subscriptions (tenant_id, user_id, channel_id) VALUES ($1, $2, $3)",
            [(SYSTEM, UUID(SYSTEM_USER), number) for number, _ in channels],
        )
        rows = [
            (post_id(one.channel_id, one.message_id), one.channel_id, one.message_id, one.posted_at, one.text, "")
            for one in posts
        ]
        columns = ("id", "channel_id", "message_id", "posted_at", "text", "content_hash")
        await connection.copy_records_to_table("posts", records=rows, columns=columns)
    await vectors.open(SYSTEM, model)
    for start in range(0, len(posts), AT_ONCE):
        some = range(start, min(len(posts), start + AT_ONCE))
        await documents.put([make_document(_source(posts[at]), lexicon) for at in some])
        await vectors.put(SYSTEM, model, [_point(posts[at], made[at]) for at in some])
    await documents.count_terms()


def _source(post: RealPost) -> Source:
    return Source(
        post_id=post_id(post.channel_id, post.message_id),
        channel_id=post.channel_id,
        posted_at=post.posted_at,
        text=post.text,
        parts=parts_of([("A", post.text)]),
        language="ru",
    )


def _point(post: RealPost, vector: Matrix) -> Point:
    return Point(
        post_id=post_id(post.channel_id, post.message_id),
        vector=vector.tolist(),
        text_hash="",
        channel_id=post.channel_id,
        posted_at=post.posted_at,
        language="ru",
    )


async def first(search: Search, query: str) -> list[UUID]:
    return [hit.post.post_id for hit in (await search.search(SYSTEM, query, limit=FIRST)).hits]


async def spelling(search: Search, pairs: Sequence[Sequence[str]]) -> list[Spelt]:
    found = []
    for typed, right in pairs:
        got, wanted = await first(search, typed), await first(search, right)
        found.append(Spelt(typed, right, len(set(got) & set(wanted)), len(wanted)))
    return found


async def _measure() -> list[Figure]:
    posts = real_posts()
    if not posts:
        print("no file of real posts (TGA_NEWS12): nothing to search in")
        return []
    words = tomllib.loads(WORDS.read_text(encoding="utf-8"))
    model, made = await embedded([post.text for post in posts])
    process = ModelProcess()
    async with started_engines() as engines:
        with TemporaryDirectory(prefix="tga-bench-") as folder:
            vectors = EdgeVectors(Path(folder) / "vectors")
            try:
                await fill(engines, posts, vectors, model, made)
                meaning = Meaning(vectors, LocalEmbedder(process), patience=60)
                search = open_search(engines.database, clock=lambda: datetime.now(UTC), meaning=meaning)
                spelt = await spelling(search, words["spelling"]["pairs"])
                silly = {one: len(await first(search, one)) for one in words["nonsense"]["queries"]}
            finally:
                await vectors.close()
                await process.close()
    _write(spelt, silly)
    reported, refused = spelt[1::2], list(silly.values())[1::2]
    return [
        Figure("answers_spelling", sum(one.good for one in reported), "queries", len(reported)),
        Figure("answers_nonsense_refused", sum(not count for count in refused), "queries", len(refused)),
    ]


def _write(spelt: Sequence[Spelt], silly: dict[str, int]) -> None:
    lines = ["# Words as people type them", ""]
    for name, some in (("tuned on", spelt[::2]), ("reported", spelt[1::2])):
        lines.append(f"- {name}: {sum(one.good for one in some)} of {len(some)} find at least {ENOUGH} of the same ten")
    for name, counts in (("tuned on", list(silly.values())[::2]), ("reported", list(silly.values())[1::2])):
        lines.append(f"- nonsense, {name}: {sum(not one for one in counts)} of {len(counts)} find nothing")
    lines += ["", "| typed | right | the same of the first ten |", "|---|---|---:|"]
    lines += [
        f"| {one.typed} | {one.right} | {one.same} of {one.of}{'' if one.good else ' **(no)**'} |" for one in spelt
    ]
    lines += ["", "| nonsense | found |", "|---|---:|", *(f"| {one} | {count} |" for one, count in silly.items()), ""]
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "answers.md").write_text("\n".join(lines), encoding="utf-8")
    print("\n".join(lines))


def run() -> list[Figure]:
    """Misspelt and foreign names find what the right ones find; nonsense finds nothing."""
    return asyncio.run(_measure())
