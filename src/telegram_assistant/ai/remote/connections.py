"""What a remote provider is given, and what it must be able to do. Its failures are Trouble (gate.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from telegram_assistant.ai.remote.prompts import Ask


@dataclass(frozen=True, slots=True, kw_only=True)
class GigaChatAccount:
    """GigaChat, by its personal or corporate key."""

    credentials: str = field(repr=False)  # the "authorization key" of the personal account, base64
    scope: str = "GIGACHAT_API_PERS"
    base_url: str = "https://api.giga.chat/v1"
    auth_url: str = "https://ngw.devices.sberbank.ru:9443/api/v2/oauth"
    timeout: float = 60.0
    ca_file: Path | None = None  # its certificates are signed by an authority that most machines do not know


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAiServer:
    """Any server that speaks OpenAI's API."""

    base_url: str
    api_key: str = field(default="", repr=False)
    timeout: float = 60.0
    ca_file: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a chat model wrote, and what its server says that took; `models.py` decides what of it is believed."""

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
