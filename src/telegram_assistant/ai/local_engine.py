"""Everything the local models can do, in one object; it lives in the worker process only."""

from __future__ import annotations

import numpy as np

from telegram_assistant.ai.checks import Checks
from telegram_assistant.ai.local_answers import Extractor
from telegram_assistant.ai.local_models import Models
from telegram_assistant.ai.local_phrases import PhraseRanker
from telegram_assistant.ai.local_requests import (
    AnswerFound,
    AnswerQuestion,
    EmbedTexts,
    TagsFound,
    TagText,
    Vectors,
)
from telegram_assistant.ai.local_russian import RussianReader
from telegram_assistant.ai.local_topics import TopicFinder
from telegram_assistant.ai.local_vectors import TextVectors
from telegram_assistant.ai.local_words import OtherReader
from telegram_assistant.domain.understanding import Tagged
from telegram_assistant.language.clean import plain
from telegram_assistant.language.stopwords import StopWords
from telegram_assistant.language.taxonomy import Taxonomy


class Engine:
    """Tags, vectors and answers from models inside wheels."""

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

    def handle(self, request: TagText | EmbedTexts | AnswerQuestion) -> TagsFound | Vectors | AnswerFound:
        match request:
            case TagText(text=text):
                return TagsFound(self.tag(text))
            case EmbedTexts(texts=texts):
                return Vectors([np.asarray(vector, np.float32).tobytes() for vector in self._vectors.of(texts)])
            case AnswerQuestion(question=question, passages=passages):
                return AnswerFound(self._extractor.answer(question, passages))

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
