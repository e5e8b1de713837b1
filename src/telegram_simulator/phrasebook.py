"""The hand-written words and sentences of one language, read from `phrases/` and made ready for filling in."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, TypeAlias

Facts: TypeAlias = dict[str, int | float]  # a number, or the index of a word
LANGUAGES = ("ru", "en")
MARKS = {"*": "bold", "_": "italic", "`": "code"}
TOKEN = re.compile(r"\{([a-z]+)(?:\.([a-z]+))?((?:~[^}~]+)*)\}|([*_`])|([^{*_`]+)")


@dataclass(slots=True, frozen=True)
class Token:
    """A piece of a sentence: plain text, a mark that opens or closes a format, or a fact to fill in."""

    text: str = ""
    mark: str = ""
    fact: str = ""
    words: tuple[tuple[str, ...], ...] = ()  # all words of the fact's list, each with its forms
    form: int = 0
    nouns: tuple[str, ...] = ()  # that agree with a number


Sentence: TypeAlias = tuple[Token, ...]


@dataclass(slots=True, frozen=True)
class Kind:
    """A kind of story in one language."""

    topic: str
    headlines: tuple[Sentence, ...]
    details: tuple[Sentence, ...]


@dataclass(slots=True, frozen=True)
class Phrasebook:
    """Everything one language can say."""

    language: str
    kinds: dict[str, Kind]
    leads: dict[str, tuple[str, ...]]  # emoji that open a post, by topic
    hashtags: dict[str, tuple[str, ...]]  # by topic
    more: dict[str, tuple[str, ...]]  # sentences that fit any story of a topic
    names: dict[str, tuple[str, ...]]  # channel titles by topic
    phrases: dict[str, tuple[str, ...]]

    def fill(self, token: Token, facts: Facts) -> str:
        """What stands in the text for a token, given the facts."""
        if not token.fact:
            return token.text
        value = facts[token.fact]
        if token.words:
            return token.words[int(value)][token.form]
        number = self.number(value)
        return f"{number} {self.agree(int(value), token.nouns)}" if token.nouns else number

    def number(self, value: float) -> str:
        if isinstance(value, int):
            return f"{value:,}".replace(",", "\N{NO-BREAK SPACE}" if self.language == "ru" else ",")
        return f"{value:.1f}".replace(".", "," if self.language == "ru" else ".")

    def agree(self, value: int, nouns: tuple[str, ...]) -> str:
        if self.language != "ru":
            return nouns[0] if value == 1 else nouns[1]
        if value % 10 == 1 and value % 100 != 11:
            return nouns[0]
        return nouns[1] if value % 10 in (2, 3, 4) and value % 100 not in (12, 13, 14) else nouns[2]


@dataclass(slots=True, frozen=True)
class Plot:
    """A kind of story in no language: its topic, and what its facts are."""

    topic: str
    words: dict[str, tuple[str, int]]  # fact -> word list and how many words that has
    counts: dict[str, tuple[int, int]]
    shares: dict[str, tuple[float, float]]
    event: bool = False  # it does not happen by itself


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads(files(__package__).joinpath("phrases", f"{name}.toml").read_text("utf-8"))


@cache
def plots() -> dict[str, Plot]:
    """Every kind of story there is."""
    sizes = {name: len(words) for name, words in _read(LANGUAGES[0])["words"].items()}
    return {
        kind: Plot(
            topic=raw["topic"],
            words={f: (v, sizes[v]) for f, v in raw["facts"].items() if isinstance(v, str)},
            counts={f: (v[0], v[1]) for f, v in raw["facts"].items() if isinstance(v[0], int)},
            shares={f: (v[0], v[1]) for f, v in raw["facts"].items() if isinstance(v[0], float)},
            event=raw.get("event", False),
        )
        for kind, raw in _read("stories").items()
    }


@cache
def phrasebook(language: str) -> Phrasebook:
    """The book of a language (`ru` or `en`)."""
    raw = _read(language)
    words = {name: tuple(tuple(word.split("|")) for word in listed) for name, listed in raw["words"].items()}
    forms = {name: line.split() for name, line in raw["forms"].items()}

    def sentences(kind: str, part: str) -> tuple[Sentence, ...]:
        plot = plots()[kind]
        return tuple(_sentence(line, plot, words, forms) for line in raw["kinds"][kind][part])

    return Phrasebook(
        language=language,
        kinds={
            kind: Kind(plot.topic, sentences(kind, "headlines"), sentences(kind, "details"))
            for kind, plot in plots().items()
        },
        leads={topic: tuple(part["leads"]) for topic, part in raw["topics"].items()},
        hashtags={topic: tuple(part["hashtags"]) for topic, part in raw["topics"].items()},
        more={topic: tuple(part["more"]) for topic, part in raw["topics"].items()},
        names={topic: tuple(names) for topic, names in raw["names"].items()},
        phrases={name: tuple(lines) for name, lines in raw["phrases"].items()},
    )


def _sentence(
    line: str, plot: Plot, words: dict[str, tuple[tuple[str, ...], ...]], forms: dict[str, list[str]]
) -> Sentence:
    tokens = []
    for fact, form, nouns, mark, text in TOKEN.findall(line):
        if mark:
            tokens.append(Token(mark=MARKS[mark]))
        elif text:
            tokens.append(Token(text=text))
        elif fact in plot.words:
            listed = plot.words[fact][0]
            tokens.append(Token(fact=fact, words=words[listed], form=forms[listed].index(form) if form else 0))
        else:
            tokens.append(Token(fact=fact, nouns=tuple(nouns[1:].split("~")) if nouns else ()))
    return tuple(tokens)
