"""Does search find the paragraph that answers a question, among 11,000 posts?

Russian, English, and English questions to Russian paragraphs: by words alone, by meaning alone, by both. Then the same
among news only (`in_domain.py`). The files are those of `corpus.py`; without them there is nothing to measure, and it
says so. Every second question was tuned on (decisions 0012 and 0019), so the others are the proof. Vectors of the posts
are kept in the temporary folder, because making them takes minutes.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.ext.asyncio import AsyncEngine

from bench.corpus import Questions, questions, real_posts
from bench.engines import started_engines
from bench.figure import RESULTS, Figure
from bench.in_domain import cut_posts, english_queries
from telegram_assistant.ai.local.provider import LocalEmbedder, ModelProcess
from telegram_assistant.domain.post import post_id
from telegram_assistant.domain.query import Query, parse_query
from telegram_assistant.index.edge_vectors import EdgeVectors
from telegram_assistant.index.vectors import Model, Point, Where
from telegram_assistant.language.clean import has_cyrillic
from telegram_assistant.language.documents import Candidate, Document, Source, make_document, parts_of
from telegram_assistant.language.inflection import Inflection
from telegram_assistant.language.lexemes import Lexicon
from telegram_assistant.language.plan import keys_of, make_plan
from telegram_assistant.language.translation import Translations
from telegram_assistant.search.planning import FEW_WORDS, FLOORS, NEAREST, translated
from telegram_assistant.search.ranking import Scale, rank, scale_of
from telegram_assistant.search.service import WINDOW
from telegram_assistant.stores.postgres.database import raw_transaction
from telegram_assistant.stores.postgres.search import SearchDocuments

Matrix = NDArray[np.float32]
NOW = datetime(2026, 1, 1, tzinfo=UTC)
OWNER = UUID(int=1)
WORKERS = 2
AT_ONCE = 200
RUSSIAN, ENGLISH, OTHERS, CUT, RESTS = 1, 2, 3, 4, 5  # channels: of the cut posts also what follows the first sentence
WAYS = ("words", "meaning", "both")


@dataclass(frozen=True, slots=True)
class Measured:
    """Of one way to search, over all questions, and over those that were not tuned on."""

    recall: float
    ndcg: float
    reported: float  # nDCG


@dataclass(frozen=True, slots=True)
class Trial:
    """Questions to some channels, each with the posts of which one is right."""

    channels: tuple[int, ...]
    asked: list[tuple[str, list[UUID]]]


class Library:
    """All texts, in the full-text index and in the vector index."""

    def __init__(self, database: AsyncEngine, vectors: EdgeVectors, model: Model) -> None:
        self._database = database
        self._documents = SearchDocuments(database)
        self._vectors = vectors
        self._model = model
        self._lexicon = Lexicon(Inflection())
        self._translations = Translations()

    async def fill(self, texts: dict[int, list[str]], vectors: dict[int, Matrix]) -> None:
        async with raw_transaction(self._database) as connection:
            for channel, found in texts.items():
                await connection.execute("INSERT INTO channels (id, title) VALUES ($1, '')", channel)
                rows = [(post_id(channel, at + 1), channel, at + 1, _when(at), "", "") for at in range(len(found))]
                columns = ("id", "channel_id", "message_id", "posted_at", "text", "content_hash")
                await connection.copy_records_to_table("posts", records=rows, columns=columns)
        await self._vectors.open(OWNER, self._model)
        for channel, found in texts.items():
            for start in range(0, len(found), AT_ONCE):
                some = range(start, min(len(found), start + AT_ONCE))
                await self._documents.put([self._document(channel, at, found[at]) for at in some])
                await self._vectors.put(OWNER, self._model, [_point(channel, at, vectors[channel][at]) for at in some])
        await self._documents.count_terms()

    def _document(self, channel: int, at: int, text: str) -> Document:
        source = Source(
            post_id=post_id(channel, at + 1),
            channel_id=channel,
            posted_at=_when(at),
            text=text,
            parts=parts_of([("A", text)]),
            language="en" if channel == ENGLISH else "ru",
        )
        return make_document(source, self._lexicon)

    async def ask(self, question: str, vector: Sequence[float], channels: tuple[int, ...]) -> dict[str, list[UUID]]:
        """The ten best by each way, as `Search` finds them."""
        query = parse_query(question, now=NOW)
        counts = await self._documents.counts(sorted(keys_of(query, self._lexicon)))
        query = translated(query, self._translations, self._lexicon, counts)
        counts = await self._documents.counts(sorted(keys_of(query, self._lexicon)))
        plan = make_plan(query, self._lexicon, counts, channels)
        found = await self._documents.newest(plan, limit=WINDOW)
        worths = [scored.worth for scored in plan.scored]
        by_words = [one.candidate.post_id for one in rank(found, worths, {})[:10]]
        nearest = await self._vectors.search(OWNER, vector, limit=NEAREST, where=Where(channels=channels))
        near = {one.post_id: one.score for one in nearest}
        known = {one.post_id for one in found}
        found += await self._documents.fitting(plan, [one for one in near if one not in known])
        scale = self._scale(found, worths, near, query)
        both = [one.candidate.post_id for one in rank(found, worths, near, scale)[:10]]
        return {"words": by_words, "meaning": list(near)[:10], "both": both}

    def _scale(
        self, found: Sequence[Candidate], worths: Sequence[float], near: dict[UUID, float], query: Query
    ) -> Scale:
        floor = FLOORS.get(self._model.name.split("|")[1]) if len(query.words.split()) <= FEW_WORDS else None
        cyrillic = has_cyrillic(query.words)
        return scale_of(found, worths, near, floor, cyrillic=cyrillic, translated=query.translated)

    async def measure(self, trial: Trial) -> dict[str, Measured]:
        places: dict[str, list[int | None]] = {way: [] for way in WAYS}
        _, vectors = await embedded([question for question, _ in trial.asked])
        for (question, right), vector in zip(trial.asked, vectors, strict=True):
            for way, found in (await self.ask(question, vector.tolist(), trial.channels)).items():
                places[way].append(next((place for place, one in enumerate(found) if one in right), None))
        return {way: _measured(found) for way, found in places.items()}


def _measured(places: Sequence[int | None]) -> Measured:
    recall = sum(place is not None for place in places) / len(places)
    return Measured(recall, _ndcg(places), _ndcg(places[1::2]))


def _ndcg(places: Sequence[int | None]) -> float:
    return sum(1 / math.log2(2 + place) for place in places if place is not None) / len(places)


def _when(at: int) -> datetime:
    return NOW - timedelta(minutes=at)


def _point(channel: int, at: int, vector: Matrix) -> Point:
    return Point(
        post_id=post_id(channel, at + 1),
        vector=vector.tolist(),
        text_hash="",
        channel_id=channel,
        posted_at=_when(at),
    )


async def embedded(texts: Sequence[str]) -> tuple[Model, Matrix]:
    """By the local model, once for the same texts."""
    processes = [ModelProcess() for _ in range(WORKERS)]
    embedder = LocalEmbedder(processes[0])
    model = Model(str(embedder.identity), embedder.size)
    key = blake2b(repr((model, *texts)).encode(), digest_size=10).hexdigest()
    kept = Path(gettempdir()) / f"tga-bench-vectors-{key}.npy"
    if kept.exists():
        return model, np.load(kept)
    step = math.ceil(len(texts) / WORKERS)
    pieces = [texts[start : start + step] for start in range(0, len(texts), step)]
    try:
        found = await asyncio.gather(
            *(LocalEmbedder(one).embed(piece) for one, piece in zip(processes, pieces, strict=False))
        )
    finally:
        for process in processes:
            await process.close()
    vectors = np.array([vector for one in found for vector in one.vectors], np.float32)
    np.save(kept, vectors)
    return model, vectors


async def quality(database: AsyncEngine) -> dict[str, dict[str, Measured]]:
    """By trial and way; nothing without the files."""
    russian, english, posts = questions("ru"), questions("en"), real_posts()
    if russian is None or english is None or not posts:
        print("no files of questions and posts (TGA_RETRIEVAL_RU, TGA_RETRIEVAL_EN, TGA_NEWS12): nothing to find")
        return {}
    news = [post.text for post in posts]
    model, of_news = await embedded(news)
    cut = cut_posts(news, of_news)
    places = _places(len(news), [one.place for one in cut])
    texts = {RUSSIAN: russian.paragraphs, ENGLISH: english.paragraphs, RESTS: [one.rest for one in cut]}
    vectors = {channel: (await embedded(found))[1] for channel, found in texts.items()}
    for channel in (OTHERS, CUT):
        own = [place for place, (where, _) in enumerate(places) if where == channel]
        texts[channel], vectors[channel] = [news[place] for place in own], of_news[own]
    ids = [post_id(channel, at + 1) for channel, at in places]
    by_hand = [(query, [ids[place] for place in right]) for query, right in english_queries(posts)]
    trials = {
        "ru": Trial((RUSSIAN, OTHERS, CUT), _asked(russian, RUSSIAN)),
        "en": Trial((ENGLISH, OTHERS, CUT), _asked(english, ENGLISH)),
        "en_to_ru": Trial((RUSSIAN, OTHERS, CUT), _asked(english, RUSSIAN)),
        "news": Trial((RESTS, OTHERS), [(one.first, [post_id(RESTS, at + 1)]) for at, one in enumerate(cut)]),
        "news_en_to_ru": Trial((OTHERS, CUT), by_hand),
    }
    with TemporaryDirectory(prefix="tga-bench-") as folder:
        index = EdgeVectors(Path(folder) / "vectors")
        try:
            library = Library(database, index, model)
            await library.fill(texts, vectors)
            return {name: await library.measure(trial) for name, trial in trials.items()}
        finally:
            await index.close()


def _asked(asked: Questions, channel: int) -> list[tuple[str, list[UUID]]]:
    return [(question, [post_id(channel, paragraph + 1)]) for question, paragraph in asked.asked]


def _places(count: int, cut: Sequence[int]) -> list[tuple[int, int]]:
    """For each post its channel, and its place there."""
    chosen, numbers = set(cut), {OTHERS: 0, CUT: 0}
    places = []
    for place in range(count):
        channel = CUT if place in chosen else OTHERS
        places.append((channel, numbers[channel]))
        numbers[channel] += 1
    return places


def _write(found: dict[str, dict[str, Measured]]) -> None:
    lines = [
        "# Search: what it finds",
        "",
        "| questions | by | recall@10 | nDCG@10 | not tuned on |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {name} | {way} | {one.recall:.4f} | {one.ndcg:.4f} | {one.reported:.4f} |"
        for name, ways in found.items()
        for way, one in ways.items()
    ]
    text = "\n".join((*lines, ""))
    (RESULTS / "retrieval.md").write_text(text, encoding="utf-8")
    print(text)


def _figures(found: dict[str, dict[str, Measured]]) -> list[Figure]:
    figures = []
    for name, ways in found.items():
        words, meaning, both = (ways[way] for way in WAYS)
        unit = "of the better one alone"
        figures += [
            Figure(f"retrieval_{name}_recall_at_10", both.recall, unit, max(words.recall, meaning.recall)),
            Figure(f"retrieval_{name}_ndcg_at_10", both.ndcg, unit, max(words.ndcg, meaning.ndcg)),
        ]
    return figures


async def _run() -> list[Figure]:
    async with started_engines() as engines:
        found = await quality(engines.database)
    if found:
        _write(found)
    return _figures(found)


def run() -> list[Figure]:
    return asyncio.run(_run())
