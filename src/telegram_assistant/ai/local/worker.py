"""The worker process: loads the local models, then answers calls.

`python -m telegram_assistant.ai.local.worker [TOPICS_FILE]`.
"""

from __future__ import annotations

import sys
import traceback
from pathlib import Path

import msgspec
import numpy as np

from telegram_assistant.ai.checks import Checks
from telegram_assistant.ai.local.answers import Extractor
from telegram_assistant.ai.local.models import Models, TextVectors
from telegram_assistant.ai.local.phrases import PhraseRanker
from telegram_assistant.ai.local.requests import AnswerQuestion, EmbedTexts, Failure, Outcome, Request, TagText
from telegram_assistant.ai.local.russian import RussianReader
from telegram_assistant.ai.local.topics import TopicFinder
from telegram_assistant.ai.local.words import OtherReader
from telegram_assistant.domain.models import Answer, Tagged
from telegram_assistant.language.clean import plain
from telegram_assistant.language.stopwords import StopWords
from telegram_assistant.language.taxonomy import Taxonomy, load_taxonomy
from telegram_assistant.processes.serving import Work, serve

MEGABYTES = 4096


def open_models() -> Work:
    engine = Engine(load_taxonomy(Path(sys.argv[1]) if len(sys.argv) > 1 else None))
    decoder: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
    return lambda request: msgspec.msgpack.encode(_outcome(engine, decoder.decode(request)))


def _outcome(engine: Engine, request: Request) -> Outcome:
    try:
        return Outcome(msgspec.Raw(msgspec.msgpack.encode(engine.handle(request))))
    except Exception as exc:  # noqa: BLE001 - a text that breaks a model is reported to the caller
        return Outcome(failure=Failure(f"{type(exc).__name__}: {exc}", traceback.format_exc()))


class Engine:
    """Tags, vectors and answers from models inside wheels. It lives in the worker process only."""

    def __init__(self, taxonomy: Taxonomy) -> None:
        self._models = Models()
        stop = StopWords(self._models.inflection)
        self._russian = RussianReader(self._models, stop)
        self._other = OtherReader(self._models, stop)
        self._ranker = PhraseRanker(self._models, stop)
        self._topics = TopicFinder(self._models, taxonomy)
        self._vectors = TextVectors(self._models)
        self._checks = Checks(taxonomy, self._models.inflection, stop)
        self._extractor = Extractor(self._models, self._vectors)

    def handle(self, request: Request) -> Tagged | list[bytes] | Answer:
        match request:
            case TagText(text=text):
                return self.tag(text)
            case EmbedTexts(texts=texts):
                return [np.asarray(vector, np.float32).tobytes() for vector in self._vectors.embed(texts)]
            case AnswerQuestion(question=question, passages=passages):
                return self._extractor.answer(question, passages)

    def tag(self, text: str) -> Tagged:
        words = plain(text)
        language = self._models.language(words)
        if not words:
            return Tagged(language=language)
        meaning = self._models.sentence_vectors([words])[0]
        russian = self._topics.russian_vector(words)
        reads_russian = language == "ru"
        found = self._russian.read(words) if reads_russian else self._other.read(words, language)
        found_here = Tagged(
            tags=self._ranker.best(found.phrases, russian if reads_russian else meaning, russian=reads_russian),
            topics=self._topics.topics(words, meaning, russian),
            entities=found.entities,
            language=language,
        )
        return self._checks.tagged(found_here, text)


if __name__ == "__main__":
    serve(open_models, megabytes=MEGABYTES)
