"""What topics are called: the taxonomy has a name in both languages for each key."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from telegram_assistant.ai.taxonomy import load_taxonomy


@cache
def _names(file: Path | None) -> dict[str, tuple[str, str]]:
    return dict(load_taxonomy(file).names())


def topic_title(key: str, language: str, file: Path | None = None) -> str:
    """A topic of a taxonomy that is not used any more keeps its key."""
    russian, english = _names(file).get(key, (key, key))
    return russian if language == "ru" else english
