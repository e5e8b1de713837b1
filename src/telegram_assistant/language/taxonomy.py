"""The topics a post can have, from a file that an operator may replace."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

import msgspec

from telegram_assistant.errors import Fatal

MOST_TOPICS = 3
ADS = "ads"
NOISE = frozenset({ADS, "humor"})  # topics that are no news
# Topics that a letter tells under the heading of another one.
_TOLD_UNDER = {
    "politics": ("diplomacy",),
    "economy": ("finance", "crypto", "business", "energy", "realty", "work"),
    "science": ("space", "nature"),
    "technology": ("programming", "ai", "gaming"),
    "incidents": ("crime", "weather"),
    "society": ("health", "education", "religion", "history", "city", "auto", "travel", "food"),
    "culture": ("celebrities",),
}
_HEADINGS = {topic: heading for heading, topics in _TOLD_UNDER.items() for topic in topics}


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    """A topic as it stands in the file."""

    ru: str
    en: str
    about: list[str]
    keywords_ru: str = ""
    keywords_en: str = ""


@dataclass(frozen=True, slots=True)
class Topic:
    """A broad category: its key is stored, its names are shown."""

    key: str
    ru: str
    en: str
    about: tuple[str, ...]  # what a post of this topic sounds like
    keywords: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Taxonomy:
    """All topics, in their order in the file."""

    topics: tuple[Topic, ...]
    version: str  # changes with the file's content

    def known(self, names: Iterable[str]) -> tuple[str, ...]:
        """The keys of those names that are topics, each once, at most three."""
        by_name = {name.casefold(): topic.key for topic in self.topics for name in (topic.key, topic.ru, topic.en)}
        found = (by_name.get(" ".join(name.split()).casefold()) for name in names)
        return tuple(dict.fromkeys(key for key in found if key))[:MOST_TOPICS]

    def names(self) -> Mapping[str, tuple[str, str]]:
        """Russian and English name by key."""
        return {topic.key: (topic.ru, topic.en) for topic in self.topics}


@cache
def load_taxonomy(path: Path | None = None) -> Taxonomy:
    """The topics of a file, read once; without one, our own."""
    where = files(__package__).joinpath("topics.toml") if path is None else path
    try:
        content = where.read_bytes()
        entries = msgspec.convert(tomllib.loads(content.decode()), dict[str, _Entry])
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as exc:
        raise Fatal(f"the file of topics {where} cannot be used: {exc}") from exc
    if not entries:
        raise Fatal(f"the file of topics {where} has no topic")
    topics = tuple(
        Topic(key, entry.ru, entry.en, tuple(entry.about), _listed(f"{entry.keywords_ru},{entry.keywords_en}"))
        for key, entry in entries.items()
    )
    return Taxonomy(topics, hashlib.sha256(content).hexdigest()[:8])


def _listed(keywords: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for raw in keywords.split(",") if (word := " ".join(raw.split()))))


def heading_of(topic: str) -> str:
    """The topic under which a letter tells it."""
    return _HEADINGS.get(topic, topic)


def topic_title(key: str, language: str, file: Path | None = None) -> str:
    """A topic of a taxonomy that is not used any more keeps its key."""
    russian, english = load_taxonomy(file).names().get(key, (key, key))
    return russian if language == "ru" else english
