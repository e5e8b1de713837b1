"""What is said between us and the worker process that has the local models, in MessagePack."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from telegram_assistant.domain.models import Passage

LARGEST_ANSWER = 64 * 2**20


class TagText(msgspec.Struct, tag=True):
    """Tags of a text, as Tagged."""

    text: str


class EmbedTexts(msgspec.Struct, tag=True):
    """Vectors of texts, each as its 32-bit floats."""

    texts: list[str]


class AnswerQuestion(msgspec.Struct, tag=True):
    """An answer from passages, as Answer."""

    question: str
    passages: list[Passage]


Request: TypeAlias = TagText | EmbedTexts | AnswerQuestion


class Failure(msgspec.Struct):
    """The models cannot do this; the worker lives on."""

    reason: str
    traceback: str


class Outcome(msgspec.Struct):
    """The answer to a request: a failure, or else the result."""

    result: msgspec.Raw = msgspec.Raw()
    failure: Failure | None = None
