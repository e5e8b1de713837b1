"""Sentences of a digest: by a language model or cut from the posts, and none without a post that says so.

A post is data: what in it speaks to machines is left out before anybody reads it, and whatever a model writes must
stand in the posts that it names, or name the same people, places and numbers.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence
from uuid import UUID

from telegram_assistant.ai.local.provider import PROVIDER as LOCAL
from telegram_assistant.ai.spend import paid_by
from telegram_assistant.domain.digests import Cited, Language, Sentence, Told
from telegram_assistant.domain.models import Answerer, Passage
from telegram_assistant.errors import Fatal, Reject, Retry
from telegram_assistant.jobs.digest_stories import Story
from telegram_assistant.language.clean import plain, said, script_of, sentences_of, visible, words_of
from telegram_assistant.language.inflection import Inflection, Wording, fold
from telegram_assistant.search.ask import is_question
from telegram_assistant.search.steering import steers, without_steering
from telegram_assistant.stores.postgres.digests import Facts

MOST_SENTENCES = 2  # of a story
MOST_SOURCES = 5  # of a sentence
SHORTEST, LONGEST = 25, 400  # characters of a sentence
FEWEST_WORDS = 4
ENOUGH = 330  # characters of a story, when it is cut from posts
HALF, PART = 0.5, 0.4  # of the names and numbers, and of the words of a sentence, that each source must have
GROUNDED = 0.6  # of its words that the sources must have together, and each where it has no names
LONGEST_EVIDENCE = 30_000  # characters of several posts
LONGEST_PASSAGE = 2_000
CUT = " …"
QUESTION = {
    Language.RU: "Что сообщают эти посты? Перескажи главное одним-двумя короткими предложениями.",
    Language.EN: "What do these posts report? Tell the main thing in one or two short sentences.",
}

_NUMBER = re.compile(r"\d+")


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
        """Of the words of a sentence that a text has, in whatever inflection."""
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
    """Tells stories. Without a language model of somebody's, in the words of the posts."""

    def __init__(self, evidence: Evidence, answerer: Answerer | None = None) -> None:
        self.evidence = evidence
        self._answerer = answerer if answerer is not None and answerer.identity.provider != LOCAL else None

    @property
    def model(self) -> str:
        """Who writes; empty: nobody, sentences are cut out."""
        return f"{self._answerer.identity.provider} {self._answerer.identity.model}" if self._answerer else ""

    async def tell(
        self, tenant_id: UUID, story: Story, citing: Citing, language: Language, *, by_model: bool
    ) -> Told | None:
        """None: nothing in its posts can be cited. Raises Retry when the model is away."""
        sentences: list[tuple[str, list[Facts]]] = []
        if by_model and self._answerer is not None:
            sentences = await self._written(tenant_id, self._answerer, story, language)
        if not sentences:
            sentences = await asyncio.to_thread(self._cut, story)
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
        posts = {str(number): post for number, post in enumerate(_telling(story)[:MOST_SOURCES], start=1)}
        passages = [Passage(key=key, text=without_steering(post.text)[:LONGEST_PASSAGE]) for key, post in posts.items()]
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
            if sources and not steers(text) and not is_question(text):
                told.append((text, sources))
        return told

    def _cut(self, story: Story) -> list[tuple[str, list[Facts]]]:
        """The first sentences of the post that reached furthest, or of the next one that has any."""
        for post in _telling(story):
            first = _first_sentences(post.text)
            if first:
                others = [one for one in story.posts if one is not post]
                return [(text, [post, *self.evidence.sources(text, others)][:MOST_SOURCES]) for text in first]
        return []


def _telling(story: Story) -> list[Facts]:
    """The lead first, then the others in the order of time."""
    return [story.lead, *(post for post in story.posts if post is not story.lead)]


def _first_sentences(text: str) -> list[str]:
    kept: list[str] = []
    for raw in sentences_of(plain(without_steering(text))):
        sentence = " ".join(raw.split())
        if len(sentence) < SHORTEST or len(words_of(sentence)) < FEWEST_WORDS or is_question(sentence):
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
