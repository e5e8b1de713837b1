"""The local provider: tags, vectors and extractive answers by models inside wheels, in a process of their own."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import msgspec

from telegram_assistant.ai.local.requests import LARGEST_ANSWER, AnswerQuestion, EmbedTexts, Outcome, Request, TagText
from telegram_assistant.ai.spend import measured
from telegram_assistant.domain.models import Answer, Embedded, Identity, Passage, Tagged
from telegram_assistant.errors import Reject, Retry
from telegram_assistant.language.clean import LONGEST_TEXT, visible
from telegram_assistant.language.taxonomy import Taxonomy
from telegram_assistant.log import get_logger
from telegram_assistant.processes.worker import Worker, our_module

PROVIDER = "local"
VECTOR_SIZE = 768
_TAGGER = "natasha-1.6+use3/2"  # the number after the slash grows with every change of what comes out
_EMBEDDER = "use3+lemmas-768/1"
_ANSWERER = "extractive-use3/2"
_BATCH = 16  # texts in one call, so that a question does not wait behind a thousand posts
_MOST_PASSAGES = 40
_logger = get_logger(__name__)

T = TypeVar("T")


class LocalTagger:
    """Key phrases, topics of the taxonomy, and names."""

    def __init__(self, process: ModelProcess, taxonomy: Taxonomy) -> None:
        self._process = process
        self._taxonomy = taxonomy

    @property
    def identity(self) -> Identity:
        return Identity(PROVIDER, _TAGGER, f"topics-{self._taxonomy.version}")

    async def tag(self, text: str, seen: str = "") -> Tagged:
        with measured(PROVIDER, "tag") as spending:
            whole = "\n".join(visible(part) for part in (text, seen) if part)
            found = await self._process.call(TagText(whole[:LONGEST_TEXT]), Tagged)
        return replace(found, usage=spending.usage())


class LocalEmbedder:
    """Vectors of meaning and words."""

    def __init__(self, process: ModelProcess) -> None:
        self._process = process

    @property
    def identity(self) -> Identity:
        return Identity(PROVIDER, _EMBEDDER)

    @property
    def size(self) -> int:
        return VECTOR_SIZE

    async def embed(self, texts: Sequence[str]) -> Embedded:
        vectors: list[tuple[float, ...]] = []
        with measured(PROVIDER, "embed") as spending:
            for start in range(0, len(texts), _BATCH):
                batch = [visible(text) for text in texts[start : start + _BATCH]]
                found = await self._process.call(EmbedTexts(batch), list[bytes])
                vectors += [tuple(array("f", vector)) for vector in found]
        return Embedded(vectors=tuple(vectors), usage=spending.usage())


class LocalAnswerer:
    """Sentences of the passages themselves."""

    def __init__(self, process: ModelProcess) -> None:
        self._process = process

    @property
    def identity(self) -> Identity:
        return Identity(PROVIDER, _ANSWERER)

    async def answer(self, question: str, passages: Sequence[Passage]) -> Answer:
        with measured(PROVIDER, "answer") as spending:
            bounded = [replace(one, text=visible(one.text)) for one in passages[:_MOST_PASSAGES]]
            found = await self._process.call(AnswerQuestion(visible(question), bounded), Answer)
        return replace(found, usage=spending.usage())


class ModelProcess:
    """The one worker process: started by the first call, replaced when it dies. It answers in order."""

    def __init__(self, topics: Path | None = None, *, call_seconds: float = 120.0) -> None:
        arguments = [] if topics is None else [str(topics)]
        command = our_module("telegram_assistant.ai.local.worker", *arguments)
        self.worker = Worker("local_worker", command, limit=call_seconds, largest=LARGEST_ANSWER, costly=True)

    @property
    def pid(self) -> int | None:
        """Of the worker, while there is one."""
        return self.worker.pid

    async def call(self, request: Request, kind: type[T]) -> T:
        """The result, of this kind. Raises Retry when the worker died or hangs, Reject when the models fail on this."""
        answer = await self.worker.ask(msgspec.msgpack.encode(request))
        try:
            outcome = msgspec.msgpack.decode(answer, type=Outcome)
            if outcome.failure is None:
                return msgspec.msgpack.decode(outcome.result, type=kind)
        except msgspec.MsgspecError as exc:
            raise Retry(f"the worker with the local models gave an answer that cannot be read: {exc}") from exc
        _logger.error("a local model failed", reason=outcome.failure.reason, traceback=outcome.failure.traceback)
        raise Reject(f"the local model cannot read this: {outcome.failure.reason}")

    async def close(self) -> None:
        """End the worker; further calls are refused."""
        await self.worker.close()
