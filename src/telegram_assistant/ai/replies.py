"""The forms that a chat model's answer must have, and the reading of it."""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec

from telegram_assistant.domain.understanding import Classification, Entity, EntityKind, Tagged

_LARGEST = 100_000
_THINKING = re.compile(r"<think>.*?</think>", re.DOTALL)


class EntityReply(msgspec.Struct):
    """A name that the model found."""

    name: str
    kind: str = ""


class TagReply(msgspec.Struct):
    """The answer to prompts.ask_tags."""

    tags: list[str]
    topics: list[str] = []
    entities: list[EntityReply] = []
    language: str = ""

    def tagged(self) -> Tagged:
        kinds = {str(kind): kind for kind in EntityKind}
        entities = tuple(
            Entity(kinds[one.kind.lower()], one.name) for one in self.entities if one.kind.lower() in kinds
        )
        return Tagged(
            tags=tuple(self.tags), topics=tuple(self.topics), entities=entities, language=self.language.lower()
        )


class PictureReply(msgspec.Struct):
    """The answer to prompts.ask_picture."""

    classification: Classification
    description: str
    is_meme: bool = False
    labels: list[str] = []
    objects: list[str] = []
    scene: str = ""
    text: str = ""
    nsfw_score: float | None = None
    dominant_colors: list[str] = []


class SentenceReply(msgspec.Struct):
    """A sentence with the numbers of its passages."""

    text: str
    sources: list[str | int] = []


class AnswerReply(msgspec.Struct):
    """The answer to prompts.ask_answer."""

    sentences: list[SentenceReply]


Form = TypeVar("Form", TagReply, PictureReply, AnswerReply)


def read_reply(text: str, form: type[Form]) -> Form:
    """The JSON object in a model's answer, whatever it wrote around it. Raises ValueError with what is wrong."""
    if len(text) > _LARGEST:
        raise ValueError("too long")
    words = _THINKING.sub("", text)
    start, end = words.find("{"), words.rfind("}")
    if start < 0 or end < start:
        raise ValueError("no JSON object")
    try:
        return msgspec.json.decode(words[start : end + 1].encode("utf-8", "replace"), type=form)
    except msgspec.DecodeError as exc:
        raise ValueError(_told(exc)) from exc


def _told(exc: msgspec.DecodeError) -> str:
    """Where it is wrong. Never the value: the reason goes into the next prompt, and a post may have planted it."""
    place = re.search(r"\$[\w.\[\]]{0,40}", str(exc))
    return f"wrong at {place[0]}" if isinstance(exc, msgspec.ValidationError) and place else "broken JSON"
