"""Whose remote models are used, and where they are. Keys are never shown."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


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
