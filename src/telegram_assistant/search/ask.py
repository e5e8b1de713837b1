"""A question answered from the posts that a tenant may see, each sentence with its sources.

Sentences of a post that speak to a machine, not to its readers, are left out: no answer is made from them.
"""

from __future__ import annotations

import asyncio
import re
import tomllib
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from functools import cache
from importlib.resources import files
from uuid import UUID

from telegram_assistant.ai.remote.gate import within
from telegram_assistant.ai.spend import paid_by
from telegram_assistant.domain.models import Answerer, Passage
from telegram_assistant.domain.query import Note, filters_in, without_filters
from telegram_assistant.domain.results import Hit, Origin, Shown
from telegram_assistant.domain.results import Passage as Found
from telegram_assistant.errors import Retry
from telegram_assistant.language.clean import plain, said, script_of, sentences_of, visible, words_of
from telegram_assistant.language.inflection import fold
from telegram_assistant.language.questions import days_back
from telegram_assistant.language.stopwords import subject_of
from telegram_assistant.search.service import Search

MOST_POSTS = 24
LONGEST_PASSAGE = 2_000  # characters
LONGEST_QUOTE = 320
SAME_WORD = 5  # letters
ECHO = 0.6  # share of the question's words that make another question the same
SECONDS = 60.0
MODELS_SHARE = 0.9
NOT_IN_YOUR_CHANNELS = "not in your channels"

_LISTS = ("machine", "order", "rules")


@dataclass(frozen=True, slots=True)
class Said:
    """A sentence of an answer, and the posts that say so (by their number, from 1)."""

    text: str
    sources: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """An answer; without sentences the posts do not have one."""

    sentences: tuple[Said, ...] = ()
    sources: tuple[Shown, ...] = ()  # only those that a sentence names
    quotes: tuple[str, ...] = ()  # of each source the passage that says it
    looked_at: int = 0  # posts
    notes: tuple[Note, ...] = ()
    without_meaning: str = ""

    @property
    def answered(self) -> bool:
        return bool(self.sentences)

    @property
    def text(self) -> str:
        return " ".join(said.text for said in self.sentences) or NOT_IN_YOUR_CHANNELS


class Asking:
    """Finds posts, and has them read."""

    def __init__(self, search: Search, answerer: Answerer, *, seconds: float = SECONDS) -> None:
        self._search = search
        self._answerer = answerer
        self._seconds = seconds  # for the whole question

    async def ask(self, tenant_id: UUID, question: str, *, zone: tzinfo | None = None) -> Answered:
        """The question may narrow where to look, as any query; `zone`: where its dates are meant.

        Raises Retry when the model is away, or all of it takes too long.
        """
        try:
            # Models are told a little less, so that one which hangs is known for it, and left alone the next time.
            async with asyncio.timeout(self._seconds):
                with within(MODELS_SHARE * self._seconds):
                    return await self._answered(tenant_id, question, zone)
        except TimeoutError as exc:
            raise Retry(f"the question took longer than {self._seconds:g} s") from exc

    async def _answered(self, tenant_id: UUID, question: str, zone: tzinfo | None) -> Answered:
        asked = without_filters(question)
        # "What is new?" is about nothing in particular: then the newest posts are the ones to read.
        query = question if subject_of(asked) else " ".join(one for one, _, _ in filters_in(question))
        if subject_of(asked) and (days := days_back(asked)):
            query = f"{query} after:{days}d"
        found = await self._search.search(tenant_id, query, limit=MOST_POSTS, zone=zone, by_story=False)
        posts = {str(hit.post.post_id): hit.post for hit in found.hits}
        passages = [one for one in (_passage(hit, asked) for hit in found.hits) if one.text]
        told = Answered(looked_at=len(passages), notes=found.notes, without_meaning=found.without_meaning)
        if not passages:
            return told
        with paid_by([tenant_id]):
            answer = await self._answerer.answer(asked, passages)
        # A model may claim anything: a sentence without a source that was given to it is none.
        given = {passage.key: passage.text for passage in passages}
        claims = [
            (said(one.text), [key for key in dict.fromkeys(one.sources) if key in given]) for one in answer.sentences
        ]
        return _numbered(told, [one for one in claims if _stands(*one, asked, given)], posts, given)


def _passage(hit: Hit, question: str) -> Passage:
    text = without_instructions("\n\n".join(map(_readable, hit.post.passages)))
    told = [one for one in sentences_of(text) if not _echoes(one, question)]
    text = "\n".join(told)[:LONGEST_PASSAGE]
    return Passage(key=str(hit.post.post_id), text=text, said_at=hit.post.posted_at.timestamp())


def _readable(passage: Found) -> str:
    """Lines on a picture end where its edge is, and not where a sentence does."""
    text = passage.text[:LONGEST_PASSAGE]
    return " ".join(text.split()) if passage.origin is Origin.PICTURE else text


def _echoes(sentence: str, question: str) -> bool:
    """The question itself fits it best of all, and answers nothing."""
    asked = {fold(word) for word in words_of(question)}
    same = asked & {fold(word) for word in words_of(sentence)}
    return is_question(sentence) and len(same) >= ECHO * len(asked)


def is_question(sentence: str) -> bool:
    return sentence.rstrip(" \"'»”)\n").endswith("?")


def _stands(text: str, keys: Sequence[str], question: str, given: dict[str, str]) -> bool:
    """It has sources, and is in their language or in that of the question: in a third one nothing can be checked."""
    if not text.strip() or not keys or gives_instructions(text) or is_question(text):
        return False
    return script_of(text) in {script_of(question), *(script_of(given[key]) for key in keys)}


def _numbered(
    told: Answered, claims: Sequence[tuple[str, Sequence[str]]], posts: dict[str, Shown], given: dict[str, str]
) -> Answered:
    numbers: dict[str, int] = {}
    for _, keys in claims:
        for key in keys:
            numbers.setdefault(key, len(numbers) + 1)
    return replace(
        told,
        sentences=tuple(Said(text, tuple(numbers[key] for key in keys)) for text, keys in claims),
        sources=tuple(posts[key] for key in numbers),
        quotes=tuple(quote(given[key], [text for text, keys in claims if key in keys]) for key in numbers),
    )


def quote(passage: str, claims: Sequence[str]) -> str:
    """Of a passage what has most of these words, with the sentences around it; its beginning where none has."""
    wanted = _beginnings(" ".join(claims))
    sentences = sentences_of(plain(passage)) or [""]
    shares = [len(wanted & _beginnings(one)) / (1 + len(_beginnings(one)) ** 0.5) for one in sentences]
    first = shares.index(max(shares))
    last = first + 1
    while last < len(sentences) and sum(map(len, sentences[first : last + 1])) <= LONGEST_QUOTE:
        last += 1
    while first and sum(map(len, sentences[first - 1 : last])) <= LONGEST_QUOTE:
        first -= 1
    return " ".join(" ".join(sentences[first:last]).split())[: 2 * LONGEST_QUOTE]


def _beginnings(text: str) -> set[str]:
    """Words without their endings, roughly."""
    return {fold(word)[:SAME_WORD] for word in words_of(text) if len(word) >= SAME_WORD or word.isdigit()}


@cache
def _instruction_words() -> re.Pattern[str]:
    found = tomllib.loads(files(__package__).joinpath("instructions.toml").read_text("utf-8"))
    whole = "|".join(found["patterns"])
    for name in _LISTS:
        whole = whole.replace(f"{{{name}}}", found[name].replace("\\\n", ""))
    return re.compile(whole, re.IGNORECASE | re.DOTALL)


def gives_instructions(sentence: str) -> bool:
    """Whether it speaks to the machine that answers. Letters of other widths and hidden ones do not help it."""
    return bool(_instruction_words().search(unicodedata.normalize("NFKC", visible(sentence))))


def without_instructions(text: str) -> str:
    """The text with the sentences that are for its readers."""
    sentences = sentences_of(visible(text))
    bad = {at for at, one in enumerate(sentences) if gives_instructions(one)}
    # An order that is cut in two shows only in both halves together.
    for at in range(1, len(sentences)):
        if not bad & {at - 1, at} and gives_instructions(f"{sentences[at - 1]}\n{sentences[at]}"):
            bad |= {at - 1, at}
    return "\n".join(one for at, one in enumerate(sentences) if at not in bad)
