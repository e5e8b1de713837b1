"""Full text search in PostgreSQL: the documents, how a query becomes SQL, and how results are ranked."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Any
from uuid import UUID

import msgspec
from asyncpg import Connection
from msgspec import structs

from telegram_assistant.domain.query import Filters
from telegram_assistant.language.documents import (
    VERSION,
    WORDS_ONLY,
    Candidate,
    Changed,
    Document,
    channel_key,
    month_key,
)
from telegram_assistant.language.lexemes import any_of, quoted
from telegram_assistant.language.other_names import counted
from telegram_assistant.language.plan import Counts, Either, Plan, Scored
from telegram_assistant.language.stories import Rarity, Telling, keys_near, keys_of, place
from telegram_assistant.names import INDEXING
from telegram_assistant.stores.postgres.database import Store, raw_transaction

MOST_COMPARED = 200  # posts that a new one is compared with
COMMON = 5_000  # a word of one in so many documents, or of fewer, is as rare as any
SAMPLE = 20_000  # documents in which words are counted
MANY = 8_000  # where more documents than these fit, the newest months are looked through first
SPANS = (1, 3, 12)  # months
TYPICAL_SPAN = 24  # months that an archive covers: only how far the first look goes depends on it

_COLUMNS = (
    *("post_id uuid", "channel_id bigint", "posted_at timestamptz", "album_id uuid", "language text"),
    *("tags text[]", "topics text[]", "has text[]", "marks text[]", "deleted boolean", "length integer"),
    *("signature bytea", "outline bytea", "words tsvector", "forms tsvector", "digest text", "version integer"),
    "story_id uuid",
)
_NAMES = tuple(column.split()[0] for column in _COLUMNS)
_NEW = ", ".join([*(f"{name} = excluded.{name}" for name in _NAMES[1:]), "changed_at = clock_timestamp()"])
# A post that was deleted meanwhile has no document; the row is locked against it until we are done. $3, where it is
# given: only over documents that still are made from that.
_PUT = f"""
INSERT INTO search_documents AS d ({", ".join(_NAMES)})
SELECT {", ".join(f"n.{name}" for name in _NAMES)}
FROM jsonb_to_recordset($1::jsonb) AS n({", ".join(_COLUMNS)})
WHERE n.post_id IN (SELECT p.id FROM posts p WHERE p.id = ANY($2::uuid[]) FOR KEY SHARE)
ORDER BY n.post_id
ON CONFLICT (post_id) DO UPDATE SET {_NEW}
WHERE d.digest <> excluded.digest AND ($3::text[] IS NULL OR d.digest = $3[array_position($2::uuid[], d.post_id)])
RETURNING post_id
"""
# Posts are given their stories one batch after the other: two at once could tell of the same event.
_ONE_BY_ONE = "SELECT pg_advisory_xact_lock(hashtext('stories'))"
_TELLING = "post_id, channel_id, posted_at, signature, outline, story_id"
_FORMER = f"SELECT {_TELLING} FROM search_documents WHERE post_id = ANY($1::uuid[])"
_MAY_TELL_THE_SAME = f"""
SELECT n.number, d.* FROM unnest($1::text[]) WITH ORDINALITY AS n(keys, number) CROSS JOIN LATERAL (
  SELECT {_TELLING} FROM search_documents
  WHERE forms @@ n.keys::tsquery AND NOT deleted AND story_id IS NOT NULL LIMIT {MOST_COMPARED}) d
"""
_COMPLETE = f"""
UPDATE search_documents d SET version = {VERSION}, changed_at = clock_timestamp()
FROM unnest($1::uuid[], $2::text[]) AS n(post_id, digest)
WHERE d.post_id = n.post_id AND d.digest = n.digest AND d.version = {WORDS_ONLY}
"""
_MISSING = """
SELECT s.post_id FROM post_steps s LEFT JOIN search_documents d ON d.post_id = s.post_id
WHERE s.stage = $1 AND s.outcome = 'done' AND d.version IS DISTINCT FROM $2 LIMIT $3
"""
_COUNT = """
INSERT INTO search_terms (lexeme, documents)
SELECT word, greatest(1, round(ndoc * $1::float8))::bigint FROM ts_stat($2) WHERE length(word) <= 64 AND ndoc >= $3
"""
# Of the forms as they are written those of one document only are left out: most of them are misspelt.
_COUNT_FORMS = f"{_COUNT} AND (word ~ '^(tag|topic|lang|has|is):' OR word ~ '^=' AND ndoc > 1) ON CONFLICT DO NOTHING"
_NAME = "name:"  # before an abbreviation and its full name: no word has a colon in it
_SAYS_NAMES = r"""
SELECT d.channel_id, p.text FROM {} JOIN posts p ON p.id = d.post_id
WHERE NOT d.deleted AND p.text ~ '\([A-Z\u0410-\u042f\u0401]{{2,7}}\)|[A-Z\u0410-\u042f\u0401]{{2,7}} \('
"""
_ADD_TERM = "INSERT INTO search_terms (lexeme, documents) VALUES ($1, $2) ON CONFLICT DO NOTHING"
# PostgreSQL takes all rare words for equally rare, and far too common: so ways round the index are closed to it, and
# for words the one by time.
_NEWEST = "ORDER BY posted_at DESC, post_id DESC LIMIT {}"
_NEWEST_OF_FOUND = "ORDER BY extract(epoch FROM posted_at) DESC, post_id DESC LIMIT {}"
_SETTINGS = """
SET LOCAL plan_cache_mode = force_custom_plan;
SET LOCAL jit = off;
SET LOCAL enable_seqscan = off;
SET LOCAL max_parallel_workers_per_gather = 0
"""
_FACETS = """
SELECT kind, value, count(DISTINCT n.story) AS posts FROM unnest($1::uuid[], $2::int[]) AS n(post_id, story)
JOIN search_documents d USING (post_id) CROSS JOIN LATERAL (
  SELECT 'channels' AS kind, d.channel_id::text AS value UNION ALL SELECT 'languages', d.language
  UNION ALL SELECT 'tags', unnest(d.tags) UNION ALL SELECT 'topics', unnest(d.topics)
  UNION ALL SELECT 'has', unnest(d.has)) v
WHERE value <> '' GROUP BY kind, value ORDER BY posts DESC, value
"""
_CHANGED = f"""
SELECT post_id, changed_at, indexed_at, posted_at, version <> {WORDS_ONLY} FROM search_documents
WHERE (changed_at, post_id) > ($1, $2) AND posted_at >= $3 ORDER BY changed_at, post_id LIMIT $4
"""


class SearchDocuments(Store):
    """The tables `search_documents` and `search_terms`."""

    async def known(self, post_ids: Sequence[UUID]) -> dict[UUID, tuple[str, bool]]:
        """What the documents that are there were made from, and whether they are whole."""
        statement = "SELECT post_id, digest, version FROM search_documents WHERE post_id = ANY($1::uuid[])"
        async with raw_transaction(self._database) as connection:
            rows = await connection.fetch(statement, list(post_ids))
        return {row["post_id"]: (row["digest"], row["version"] != WORDS_ONLY) for row in rows}

    async def complete(self, digests: Mapping[UUID, str]) -> None:
        """Models had nothing to add to these documents, if they still are what they were."""
        if digests:
            async with raw_transaction(self._database) as connection:
                await connection.execute(_COMPLETE, list(digests), list(digests.values()))

    async def put(self, documents: Sequence[Document], *, over: Mapping[UUID, str] | None = None) -> set[UUID]:
        """The posts whose documents changed. One that is gone from the posts gets none.

        `over`: what the documents that are there are made from; any other is left alone.
        """
        if not documents:
            return set()
        ids = [document.post_id for document in documents]
        former = None if over is None else [over.get(post_id, "") for post_id in ids]
        async with raw_transaction(self._database) as connection:
            rows = msgspec.json.encode(await with_stories(connection, documents)).decode()
            changed = await connection.fetch(_PUT, rows, ids, former)
        return {row["post_id"] for row in changed}

    async def missing(self, *, limit: int) -> list[UUID]:
        """Posts that went through indexing, and have no document of this version."""
        async with raw_transaction(self._database) as connection:
            rows = await connection.fetch(_MISSING, INDEXING, VERSION, limit)
        return [row["post_id"] for row in rows]

    async def count_terms(self) -> int:
        """Count words and filters in a sample; how many documents there are."""
        async with raw_transaction(self._database) as connection:
            total = int(await connection.fetchval("SELECT count(*) FROM search_documents WHERE NOT deleted"))
            share = min(1.0, SAMPLE / max(1, total))
            sample = f" TABLESAMPLE SYSTEM ({100 * share:.6f}) REPEATABLE (1)" if share < 1 else ""
            # What a sample shows once may be a hundred times rarer than that.
            least = 1 if share == 1 else 2
            await connection.execute("LOCK TABLE search_terms IN SHARE ROW EXCLUSIVE MODE")  # another may count too
            await connection.execute("DELETE FROM search_terms")
            for column, statement in (("words", _COUNT), ("forms", _COUNT_FORMS)):
                documents = f"SELECT {column} FROM search_documents{sample} WHERE NOT deleted"
                await connection.execute(statement, 1 / share, documents, least)
            await connection.execute("INSERT INTO search_terms (lexeme, documents) VALUES ('', $1)", total)
            said = await connection.fetch(_SAYS_NAMES.format(f"search_documents d{sample}"))
            names = await asyncio.to_thread(counted, [tuple(row) for row in said])
            rows = [(f"{_NAME}{letters}={name}", posts) for (letters, name), posts in names.items()]
            await connection.executemany(_ADD_TERM, rows)
        return total

    async def learnt_names(self) -> dict[tuple[str, str], int]:
        """Abbreviations and what posts say that they stand for, with how often."""
        statement = "SELECT lexeme, documents FROM search_terms WHERE starts_with(lexeme, $1)"
        async with raw_transaction(self._database) as connection:
            rows = await connection.fetch(statement, _NAME)
        pairs = [(row["lexeme"].removeprefix(_NAME).partition("="), row["documents"]) for row in rows]
        return {(letters, name): posts for (letters, _, name), posts in pairs}

    async def counts(self, keys: Sequence[str]) -> Counts:
        """Of words and filters."""
        statement = "SELECT lexeme, documents FROM search_terms WHERE lexeme = ANY($1::text[])"
        async with raw_transaction(self._database) as connection:
            rows = await connection.fetch(statement, ["", *keys])
        found = {row["lexeme"]: row["documents"] for row in rows}
        return Counts(found.pop("", 0), found)

    async def rarity(self) -> Rarity:
        """Of all words but the rarest, which have no number of their own."""
        statement = (
            "SELECT lexeme, documents FROM search_terms, (SELECT coalesce(max(documents), 0) AS total FROM search_terms"
            " WHERE lexeme = '') t WHERE lexeme !~ '^=' AND documents > t.total / $1"
        )
        async with raw_transaction(self._database) as connection:
            found = {row["lexeme"]: row["documents"] for row in await connection.fetch(statement, COMMON)}
        return Rarity(found.pop("", 0), found)

    async def words(self, *, limit: int) -> dict[str, int]:
        """The commonest words as they are written, and in how many documents each stands."""
        statement = (
            "SELECT substr(lexeme, 2) AS lexeme, documents FROM search_terms WHERE lexeme ~ '^=' AND length(lexeme) > 3"
            " ORDER BY documents DESC LIMIT $1"
        )
        async with raw_transaction(self._database) as connection:
            return {row["lexeme"]: row["documents"] for row in await connection.fetch(statement, limit)}

    async def newest(
        self, plan: Plan, *, limit: int, after: tuple[datetime, UUID] | None = None, as_of: datetime | None = None
    ) -> list[Candidate]:
        """Candidates, the newest first; `after`: those that come after this one, `as_of`: known at that time."""
        found: list[Candidate] = []
        async with raw_transaction(self._database) as connection:
            await connection.execute(_SETTINGS)
            until = await connection.fetchval("SELECT max(posted_at) FROM search_documents")
            if until is None:
                return []
            until = min([until, *(moment for moment in (plan.before, after and after[0]) if moment)])
            for months in _months(plan, limit, until):
                statement = Statement(plan)
                statement.look_up(months)
                _go_on(statement, after, as_of)
                order = _NEWEST_OF_FOUND if plan.by_index else _NEWEST
                rows = await connection.fetch(statement.text(order.format(int(limit))), *statement.values)
                found = [Candidate(*row) for row in rows]
                if len(found) >= limit:
                    break
        return found

    async def fitting(self, plan: Plan, post_ids: Sequence[UUID], *, as_of: datetime | None = None) -> list[Candidate]:
        """Those of these posts that fit all demands of the query but its words."""
        if not post_ids:
            return []
        statement = Statement(plan)
        statement.where.append(f"post_id = ANY({statement.bind(list(post_ids), 'uuid[]')})")
        _go_on(statement, None, as_of)
        async with raw_transaction(self._database) as connection:
            await connection.execute(_SETTINGS)
            rows = await connection.fetch(statement.text(), *statement.values)
        return [Candidate(*row) for row in rows]

    async def tellers(self, plan: Plan, story_ids: Sequence[UUID], *, limit: int) -> list[Candidate]:
        """Posts of these stories, the newest first."""
        if not story_ids or not plan.channels:
            return []
        statement = Statement(plan)
        statement.where.append(f"story_id = ANY({statement.bind(list(story_ids), 'uuid[]')})")
        async with raw_transaction(self._database) as connection:
            await connection.execute(_SETTINGS)
            rows = await connection.fetch(statement.text(_NEWEST_OF_FOUND.format(int(limit))), *statement.values)
        return [Candidate(*row) for row in rows]

    async def matching(self, plan: Plan, post_ids: Sequence[UUID]) -> list[Candidate]:
        """Those of these posts that have all words of the query, too."""
        if not post_ids or not plan.channels:
            return []
        statement = Statement(replace(plan, ways=plan.ways[:1], scored=()))
        statement.where.append(f"post_id = ANY({statement.bind(list(post_ids), 'uuid[]')})")
        statement.look_up([])
        async with raw_transaction(self._database) as connection:
            await connection.execute(_SETTINGS)
            rows = await connection.fetch(statement.text("ORDER BY posted_at, post_id"), *statement.values)
        return [Candidate(*row) for row in rows]

    async def changed(
        self, since: datetime, *, posted_after: datetime, after: Changed | None, limit: int
    ) -> list[Changed]:
        """Documents that were written since then, in that order; `after`: those that come after this one."""
        async with raw_transaction(self._database) as connection:
            moment, post_id = (after.changed_at, after.post_id) if after else (since, UUID(int=0))
            rows = await connection.fetch(_CHANGED, moment, post_id, posted_after, limit)
        return [Changed(*row) for row in rows]

    async def last_change(self) -> datetime | None:
        async with raw_transaction(self._database) as connection:
            found: datetime | None = await connection.fetchval("SELECT max(changed_at) FROM search_documents")
        return found

    async def facets(self, stories: Sequence[Sequence[UUID]]) -> dict[str, list[tuple[str, int]]]:
        """By kind the values of the posts of these stories, the commonest first, and how many stories have each."""
        posts = [(post_id, number) for number, story in enumerate(stories) for post_id in story]
        found: dict[str, list[tuple[str, int]]] = defaultdict(list)
        async with raw_transaction(self._database) as connection:
            for row in await connection.fetch(_FACETS, [one for one, _ in posts], [number for _, number in posts]):
                found[row["kind"]].append((row["value"], row["posts"]))
        return dict(found)


async def with_stories(connection: Connection, documents: Sequence[Document]) -> list[Document]:
    """Each with the story that it tells."""
    await connection.execute(_ONE_BY_ONE)
    await connection.execute(_SETTINGS)
    ids = [one.post_id for one in documents]
    former = {row["post_id"]: Telling(*row) for row in await connection.fetch(_FORMER, ids)}
    stories = {one.post_id: former[one.post_id].story_id for one in documents if one.deleted and one.post_id in former}
    new = sorted((one.telling() for one in documents if not one.deleted), key=lambda one: one.posted_at)
    new = [one for one in new if one.outline or one.signature]  # others say too little
    wanted = [keys_near(one) for one in new]
    near: dict[int, list[Telling]] = defaultdict(list)
    for number, *row in await connection.fetch(_MAY_TELL_THE_SAME, [any_of(map(quoted, keys)) for keys in wanted]):
        near[number].append(Telling(*row))
    placed: list[tuple[Telling, frozenset[str]]] = []
    for number, (one, keys) in enumerate(zip(new, wanted, strict=True), start=1):
        story_id = place(one, [*near[number], *_beside(keys, placed)], former.get(one.post_id))
        placed.append((replace(one, story_id=story_id), frozenset(keys_of(one))))
        stories[one.post_id] = story_id
    return [structs.replace(one, story_id=stories.get(one.post_id)) for one in documents]


def _beside(keys: Sequence[str], placed: Sequence[tuple[Telling, frozenset[str]]]) -> list[Telling]:
    """Those that may tell the same, the rarest word in common first: of stories that fit alike, that one is taken."""
    order = {key: at for at, key in reversed(list(enumerate(keys)))}
    shared = [
        (min(order[key] for key in theirs if key in order), mate)
        for mate, theirs in placed
        if not theirs.isdisjoint(keys)
    ]
    return [mate for _, mate in sorted(shared, key=itemgetter(0))]


def _go_on(statement: Statement, after: tuple[datetime, UUID] | None, as_of: datetime | None) -> None:
    if after is not None:
        moment, post_id = statement.bind(after[0], "timestamptz"), statement.bind(after[1], "uuid")
        statement.where.append(f"(posted_at, post_id) < ({moment}, {post_id})")
    if as_of is not None:
        statement.where.append(f"indexed_at <= {statement.bind(as_of, 'timestamptz')}")


def _months(plan: Plan, limit: int, until: datetime) -> Iterator[list[str]]:
    """What to look through: the newest months as long as they may be enough, then all of the time that is asked for."""
    whole = months_between(plan.since, until) if plan.since is not None and plan.by_index else []
    if plan.by_index and plan.expected > MANY:
        enough = TYPICAL_SPAN * limit / (plan.expected * plan.passing)
        for span in SPANS:
            months = months_between(until - timedelta(days=30 * span), until)
            if span >= enough and (not whole or len(months) < len(whole)):
                yield months
    yield whole


FEW_CHANNELS = 50  # so many are looked up in the index together with the words
WEIGHTS = "{0.2,0.5,0.7,1.0}"  # of a page's text, of pictures, of tags, of the post itself (D, C, B, A)
ONCE = 0.6  # what ts_rank gives for a word that stands once in the post itself, about
OTHER_NAME = 0.4  # the same for another name of what is looked for
MOST_MONTHS = 24  # that are looked up; a longer time is only checked
FOUND = ("post_id", "channel_id", "posted_at", "album_id", "length", "story_id")


class Statement:
    """Conditions that a plan makes, and the ranks that it asks for."""

    def __init__(self, plan: Plan) -> None:
        self.values: list[Any] = []
        self._plan = plan
        # Written so, indexes of channels and times cannot be asked beside that of words: they would give nearly all.
        channel = "(channel_id + 0)" if plan.by_index else "channel_id"
        moment = "(posted_at + interval '0')" if plan.by_index else "posted_at"
        self.where = [f"{channel} = ANY({self.bind(list(plan.channels), 'bigint[]')})"]
        if not plan.deleted:
            self.where.append("NOT deleted")
        if plan.since is not None:
            self.where.append(f"{moment} >= {self.bind(plan.since, 'timestamptz')}")
        if plan.before is not None:
            self.where.append(f"{moment} < {self.bind(plan.before, 'timestamptz')}")
        self.where += self._narrowing(plan.only)
        self.where += [f"NOT ({condition})" for condition in self._narrowing(plan.without, every=False)]
        self.where += map(self.fits, plan.must)
        self.where += [f"NOT {self.fits(one)}" for one in plan.must_not]
        self._ranks = [self._rank(scored) for scored in plan.scored]

    def bind(self, value: Any, kind: str) -> str:
        self.values.append(value)
        return f"${len(self.values)}::{kind}"

    def look_up(self, months: list[str]) -> None:
        """Candidates only: by the ways of the plan, in these months (none: at any time), in its channels if few."""
        if self._plan.ways:
            routes = [" AND ".join(map(self.fits, way)) for way in self._plan.ways]
            self.where.append(f"({' OR '.join(f'({route})' for route in routes)})")
        if months:
            self.where.append(self.fits(Either(forms=any_of(map(quoted, months)))))
        if self._plan.by_index and len(self._plan.channels) <= FEW_CHANNELS:
            keys = [quoted(channel_key(channel_id)) for channel_id in self._plan.channels]
            self.where.append(self.fits(Either(forms=any_of(keys))))

    def text(self, order: str = "") -> str:
        """Ranks are reckoned outside, for those that the limit leaves."""
        columns = ", ".join(FOUND)
        inner = (
            f"SELECT {columns}, language, words, forms FROM search_documents WHERE {' AND '.join(self.where)} {order}"
        )
        return f"SELECT {columns}, ARRAY[{', '.join(self._ranks)}]::real[] AS ranks, language FROM ({inner}) d"

    def fits(self, either: Either) -> str:
        found = [
            f"{column} @@ {self.bind(query, 'text')}::tsquery"
            for column, query in (("words", either.words), ("forms", either.forms))
            if query
        ]
        return f"({' OR '.join(found)})" if found else "false"

    def _narrowing(self, filters: Filters, *, every: bool = True) -> Iterator[str]:
        for column, values in (("tags", filters.tags), ("has", filters.has), ("marks", filters.marks)):
            if values:
                yield f"{column} {'@>' if every else '&&'} {self.bind(list(values), 'text[]')}"
        if filters.topics:
            yield f"topics && {self.bind(list(filters.topics), 'text[]')}"
        if filters.languages:
            yield f"language = ANY({self.bind(list(filters.languages), 'text[]')})"

    def _rank(self, scored: Scored) -> str:
        ranks: list[str] = []
        # Each by itself: ts_rank divides by the number of options, and one that fits is enough.
        for option in scored.options:
            query = f"{self.bind(option, 'text')}::tsquery"
            rank = f"ts_rank('{WEIGHTS}', words, {query})"
            # ts_rank does not look whether the words of a phrase stand side by side.
            ranks.append(f"CASE WHEN words @@ {query} THEN {rank} ELSE 0 END" if scored.phrase else rank)
        if scored.foreign:
            query = f"{self.bind(scored.foreign, 'text')}::tsquery"
            ranks.append(f"{scored.foreign_weight:.4f} * ts_rank('{WEIGHTS}', words, {query})")
        if scored.fits.forms:
            query = f"{self.bind(scored.fits.forms, 'text')}::tsquery"
            ranks.append(f"CASE WHEN forms @@ {query} THEN {ONCE} ELSE 0 END")
        if scored.others:
            ranks.append(f"CASE WHEN words @@ {self.bind(scored.others, 'text')}::tsquery THEN {OTHER_NAME} ELSE 0 END")
        return f"greatest({', '.join(ranks)})"


def months_between(since: datetime, until: datetime) -> list[str]:
    """Keys of the months from the one to the other, both included; none if there are too many to look up."""
    if until < since:
        return [month_key(since)]
    if until - since > timedelta(days=31 * MOST_MONTHS):
        return []
    days = range((until - since).days + 1)
    return list(dict.fromkeys(month_key(moment) for moment in (*(since + timedelta(days=day) for day in days), until)))
