"""What a remote provider must be able to do for remote.py. Its failures are Trouble (gate.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from telegram_assistant.ai.prompts import Ask


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a chat model wrote, and what its server says that took: remote.py decides what of it is believed."""

    text: str
    tokens_in: object = None
    tokens_out: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorReply:
    """A vector for each text, of any length, and what the server says they took."""

    vectors: Sequence[Sequence[float]]
    tokens: object = None


class ChatModel(Protocol):
    """Answers in words, perhaps looking at a picture (a JPEG)."""

    @property
    def provider(self) -> str: ...

    @property
    def model(self) -> str: ...

    async def ask(self, ask: Ask, picture: bytes | None = None) -> Reply: ...


class VectorModel(Protocol):
    """Makes vectors of texts."""

    @property
    def provider(self) -> str: ...

    @property
    def model(self) -> str: ...

    async def vectors(self, texts: Sequence[str]) -> VectorReply: ...


class Connection(Protocol):
    """A provider that can be reached; nothing is connected before the first question."""

    def chat(self, model: str) -> ChatModel: ...

    def vectors(self, model: str) -> VectorModel: ...

    async def close(self) -> None: ...
