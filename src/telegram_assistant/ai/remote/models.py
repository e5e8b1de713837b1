"""Tag, describe, embed and answer by a remote model, whichever it is: ask, read, check."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

from telegram_assistant.ai.checks import Checks, Translations
from telegram_assistant.ai.remote.connections import ChatModel, VectorModel
from telegram_assistant.ai.remote.gate import Gate, Kind, Trouble
from telegram_assistant.ai.remote.prompts import (
    ANSWER_VERSION,
    DESCRIBE_VERSION,
    TAG_VERSION,
    AnswerReply,
    Ask,
    Form,
    PictureReply,
    TagReply,
    ask_answer,
    ask_picture,
    ask_tags,
    read_reply,
)
from telegram_assistant.ai.spend import ModelBudget, Price, Spending, paid
from telegram_assistant.ai.vision.shrink import Shrinker
from telegram_assistant.domain.budgets import believed, estimated
from telegram_assistant.domain.models import (
    Answer,
    Embedded,
    Identity,
    Ocr,
    Passage,
    Picture,
    Seen,
    Sentence,
    Tagged,
    has_direction,
)
from telegram_assistant.language.clean import pieces_of, visible

_EMBED_BATCH = 32
_PICTURE_TOKENS = 1_000  # about what a picture takes
_PICTURE_CALL = 1_500  # reserved for a call about one
_NO_TEXT = "."  # servers refuse an empty text, and every post needs a vector


class Conversation:
    """Questions to one chat model through its gate; an answer in a wrong form gets one more try."""

    def __init__(self, model: ChatModel, gate: Gate, price: Price, budget: ModelBudget | None = None) -> None:
        self.model = model
        self.gate = gate
        self.price = price
        self.budget = budget

    def paid(self, ability: str, tokens: int) -> AbstractAsyncContextManager[Spending]:
        return paid(self.budget, Identity(self.model.provider, self.model.model), ability, self.price, tokens)

    async def reply(self, ask: Ask, form: type[Form], spending: Spending, picture: bytes | None = None) -> Form:
        async def request() -> Form:
            try:
                return await self._once(ask, form, spending, picture)
            except ValueError as first:
                try:
                    return await self._once(ask.again(str(first)), form, spending, picture)
                except ValueError as second:
                    told = f"{self.model.model} does not answer in the form it is asked for ({second})"
                    raise Trouble(Kind.RUBBISH, told) from second

        return await self.gate.run(request)

    async def _once(self, ask: Ask, form: type[Form], spending: Spending, picture: bytes | None) -> Form:
        reply = await self.model.ask(ask, picture)
        asked, more = len(ask.system) + len(ask.data), 0 if picture is None else _PICTURE_TOKENS
        spending.add(
            believed(reply.tokens_in, asked, more=more),
            believed(reply.tokens_out, len(reply.text), most=ask.most_tokens),
        )
        return read_reply(reply.text, form)


class RemoteTagger:
    """Tags, topics and entities by a chat model."""

    def __init__(self, talk: Conversation, checks: Checks) -> None:
        self._talk = talk
        self._checks = checks

    @property
    def identity(self) -> Identity:
        model = self._talk.model
        return Identity(model.provider, model.model, f"{TAG_VERSION}+topics-{self._checks.taxonomy.version}")

    async def tag(self, text: str, seen: str = "") -> Tagged:
        if not visible(text) and not visible(seen):
            return Tagged()
        ask = ask_tags(text, seen, self._checks.taxonomy)
        async with self._talk.paid("tag", _about(ask)) as spending:
            reply = await self._talk.reply(ask, TagReply, spending)
            checked = await asyncio.to_thread(self._checks.tagged, reply.tagged(), f"{text}\n{seen}")
        return replace(checked, usage=spending.usage())


class RemoteDescriber:
    """What a picture shows, by a chat model with eyes. It gets a small plain JPEG, never the stranger's file."""

    def __init__(self, talk: Conversation, checks: Checks) -> None:
        self._talk = talk
        self._checks = checks
        self._shrinker = Shrinker()

    @property
    def identity(self) -> Identity:
        return Identity(self._talk.model.provider, self._talk.model.model, DESCRIBE_VERSION)

    async def describe(self, picture: Picture) -> Seen:
        small = await self._shrinker.shrunk(picture.content)
        async with self._talk.paid("describe", _PICTURE_CALL) as spending:
            reply = await self._talk.reply(ask_picture(), PictureReply, spending, small)
            seen = self._checks.seen(self._seen(reply))
        return replace(seen, usage=spending.usage())

    async def close(self) -> None:
        await self._shrinker.close()

    def _seen(self, reply: PictureReply) -> Seen:
        model = self._talk.model
        return Seen(
            classification=reply.classification,
            description=reply.description,
            is_meme=reply.is_meme,
            labels=tuple(reply.labels),
            objects=tuple(reply.objects),
            scene=reply.scene,
            # A language model gives no confidence; that it read the text at all is taken for one.
            ocr=Ocr(text=reply.text, engine=model.provider, confidence=1.0) if reply.text.strip() else None,
            nsfw_score=reply.nsfw_score,
            dominant_colors=tuple(color.lower() for color in reply.dominant_colors),
            provider=model.provider,
            model=model.model,
        )


class RemoteAnswerer:
    """An answer in the model's words, each sentence checked against the passages it names."""

    def __init__(self, talk: Conversation, checks: Checks, translations: Translations) -> None:
        self._talk = talk
        self._checks = checks
        self._translations = translations

    @property
    def identity(self) -> Identity:
        return Identity(self._talk.model.provider, self._talk.model.model, ANSWER_VERSION)

    async def answer(self, question: str, passages: Sequence[Passage]) -> Answer:
        if not visible(question) or not passages:
            return Answer()
        ask, keys = ask_answer(question, passages)
        async with self._talk.paid("answer", _about(ask)) as spending:
            reply = await self._talk.reply(ask, AnswerReply, spending)
            sentences = tuple(
                Sentence(text=one.text, sources=tuple(keys[str(key)] for key in one.sources if str(key) in keys))
                for one in reply.sentences
            )
            checked = await asyncio.to_thread(self._checks.answer, Answer(sentences=sentences), question, passages)
            kept = [one for one, of in checked if not of or await self._translations.says(one.text, of)]
        return Answer(sentences=tuple(kept), usage=spending.usage())


class RemoteEmbedder:
    """Vectors by a remote model; long texts are the mean of their pieces."""

    def __init__(
        self,
        model: VectorModel,
        gate: Gate,
        price: Price,
        budget: ModelBudget | None = None,
        *,
        size: int,
        piece: int,
    ) -> None:
        self._model = model
        self._budget = budget
        self._gate = gate
        self._price = price
        self._size = size
        self._fits = False  # it has made vectors of that size: if now it does not, the settings are not to blame
        self._piece = piece

    @property
    def identity(self) -> Identity:
        return Identity(self._model.provider, self._model.model)

    @property
    def size(self) -> int:
        return self._size

    async def embed(self, texts: Sequence[str]) -> Embedded:
        pieces = [pieces_of(visible(text), self._piece) or [_NO_TEXT] for text in texts]
        flat = [piece for parts in pieces for piece in parts]
        vectors: list[Sequence[float]] = []
        tokens = estimated(sum(map(len, flat)))
        async with paid(self._budget, self.identity, "embed", self._price, tokens, calls=len(texts)) as spending:
            for start in range(0, len(flat), _EMBED_BATCH):
                vectors += await self._batch(flat[start : start + _EMBED_BATCH], spending)
        found = iter(vectors)
        means = tuple(_unit_mean([next(found) for _ in parts]) for parts in pieces)
        return Embedded(vectors=means, usage=spending.usage(), asked=len(texts))

    async def _batch(self, texts: list[str], spending: Spending) -> Sequence[Sequence[float]]:
        async def request() -> Sequence[Sequence[float]]:
            reply = await self._model.vectors(texts)
            spending.add(believed(reply.tokens, sum(map(len, texts))), 0)
            self._check(reply.vectors, len(texts))
            return reply.vectors

        return await self._gate.run(request)

    def _check(self, vectors: Sequence[Sequence[float]], wanted: int) -> None:
        if len(vectors) != wanted or not all(map(has_direction, vectors)):
            told = f"{self._model.model} gave {len(vectors)} vectors for {wanted} texts, or zeros, or no numbers"
            raise Trouble(Kind.RUBBISH, told)
        sizes = {len(vector) for vector in vectors}
        self._fits = self._fits or self._size in sizes
        if sizes != {self._size}:
            told = f"{self._model.model} makes vectors of {min(sizes)} numbers, the settings say {self._size}"
            raise Trouble(Kind.RUBBISH if self._fits else Kind.BLOCKED, told)


def _about(ask: Ask) -> int:
    """What a question takes, and an answer of a usual length."""
    return estimated(len(ask.system) + len(ask.data)) + ask.most_tokens // 4


def _unit_mean(vectors: Sequence[Sequence[float]]) -> tuple[float, ...]:
    total = [sum(numbers) for zipped in [zip(*vectors, strict=True)] for numbers in zipped]
    if not has_direction(total):  # pieces that point away from each other: the first stands for all
        total = list(vectors[0])
    length = math.sqrt(sum(number * number for number in total))
    return tuple(number / length for number in total)
