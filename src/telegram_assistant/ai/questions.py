"""What a question is about, apart from the words that only ask."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files

from telegram_assistant.language.clean import words_of
from telegram_assistant.language.inflection import fold


@cache
def _words(name: str) -> frozenset[str]:
    lists = tomllib.loads(files("telegram_assistant.ai").joinpath("questions.toml").read_text("utf-8"))
    return frozenset(fold(word) for word in lists[name].split())


def without_news(question: str) -> str:
    """Without the words that ask for news of something, as far as it is about something."""
    kept = [word for word in words_of(question) if fold(word) not in _words("news")]
    return " ".join(kept) if subject_of(question) else question


def subject_of(question: str) -> str:
    """The words that it is about; nothing where somebody only wants to know what there is."""
    return " ".join(word for word in words_of(question) if fold(word) not in _words("news") | _words("any"))
