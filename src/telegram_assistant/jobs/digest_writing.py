"""What a digest tells: the stories of a period in their order of worth, and sentences, each with a post that says so.

A post is data: sentences in it that speak to machines are left out before a model reads it, and what a model writes
must stand in the posts that it names, or name the same people, places and numbers.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from statistics import median
from typing import Protocol
from uuid import UUID

from telegram_assistant.ai.local.provider import PROVIDER as LOCAL
from telegram_assistant.ai.spend import paid_by
from telegram_assistant.domain.digests import (
    Behind,
    Candidate,
    Cited,
    Coverage,
    Language,
    Placed,
    Sentence,
    Told,
    Wish,
    place,
)
from telegram_assistant.domain.models import Answerer, Passage
from telegram_assistant.domain.query import Filters, Query, parse_query
from telegram_assistant.errors import Fatal, Reject, Retry
from telegram_assistant.language.clean import plain, said, script_of, sentences_of, visible, words_of
from telegram_assistant.language.documents import Candidate as Document
from telegram_assistant.language.inflection import Inflection, Wording, fold
from telegram_assistant.language.stories import gather
from telegram_assistant.language.taxonomy import NOISE, Taxonomy
from telegram_assistant.search.ask import gives_instructions, is_question, without_instructions
from telegram_assistant.search.planning import Planner
from telegram_assistant.search.ranking import fold_stories, in_time, score_words
from telegram_assistant.stores.postgres.digests import DigestPosts, Facts, Standing
from telegram_assistant.stores.postgres.search import SearchDocuments

MOST_SENTENCES = 2  # of a story
MOST_SOURCES = 5  # of a sentence
FEWEST_WORDS = 4
ENOUGH = 330  # characters of a story, when it is cut from posts
GROUNDED = 0.6  # of its words that the sources must have together, and each where it has no names
LONGEST_EVIDENCE = 30_000  # characters of several posts
LONGEST_PASSAGE = 2_000
CUT = " …"
QUESTION = {
    Language.RU: "Что сообщают эти посты? Перескажи главное одним-двумя короткими предложениями.",
    Language.EN: "What do these posts report? Tell the main thing in one or two short sentences.",
}
WINDOW = 2_000  # posts that are looked at for one topic, the newest
MOST_POSTS = 5_000  # for all of them together
BY_TOPIC = 0.8  # how well a post fits that a model gave the topic
LEAST = 0.5  # how well one fits at least that has the words
MOST_BEHIND = 20
MOST_ERROR = 200

_NUMBER = re.compile(r"\d+")


SHORTEST, LONGEST = 25, 400  # characters of a sentence


HALF, PART = 0.5, 0.4  # of the names and numbers, and of the words of a sentence, that each source must have


class Evidence:
    """Whether posts say a sentence: word for word, or by the names, the numbers and most of the words in it."""

    def __init__(self, inflection: Inflection) -> None:
        self._inflection = inflection

    def sources(self, sentence: str, posts: Sequence[Facts]) -> list[Facts]:
        """Those of the posts that say it; none, unless together they say all of it."""
        found = [post for post in posts if self.holds(sentence, post.text)][:MOST_SOURCES]
        return found if found and self.says(sentence, "\n".join(post.text for post in found)) else []

    def holds(self, sentence: str, text: str) -> bool:
        """Whether a post says it, or at least its part of it."""
        return self._fits(sentence, text, things=HALF, words=PART)

    def says(self, sentence: str, text: str) -> bool:
        """Whether all of it is said there."""
        return self._fits(sentence, text, things=1.0, words=GROUNDED)

    def _fits(self, sentence: str, text: str, *, things: float, words: float) -> bool:
        words_said, there = _flat(sentence.removesuffix(CUT)), _flat(text)
        if words_said and f" {words_said} " in f" {there} ":
            return True
        wording = Wording(plain(text, LONGEST_EVIDENCE), self._inflection)
        names, numbers = _names(sentence), set(_NUMBER.findall(sentence))
        named = [name for name in names if wording.has(name)]
        numbered = numbers & set(_NUMBER.findall(visible(text, LONGEST_EVIDENCE)))
        if script_of(sentence) != script_of(text):
            # Names are written otherwise there, and words are others: what it means was compared with what the model
            # named (ai/checks.py), here is told which of the posts it may be from.
            return bool(named or numbered) and len(numbered) >= things * len(numbers)
        fitting = len(named) + len(numbered) >= things * (len(names) + len(numbers))
        return fitting and self._share(sentence, text) >= (words if names or numbers else GROUNDED)

    def _share(self, sentence: str, text: str) -> float:
        """Of the words of a sentence that a text has, in any inflection."""
        known = {key for word in words_of(text) for key in self._inflection.keys(word)}
        telling = [word for word in words_of(sentence) if len(word) > 3]
        there = sum(bool(self._inflection.keys(word) & known) for word in telling)
        return there / len(telling) if telling else 0.0


class Citing:
    """The posts that an issue cites, each once, by number."""

    def __init__(self) -> None:
        self._numbers: dict[Facts, int] = {}

    def numbers(self, posts: Iterable[Facts]) -> tuple[int, ...]:
        return tuple(self._numbers.setdefault(post, len(self._numbers)) for post in posts)

    @property
    def cited(self) -> tuple[Cited, ...]:
        return tuple(
            Cited(
                post_id=post.post_id,
                channel_id=post.channel_id,
                channel=post.channel,
                url=post.url,
                posted_at=post.posted_at,
                version=post.version,
                content_hash=post.content_hash,
            )
            for post in self._numbers
        )


class Writer:
    """Tells stories. Without a language model, in the words of the posts."""

    def __init__(self, evidence: Evidence, answerer: Answerer | None = None) -> None:
        self.evidence = evidence
        self._answerer = answerer if answerer is not None and answerer.identity.provider != LOCAL else None

    @property
    def model(self) -> str:
        """The model that writes; empty: sentences are cut out of posts."""
        return f"{self._answerer.identity.provider} {self._answerer.identity.model}" if self._answerer else ""

    async def tell(
        self, tenant_id: UUID, story: Story, citing: Citing, language: Language, *, by_model: bool
    ) -> Told | None:
        """None: nothing in its posts can be cited. Raises Retry when the model is away."""
        sentences: list[tuple[str, list[Facts]]] = []
        if by_model and self._answerer is not None:
            sentences = await self._written(tenant_id, self._answerer, story, language)
        if not sentences:
            sentences = await asyncio.to_thread(self._cut, story, language)
        if not sentences:
            return None
        return Told(
            sentences=tuple(Sentence(text=text, sources=citing.numbers(posts)) for text, posts in sentences),
            posts=tuple(post.post_id for post in story.posts),
            channels=story.channels,
            topics=story.topics,
            score=round(story.placed.score, 4),
        )

    async def _written(
        self, tenant_id: UUID, answerer: Answerer, story: Story, language: Language
    ) -> list[tuple[str, list[Facts]]]:
        posts = {str(number): post for number, post in enumerate(_telling(story, language)[:MOST_SOURCES], start=1)}
        passages = [
            Passage(key=key, text=without_instructions(post.text)[:LONGEST_PASSAGE]) for key, post in posts.items()
        ]
        passages = [passage for passage in passages if passage.text.strip()]
        if not passages:
            return []
        try:
            with paid_by([tenant_id]):
                answer = await answerer.answer(QUESTION[language], passages)
        except (Reject, Fatal, Retry) as exc:
            if isinstance(exc, Retry) and not exc.own:
                raise
            return []  # this one in the words of its posts
        given = {passage.key for passage in passages}
        told = []
        for one in answer.sentences[:MOST_SENTENCES]:
            named = [posts[key] for key in dict.fromkeys(one.sources) if key in given]
            text = said(one.text, LONGEST)
            sources = await asyncio.to_thread(self.evidence.sources, text, named)
            if sources and not gives_instructions(text) and not is_question(text):
                told.append((text, sources))
        return told

    def _cut(self, story: Story, language: Language) -> list[tuple[str, list[Facts]]]:
        """The first sentences of the post that tells it best, or of the next one that has any; each channel once."""
        for post in _telling(story, language):
            first = _first_sentences(post.text)
            if first:
                others = [one for one in story.posts if one.channel_id != post.channel_id]
                return [(text, _channels_once([post, *self.evidence.sources(text, others)])) for text in first]
        return []


def _telling(story: Story, language: Language) -> list[Facts]:
    """Those in the reader's language first; of these the lead, then the others in the order of time."""
    posts = [story.lead, *(post for post in story.posts if post is not story.lead)]
    return sorted(posts, key=lambda post: post.language != language)


def _channels_once(posts: Iterable[Facts]) -> list[Facts]:
    firsts: dict[int, Facts] = {}
    for post in posts:
        firsts.setdefault(post.channel_id, post)
    return list(firsts.values())[:MOST_SOURCES]


def _first_sentences(text: str) -> list[str]:
    kept: list[str] = []
    for raw in sentences_of(plain(without_instructions(text))):
        sentence = " ".join(raw.split()).lstrip("—\u2013-• ")
        if len(sentence) < SHORTEST or len(words_of(sentence)) < FEWEST_WORDS or is_question(sentence):
            continue
        if sentence.count("(") != sentence.count(")"):  # it was cut at an abbreviation, as in "(ст. 275)"
            continue
        if kept and sum(map(len, kept)) + len(sentence) > ENOUGH:
            break
        kept.append(_shortened(sentence))
        if len(kept) == MOST_SENTENCES:
            break
    return kept


def _shortened(sentence: str) -> str:
    return sentence if len(sentence) <= LONGEST else sentence[:LONGEST].rpartition(" ")[0] + CUT


def _names(sentence: str) -> list[str]:
    """Words that begin with a capital letter; the first of the sentence would anyway."""
    return list(dict.fromkeys(word for word in words_of(sentence)[1:] if word[0].isupper() and len(word) > 1))


def _flat(text: str) -> str:
    return " ".join(fold(word) for word in words_of(plain(text)))


class Interests(Protocol):
    """What a user likes: weights from 0 to 1 by topic or tag."""

    async def weights(self, tenant_id: UUID, user_id: UUID) -> Mapping[str, float]: ...


@dataclass(frozen=True, slots=True)
class Story:
    """Posts that tell the same, the first source first; `lead` is the one that reached furthest."""

    lead: Facts
    posts: tuple[Facts, ...]
    topics: tuple[str, ...]
    placed: Placed

    @property
    def channels(self) -> int:
        return len({post.channel_id for post in self.posts})


@dataclass(frozen=True, slots=True)
class Found:
    """Stories, the best first, and what was looked at."""

    stories: list[Story]
    coverage: Coverage


@dataclass(frozen=True, slots=True)
class _Fits:
    """Posts that fit, and how well each topic of the reader is met by them."""

    documents: list[Document]
    matches: Mapping[UUID, Mapping[str, float]]
    capped: int


@dataclass(frozen=True)
class Stories:
    """Finds them for a tenant, in what PostgreSQL shows to it."""

    posts: DigestPosts
    documents: SearchDocuments
    planner: Planner
    taxonomy: Taxonomy
    patience: timedelta

    async def find(
        self,
        tenant_id: UUID,
        wish: Wish,
        since: datetime,
        until: datetime,
        *,
        told: Sequence[UUID] = (),
        interests: Mapping[str, float] | None = None,
    ) -> Found:
        """`told`: posts that earlier issues cite; their stories are not told again."""
        standings = await self.posts.standings(tenant_id)
        read = [one for one in standings if not wish.channels or one.channel_id in set(wish.channels)]
        channels = [one.channel_id for one in read]
        fits = await self._fitting(tenant_id, wish, channels, since, until)
        facts = await self.posts.facts(tenant_id, [one.post_id for one in fits.documents])
        earlier = await self.posts.facts(tenant_id, list(told))
        before = {*told, *(post.story_id for post in earlier.values() if post.story_id)}
        folded = fold_stories(in_time(one) for one in fits.documents if one.post_id in facts)
        stories = [[facts[one.post_id] for one in story.candidates] for story in folded]
        new = [
            posts for posts in stories if not any(post.story_id in before or post.post_id in before for post in posts)
        ]
        wanted = [posts for posts in new if wish.ads or not _is_noise(posts, wish.topics)]
        events = {_lead(one[0]).post_id: one for one in await asyncio.to_thread(gather, wanted)}
        usual = _usual_views(facts.values())
        placed = place(
            [_candidate(key, stories, fits.matches, usual) for key, stories in events.items()],
            most=wish.most,
            since=since,
            until=until,
            interests=interests,
        )
        coverage = Coverage(
            channels=len(channels),
            posts=await self.posts.count(tenant_id, channels, since, until),
            fitting=len(facts),
            stories=len(events) + len(stories) - len(wanted),
            told_before=len(stories) - len(new),
            ads=len(new) - len(wanted),
            capped=fits.capped,
            gone=len(set(wish.channels) - set(channels)),
            behind=tuple(self._behind(read, until))[:MOST_BEHIND],
        )
        return Found([_story(events[one.candidate.key], one, fits.matches) for one in placed], coverage)

    async def _fitting(
        self, tenant_id: UUID, wish: Wish, channels: Sequence[int], since: datetime, until: datetime
    ) -> _Fits:
        matches: dict[UUID, dict[str, float]] = defaultdict(dict)
        documents: dict[UUID, Document] = {}
        capped = 0
        for topic in wish.topics or ("",):
            query, by_topic = self._query(topic, until)
            planned = await self.planner.plan(tenant_id, query)
            plan = replace(
                planned.plan,
                ways=planned.plan.ways[:1],
                channels=tuple(one for one in planned.plan.channels if one in set(channels)),
                since=max(since, planned.plan.since or since),
                before=min(until, planned.plan.before or until),
            )
            found = await self.documents.newest(plan, limit=WINDOW) if plan.channels else []
            capped += len(found) == WINDOW
            scores = [score_words(one, [scored.worth for scored in plan.scored]).score for one in found]
            best = max(scores, default=0.0)
            for one, score in zip(found, scores, strict=True):
                documents[one.post_id] = one
                if topic:
                    by_words = LEAST + (1 - LEAST) * (score / best if best else 1.0)
                    matches[one.post_id][topic] = BY_TOPIC if by_topic else by_words
        newest = sorted(documents.values(), key=lambda one: (one.posted_at, one.post_id))[-MOST_POSTS:]
        return _Fits(newest, matches, capped)

    def _query(self, topic: str, now: datetime) -> tuple[Query, bool]:
        """A topic of the taxonomy, by any of its names, is what models found in posts; anything else is a query."""
        known = self.taxonomy.known([topic])
        if known:
            return Query(only=Filters(topics=known[:1])), True
        return parse_query(topic, now=now), False

    def _behind(self, standings: Sequence[Standing], until: datetime) -> Iterator[Behind]:
        for one in standings:
            reason = _reason(one, until - self.patience)
            if reason:
                yield Behind(
                    channel_id=one.channel_id,
                    channel=one.channel,
                    reason=reason,
                    unknown=one.unknown,
                    since=one.last_success_at,
                    error=one.last_error[:MOST_ERROR] if reason == "failing" else "",
                )


def _lead(posts: Sequence[Facts]) -> Facts:
    """The one that reached furthest, of equals the first."""
    return max(
        posts, key=lambda one: (bool(one.text.strip()), one.views + 100 * one.forwards, -one.posted_at.timestamp())
    )


def _is_noise(posts: Sequence[Facts], wished: Sequence[str]) -> bool:
    """Advertising and jokes, unless the reader asks for them."""
    noise = [post for post in posts if NOISE & {*post.topics} - {*wished}]
    return 2 * len(noise) >= len(posts)


def _usual_views(posts: Iterable[Facts]) -> dict[int, float]:
    """What a post of each channel gets."""
    views: dict[int, list[int]] = defaultdict(list)
    for post in posts:
        views[post.channel_id].append(post.views)
    return {channel_id: median(found) for channel_id, found in views.items()}


def _candidate(
    key: UUID,
    stories: Sequence[Sequence[Facts]],
    matches: Mapping[UUID, Mapping[str, float]],
    usual: Mapping[int, float],
) -> Candidate:
    posts = [post for story in stories for post in story]
    fits = [match for post in posts for match in matches.get(post.post_id, {}).values()]
    return Candidate(
        key=key,
        channel_id=_lead(stories[0]).channel_id,
        first_at=min(post.posted_at for post in posts),
        match=max(fits, default=1.0),
        labels=tuple(dict.fromkeys(label for post in posts for label in post.labels)),
        reach=max(post.views / (usual[post.channel_id] or 1.0) for post in posts),
        channels=max(1, len({post.channel_id for post in posts if not post.forwarded})),
    )


def _story(stories: Sequence[Sequence[Facts]], placed: Placed, matches: Mapping[UUID, Mapping[str, float]]) -> Story:
    posts = sorted((post for story in stories for post in story), key=lambda one: (one.posted_at, one.post_id))
    topics = dict.fromkeys(topic for post in posts for topic in matches.get(post.post_id, {}))
    return Story(_lead(stories[0]), tuple(posts), tuple(topics), placed)


def _reason(one: Standing, expected: datetime) -> str:
    """Why a channel may lack something; empty: it does not."""
    if one.status == "dead" or one.failures > 1:
        return "failing"
    if one.last_success_at is None:
        return "new"
    if one.unknown > 0:
        return "holes"
    return "stale" if one.last_success_at < expected else ""
