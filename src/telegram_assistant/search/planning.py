"""A query of a tenant made ready for the indexes: in which of its channels, by which words, and near which vector."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from uuid import UUID

from telegram_assistant.ai.spend import paid_by
from telegram_assistant.domain.models import Embedder
from telegram_assistant.domain.query import Clause, Mark, Note, Query, Term, Trouble
from telegram_assistant.errors import Retry
from telegram_assistant.index.vectors import Found, Model, Vectors, Where
from telegram_assistant.language.lexemes import Lexicon
from telegram_assistant.language.other_names import OtherNames, is_plain_word
from telegram_assistant.language.plan import Counts, Plan, keys_of, make_plan
from telegram_assistant.language.spelling import Vocabulary
from telegram_assistant.language.translation import Translations
from telegram_assistant.stores.postgres.search import SearchDocuments
from telegram_assistant.stores.postgres.visible_posts import VisiblePosts

NEAREST = 200
MOST_WORDS = 200_000  # of the archive, the commonest
WORDS_SECONDS = 600.0
# By model, measured on real posts: nonsense is nearer than this to no post of some words, questions in another
# language are.
FLOORS = {"use3+lemmas-768/1": 0.25}
FEW_WORDS = 4
RARE = 0.001  # of all documents: a word of more of them is what it is
NO_CHANNEL = 0  # Telegram numbers from 1
PATIENCE = 5.0  # seconds; then a search goes by words alone


@dataclass(frozen=True, slots=True)
class Planned:
    """The plan, all channels that the tenant sees, and remarks on what was not found or is written otherwise here."""

    query: Query  # with other spellings of its words
    said: str  # to be understood by meaning, as it is written here
    plan: Plan
    visible: tuple[int, ...]
    notes: tuple[Note, ...] = ()


class Planner:
    """Makes plans. Only channels that PostgreSQL shows to the tenant ever come into one (G7)."""

    def __init__(self, documents: SearchDocuments, posts: VisiblePosts, lexicon: Lexicon) -> None:
        self._documents = documents
        self._posts = posts
        self._lexicon = lexicon
        self._vocabulary: tuple[float, Vocabulary] | None = None  # until when it holds
        self._names: tuple[float, OtherNames] | None = None
        self._translations = Translations()

    async def plan(self, tenant_id: UUID, query: Query, *, other_spellings: bool = False) -> Planned:
        """`other_spellings`: for a person who looks now. An alert may wait for a name that no post has yet."""
        names = await self._other_names()
        query = await asyncio.to_thread(names.widened, query)
        (visible, channels, notes), counts = await asyncio.gather(self._scope(tenant_id, query), self._counts(query))
        said, meant = query.words, {}
        if other_spellings:
            query = await asyncio.to_thread(translated, query, self._translations, self._lexicon, counts)
            counts = await self._counts(query) if query.translated else counts
        if other_spellings and (meant := await self._meant(query, counts, channels)):
            query, said = _with(query, meant), " ".join(meant.get(word, word) for word in said.split())
            query = await asyncio.to_thread(names.widened, query)
            counts = await self._counts(query)
            notes = (*notes, *(Note(Trouble.SPELT, other) for other in meant.values()))
        if len(said.split()) <= FEW_WORDS:
            said = said.casefold()  # a few words mean the same in capitals, and models see a difference
        plan = await asyncio.to_thread(make_plan, query, self._lexicon, counts, channels)
        return Planned(query, said, plan, visible, notes)

    async def _meant(self, query: Query, counts: Counts | None, channels: Sequence[int]) -> dict[str, str]:
        """Words that the archive hardly has, and what they may have been meant to be.

        Words are counted in the channels of all tenants: another spelling counts only if these channels have it.
        """
        counts = counts or await self._counts(query)
        doubtful = await asyncio.to_thread(_doubtful, query, self._lexicon, counts)
        if not doubtful or not channels:
            return {}
        vocabulary = await self._archive_words()
        found = {}
        for word in doubtful:
            other = await asyncio.to_thread(vocabulary.meant, word)
            if other and await self._documents.newest(self._only(other, channels), limit=1):
                found[word] = other
        return found

    async def respelt(self, words: Sequence[str], channels: Sequence[int]) -> dict[str, str]:
        """Those of these words that may have been meant otherwise, and how."""
        return await self._meant(Query(clauses=tuple(Clause((Term((word,)),)) for word in words)), None, channels)

    def _only(self, word: str, channels: Sequence[int]) -> Plan:
        return make_plan(Query(clauses=(Clause((Term((word,)),)),)), self._lexicon, Counts(), channels)

    async def _archive_words(self) -> Vocabulary:
        """Counted anew by the upkeep of the index now and then; a name of today may be missing for so long."""
        if self._vocabulary is None or self._vocabulary[0] < monotonic():
            words = await self._documents.words(limit=MOST_WORDS)
            self._vocabulary = monotonic() + WORDS_SECONDS, await asyncio.to_thread(Vocabulary, words, self._lexicon)
        return self._vocabulary[1]

    async def _other_names(self) -> OtherNames:
        if self._names is None or self._names[0] < monotonic():
            learnt = await self._documents.learnt_names()
            self._names = monotonic() + WORDS_SECONDS, await asyncio.to_thread(OtherNames, self._lexicon, learnt)
        return self._names[1]

    async def _scope(self, tenant_id: UUID, query: Query) -> tuple[tuple[int, ...], tuple[int, ...], tuple[Note, ...]]:
        visible = await self._posts.channels(tenant_id)
        names = (*query.only.channels, *query.without.channels)
        if not names:
            return visible, visible, ()
        known = await self._posts.named(tenant_id, names)
        only = {known[name] for name in query.only.channels if name in known}
        without = {known[name] for name in query.without.channels if name in known}
        wanted = only if query.only.channels else visible
        channels = tuple(one for one in visible if one in wanted and one not in without)
        return visible, channels, tuple(Note(Trouble.NO_SUCH_CHANNEL, name) for name in names if name not in known)

    async def _counts(self, query: Query) -> Counts:
        # Morphology in a thread: the first word of all loads the dictionary.
        keys = await asyncio.to_thread(keys_of, query, self._lexicon)
        return await self._documents.counts(sorted(keys))


def _doubtful(query: Query, lexicon: Lexicon, counts: Counts) -> list[str]:
    """Single words that next to no document has, or that many more may have in another spelling."""
    single = [clause for clause in query.clauses if is_plain_word(clause)]
    few = [clause for clause in single if counts.having(lexicon.wanted(clause)) <= RARE * counts.total]
    return [clause.options[0].words[0] for clause in few if counts.total]


def translated(query: Query, translations: Translations, lexicon: Lexicon, counts: Counts) -> Query:
    """Of a few words those that the archive has as they are written stay so: Apple is no fruit."""
    few = len(query.words.split()) <= FEW_WORDS
    known = [few and counts.having(lexicon.wanted(one)) > RARE * counts.total for one in query.clauses]
    return translations.widened(query, leave=[one for one, stays in zip(query.clauses, known, strict=True) if stays])


def _with(query: Query, meant: Mapping[str, str]) -> Query:
    """The same query, in which each of these words may be the other one as well; a guess needs no translation.

    With a capital letter: what people misspell is mostly a name, and names are read in more ways.
    """

    def either(clause: Clause) -> Clause:
        other = meant.get(clause.options[0].words[0]) if is_plain_word(clause) else None
        own = (term for term in clause.options if not term.foreign)
        return replace(clause, options=(*own, Term((other.capitalize(),)))) if other else clause

    return replace(query, clauses=tuple(map(either, query.clauses)))


@dataclass(frozen=True)
class Meaning:
    """Both halves of it. A process without the vector index has no Meaning."""

    vectors: Vectors
    embedder: Embedder
    nearest: int = NEAREST
    patience: float = PATIENCE

    def floor(self, words: str) -> float | None:
        """How near a post must be to mean what these words mean; None: the nearest may help in any case.

        A whole sentence says enough to be understood, and in another language none of its words is found.
        """
        return FLOORS.get(self.embedder.identity.model) if len(words.split()) <= FEW_WORDS else None

    async def near_text(self, owners: Sequence[UUID], words: str, where: Where) -> dict[UUID, float]:
        """`owners`: the one who asks comes last. Raises Retry when a model or an index is away, or too slow."""
        try:
            async with asyncio.timeout(self.patience):
                filled = await self._filled(owners)
                if not filled or not words:
                    return {}
                with paid_by([owners[-1]], purpose="search"):
                    embedded = await self.embedder.embed([words])
                return await self._near(filled, embedded.vectors[0], where)
        except TimeoutError as exc:
            raise Retry("the embedding model has too much to do") from exc

    async def near_post(self, owners: Sequence[UUID], owner: UUID, post_id: UUID, where: Where) -> dict[UUID, float]:
        """Empty where the post has no vector (yet)."""
        vector = await self.vectors.vector(owner, post_id)
        if vector is None:
            return {}
        return await self._near(await self._filled(owners), vector, replace(where, not_posts=[post_id]))

    async def _filled(self, owners: Sequence[UUID]) -> list[UUID]:
        """Those that have vectors of our model; others cannot be compared."""
        model = Model(str(self.embedder.identity), self.embedder.size)
        current = {owner: await self.vectors.current(owner) for owner in owners}
        if any(found not in (None, model) for found in current.values()):
            raise Retry("the posts are being embedded anew, by another model")
        return [owner for owner, found in current.items() if found is not None]

    async def _near(self, owners: Sequence[UUID], vector: Sequence[float], where: Where) -> dict[UUID, float]:
        if not (where.channels or where.not_channels):  # to the index that would mean all of them
            return {}
        found: list[Found] = []
        for owner in owners:
            found += await self.vectors.search(owner, vector, limit=self.nearest, where=where)
        found.sort(key=lambda one: -one.score)
        return {one.post_id: one.score for one in found[: self.nearest]}


def but_not(where: Where, hidden: Sequence[int]) -> Where:
    """The same by what is left out: a long list of channels costs the index more than the search itself."""
    return replace(where, channels=(), not_channels=(NO_CHANNEL, *hidden))


def where_of(query: Query, channels: Sequence[int]) -> Where:
    """The filters that the vector index knows; the others are checked afterwards."""
    only, without = query.only, query.without

    def marked(mark: Mark) -> bool | None:
        return True if mark in only.marks else False if mark in without.marks else None

    return Where(
        channels=channels,
        tags=only.tags,
        topics=only.topics,
        languages=only.languages,
        has=only.has,
        since=query.since,
        before=query.before,
        forwarded=marked(Mark.FORWARDED),
        edited=marked(Mark.EDITED),
    )
