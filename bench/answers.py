"""Are the answers good on real posts: search, stories, digests, trends, and questions?

On the real posts of `corpus.py` (TGA_NEWS12), through `Search` itself with the local models. Misspelt names and names
in the other alphabet must find what the right spelling finds; nonsense must find nothing. A digest must tell the events
that most channels told, the first of them must be a trend; a question must be answered from the posts, or refused.
What is right stands in `answers.toml`, `events.toml` and `questions.toml`, so that a reader can dispute it: every
second word, day and question was tuned on, the others are reported.
"""

from __future__ import annotations

import asyncio
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID

from bench.corpus import RealPost, real_posts
from bench.engines import Engines, started_engines
from bench.figure import RESULTS, Figure
from bench.news_events import Day, Event, Pairs, judged, name_posts, story_pairs, told
from bench.retrieval import AT_ONCE, Matrix, embedded
from telegram_assistant.ai.local.provider import LocalAnswerer, LocalEmbedder, LocalTagger, ModelProcess
from telegram_assistant.domain.access import SYSTEM_TENANT, SYSTEM_USER
from telegram_assistant.domain.models import Tagged
from telegram_assistant.domain.post import post_id
from telegram_assistant.domain.query import with_filter
from telegram_assistant.domain.results import Sort
from telegram_assistant.index.edge_vectors import EdgeVectors
from telegram_assistant.index.vectors import Model, Point
from telegram_assistant.language.documents import Source, make_document, parts_of
from telegram_assistant.language.inflection import Inflection
from telegram_assistant.language.lexemes import Lexicon
from telegram_assistant.language.taxonomy import load_taxonomy
from telegram_assistant.search.ask import Asking
from telegram_assistant.search.planning import Meaning
from telegram_assistant.search.service import MOST_HITS, Search
from telegram_assistant.stores.postgres.database import raw_transaction
from telegram_assistant.stores.postgres.search import SearchDocuments
from telegram_assistant.wiring.models import open_search
from telegram_assistant.wiring.runtime import utc_now

SYSTEM = UUID(SYSTEM_TENANT)
WORDS = Path(__file__).with_suffix(".toml")
QUESTIONS = Path(__file__).with_name("questions.toml")
RECOUNTED = 1_000  # posts: words are counted anew
FIRST = 10  # posts that are compared
ENOUGH = 8  # of them
NEWEST = 20  # posts with a name that are looked for by its other name
NEARLY_ALL = 0.9  # of them


@dataclass(frozen=True)
class Spelt:
    """What was typed, what is right, and how many of the first posts are the same."""

    typed: str
    right: str
    same: int
    of: int

    @property
    def good(self) -> bool:
        return self.of > 0 and self.same >= ENOUGH * self.of / FIRST


@dataclass(frozen=True)
class Named:
    """Two names, how many of the newest posts with the first are found by the second, and how many have both."""

    one: str
    other: str
    found: int
    having_both: int
    of: int

    @property
    def good(self) -> bool:
        return self.of > 0 and self.found >= NEARLY_ALL * self.of


async def fill(
    engines: Engines,
    posts: Sequence[RealPost],
    topics: Mapping[UUID, tuple[str, ...]],
    vectors: EdgeVectors,
    made: tuple[Model, Matrix],
) -> None:
    """As ingest and indexing leave them, in the order of time."""
    model, matrix = made
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
        if start % RECOUNTED == 0:
            await documents.count_terms()
            rarity = await documents.rarity()
        await documents.put([make_document(_source(posts[at], topics), lexicon, rarity) for at in some])
        await vectors.put(SYSTEM, model, [_point(posts[at], matrix[at]) for at in some])
    await documents.count_terms()


def _source(post: RealPost, topics: Mapping[UUID, tuple[str, ...]]) -> Source:
    own = post_id(post.channel_id, post.message_id)
    return Source(
        post_id=own,
        channel_id=post.channel_id,
        posted_at=post.posted_at,
        text=post.text,
        parts=parts_of([("A", post.text)]),
        language="ru",
        topics=topics.get(own, ()),
    )


async def tagged(posts: Sequence[RealPost], process: ModelProcess) -> dict[UUID, Tagged]:
    """What tagging says of the posts of judged days."""
    days, tagger = set(judged()), LocalTagger(process, load_taxonomy())
    return {
        post_id(one.channel_id, one.message_id): await tagger.tag(one.text)
        for one in posts
        if one.posted_at.astimezone(UTC).date() in days
    }


@dataclass(frozen=True)
class Question:
    """What was asked, what must stand in the answer (nothing: there is none), and what was said."""

    ask: str
    answer: tuple[str, ...]
    kind: str
    said: str

    @property
    def good(self) -> bool:
        told = self.said.casefold()
        return any(one.casefold() in told for one in self.answer) if self.answer else not told


async def questions(search: Search, process: ModelProcess) -> list[Question]:
    asking = Asking(search, LocalAnswerer(process), seconds=600)
    found = []
    for one in tomllib.loads(QUESTIONS.read_text(encoding="utf-8"))["questions"]:
        answered = await asking.ask(SYSTEM, one["ask"])
        said = answered.text if answered.answered else ""
        found.append(Question(one["ask"], tuple(one["answer"]), one["kind"], said))
    return found


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


async def _newest(search: Search, query: str, *, until: datetime | None = None) -> list[tuple[UUID, datetime]]:
    """The newest posts, as far back as `until`; without it the first ones."""
    found: list[tuple[UUID, datetime]] = []
    cursor = None
    while True:
        limit = NEWEST if until is None else MOST_HITS
        page = await search.search(SYSTEM, query, limit=limit, sort=Sort.NEWEST, by_story=False, cursor=cursor)
        found += [(hit.post.post_id, hit.post.posted_at) for hit in page.hits]
        cursor = page.cursor
        if cursor is None or until is None or found[-1][1] < until:
            return found


async def naming(search: Search, pairs: Sequence[Sequence[str]]) -> list[Named]:
    found = []
    for one, other in pairs:
        wanted = await _newest(search, f'+"{one}"')
        since = min((at for _, at in wanted), default=None)
        got, both = set(), set()
        if since is not None:
            got = {post for post, _ in await _newest(search, other, until=since)}
            both = {post for post, _ in await _newest(search, f'+"{other}"', until=since)}
        ids = {post for post, _ in wanted}
        found.append(Named(one, other, len(ids & got), len(ids & both), len(ids)))
    return found


async def clicking(search: Search, queries: Sequence[str]) -> tuple[int, int]:
    """Facets that count what clicking them finds, of all."""
    true = every = 0
    for query in queries:
        results = await search.search(SYSTEM, query)
        for kind in ("channels", "topics", "languages"):
            for facet in () if results.at_least else getattr(results.facets, kind):
                narrowed = await search.search(SYSTEM, with_filter(query, kind, facet.name or facet.value))
                true += narrowed.found == facet.posts
                every += 1
    return true, every


async def _measure() -> list[Figure]:
    posts = sorted(real_posts(), key=lambda one: one.posted_at)
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
                found = await tagged(posts, process)
                await fill(engines, posts, {key: one.topics for key, one in found.items()}, vectors, (model, made))
                last = max(post.posted_at for post in posts) + timedelta(minutes=1)
                meaning = Meaning(vectors, LocalEmbedder(process), patience=60)
                search = open_search(engines.database, clock=lambda: last, meaning=meaning)
                spelt = await spelling(search, words["spelling"]["pairs"])
                silly = {one: len(await first(search, one)) for one in words["nonsense"]["queries"]}
                # Later pages show what was indexed before the first: by the real clock.
                now = open_search(engines.database, clock=utc_now)
                named = await naming(now, words["names"]["pairs"])
                clicked = await clicking(search, [right for _, right in words["spelling"]["pairs"]][1:60:4])
                asked = await questions(search, process)
                await name_posts(engines.database, found)
                days = await told(engines.database, _advertising())
                lexicon = Lexicon(Inflection())
                pairs = story_pairs(lexicon, await SearchDocuments(engines.database).rarity())
            finally:
                await vectors.close()
                await process.close()
    _write(spelt, silly, named, clicked)
    _write_more(asked, days, pairs)
    reported, refused = spelt[1::2], list(silly.values())[1::2]
    return [
        Figure("answers_spelling", sum(one.good for one in reported), "queries", len(reported)),
        Figure("answers_other_names", sum(one.good for one in named[1::2]), "pairs", len(named[1::2])),
        Figure("answers_facets_true", clicked[0], "facets", clicked[1]),
        Figure("answers_nonsense_refused", sum(not count for count in refused), "queries", len(refused)),
        *_figures(asked[1::2], days[1::2], pairs),
    ]


def _figures(asked: Sequence[Question], days: Sequence[Day], pairs: Pairs | None) -> list[Figure]:
    have = [one for one in asked if one.answer]
    lack = [one for one in asked if not one.answer]
    tops = [one.top_is_trend for one in days if one.top_is_trend is not None]
    verdicts, stories = [one.trends_judged for one in days], sum(one.stories for one in days)
    found = [
        Figure("answers_questions_right", sum(one.good for one in have), "questions", len(have)),
        Figure("answers_questions_refused", sum(one.good for one in lack), "questions", len(lack)),
        Figure("answers_events_in_digests", _count(one.in_digest for one in days), "events", _count(_events(days))),
        Figure("answers_top_events_as_trends", sum(tops), "days", len(tops)),
        Figure("answers_trends_editors_would_name", sum(map(sum, verdicts)), "trends", _count(verdicts)),
        Figure("answers_stories_told_once", stories - sum(one.repeated for one in days), "stories", stories),
    ]
    if pairs is not None:
        found.append(Figure("answers_story_pairs_f1", 100 * pairs.f1, "percent", 100))
        found.append(Figure("answers_story_pairs_precision", 100 * pairs.precision, "percent", 100))
    return found


def _events(days: Sequence[Day]) -> Iterator[Sequence[Event]]:
    return (one.events for one in days)


def _count(some: Iterable[Sequence[object]]) -> int:
    return sum(map(len, some))


def _advertising() -> frozenset[UUID]:
    """Posts that the file calls advertising; a model said so, and not people."""
    return frozenset(post_id(one.channel_id, one.message_id) for one in real_posts() if one.topic == "advertisement")


def _write_more(asked: Sequence[Question], days: Sequence[Day], pairs: Pairs | None) -> None:
    lines = ["# Stories, digests, trends and questions", ""]
    if pairs is not None:
        lines.append(
            f"- {pairs.pairs} pairs that people judged: precision {pairs.precision:.3f}, recall {pairs.recall:.3f},"
            f" F1 {pairs.f1:.3f}"
        )
    for name, start in (("tuned on", 0), ("reported", 1)):
        some, few = days[start::2], asked[start::2]
        have, lack = [one for one in few if one.answer], [one for one in few if not one.answer]
        tops = [one.top_is_trend for one in some if one.top_is_trend is not None]
        trends, real = _count(one.trends for one in some), sum(one.trends_of_events for one in some)
        digests = f"{_count(one.in_digest for one in some)} of {_count(_events(some))} events"
        answered = f"{sum(one.good for one in have)} of {len(have)} questions answered"
        lines.append(f"- {name}: digests have {digests}, {sum(one.ads for one in some)} stories with advertising")
        lines.append(f"- {name}: the top event is a trend on {sum(tops)} of {len(tops)} days")
        verdicts, repeated = [one.trends_judged for one in some], sum(one.repeated for one in some)
        lines.append(
            f"- {name}: an editor would name {sum(map(sum, verdicts))} of {_count(verdicts)} trends that were judged;"
            f" {real} of all {trends} are among the five top events of their day"
        )
        stories = sum(one.stories for one in some)
        lines.append(f"- {name}: {repeated} of {stories} stories tell an event that another of their digest told")
        lines.append(f"- {name}: {answered}, {sum(one.good for one in lack)} of {len(lack)} without an answer refused")
    lines += ["", "| day | event that the digest lacks |", "|---|---|"]
    for day in days:
        lines += [f"| {one.day} | {one.name} |" for one in day.events if one not in day.in_digest]
    lines += ["", "| day | trends |", "|---|---|"]
    lines += [f"| {day.events[0].day} | {'; '.join(day.trends)} |" for day in days if day.events]
    lines += ["", "| question | wanted | said |", "|---|---|---|"]
    lines += [
        f"| {one.ask} | {', '.join(one.answer) or 'nothing'} | {one.said[:200] or 'nothing'} |"
        for one in asked
        if not one.good
    ]
    (RESULTS / "answers_events.md").write_text("\n".join([*lines, ""]), encoding="utf-8")
    print("\n".join(lines))


def _write(spelt: Sequence[Spelt], silly: dict[str, int], named: Sequence[Named], clicked: tuple[int, int]) -> None:
    lines = ["# Words as people type them", ""]
    for name, some in (("tuned on", spelt[::2]), ("reported", spelt[1::2])):
        lines.append(f"- {name}: {sum(one.good for one in some)} of {len(some)} find at least {ENOUGH} of the same ten")
    for name, few in (("tuned on", named[::2]), ("reported", named[1::2])):
        share = f"{sum(one.found for one in few)} of {sum(one.of for one in few)} posts"
        both = f"{sum(one.having_both for one in few)} have both names"
        lines.append(f"- other names, {name}: {sum(one.good for one in few)} of {len(few)} pairs, {share} ({both})")
    lines.append(f"- facets: {clicked[0]} of {clicked[1]} count what clicking them finds")
    for name, counts in (("tuned on", list(silly.values())[::2]), ("reported", list(silly.values())[1::2])):
        lines.append(f"- nonsense, {name}: {sum(not one for one in counts)} of {len(counts)} find nothing")
    lines += ["", "| typed | right | the same of the first ten |", "|---|---|---:|"]
    lines += [
        f"| {one.typed} | {one.right} | {one.same} of {one.of}{'' if one.good else ' **(no)**'} |" for one in spelt
    ]
    lines += ["", "| posts with | looked for by | found | have both |", "|---|---|---:|---:|"]
    lines += [
        f"| {one.one} | {one.other} | {one.found} of {one.of}{'' if one.good else ' **(no)**'} | {one.having_both} |"
        for one in named
    ]
    lines += ["", "| nonsense | found |", "|---|---:|", *(f"| {one} | {count} |" for one, count in silly.items()), ""]
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "answers.md").write_text("\n".join(lines), encoding="utf-8")
    print("\n".join(lines))


def run() -> list[Figure]:
    """Misspelt and foreign names find what the right ones find; nonsense finds nothing."""
    return asyncio.run(_measure())
