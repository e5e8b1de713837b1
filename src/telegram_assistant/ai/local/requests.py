"""What is said between us and the worker process that has the local models, in MessagePack."""

from __future__ import annotations

import msgspec

from telegram_assistant.domain.models import Answer, Passage, Tagged

LARGEST_ANSWER = 64 * 2**20


class TagText(msgspec.Struct, tag=True):
    """Tags of a text."""

    text: str


class EmbedTexts(msgspec.Struct, tag=True):
    """Vectors of texts."""

    texts: list[str]


class AnswerQuestion(msgspec.Struct, tag=True):
    """An answer from passages."""

    question: str
    passages: list[Passage]


class Call(msgspec.Struct):
    """One request."""

    request: TagText | EmbedTexts | AnswerQuestion


class Vectors(msgspec.Struct, tag=True):
    """Each vector as its 32-bit floats."""

    vectors: list[bytes]


class TagsFound(msgspec.Struct, tag=True):
    """The answer to TagText."""

    tagged: Tagged


class AnswerFound(msgspec.Struct, tag=True):
    """The answer to AnswerQuestion."""

    answer: Answer


class Failure(msgspec.Struct, tag=True):
    """The models cannot do this; the worker lives on."""

    reason: str
    traceback: str


class Outcome(msgspec.Struct):
    """The answer to a call."""

    result: Vectors | TagsFound | AnswerFound | Failure
