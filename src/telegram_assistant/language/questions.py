"""What a question asks for (who, when, where, how many, why), and whether a sentence has any of it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import Any

from telegram_assistant.language.clean import has_cyrillic, sentences_of, words_of
from telegram_assistant.language.inflection import Inflection, fold
from telegram_assistant.language.spelling import sound

SAME = 4  # sounds that two forms of a name have in common
_NAMES = ("Surn", "Name", "Patr", "Geox", "Orgn")  # as pymorphy3 calls them
_DIGITS = re.compile(r"\d+")
_CLOCK = re.compile(r"\b(?:19|20)\d\d\b|\b\d{1,2}[:.]\d\d\b")
_SOURCE = re.compile(r"\s[\u2014\u2013-]\s*(?:[^\s.!?]+\s*){1,3}$")  # who says so, after a dash at the end
_TELLING = {"NOUN", "VERB", "INFN", "PRTF", "PRTS", "ADJS", None}


class Asked(StrEnum):
    """The thing that an answer must have."""

    AGE = "age"
    CHARGE = "charge"
    REASON = "reason"
    NUMBER = "number"
    TIME = "time"
    PLACE = "place"
    NAME = "name"
    ANYTHING = "anything"


def asks_for(question: str) -> Asked:
    found = fold(question)
    return next((Asked(name) for name, words in _patterns("asks").items() if words.search(found)), Asked.ANYTHING)


def asks_for_now(question: str) -> bool:
    """Then what was said last counts."""
    return not _words("now").isdisjoint(map(fold, words_of(question)))


def days_back(question: str) -> int | None:
    """How many days old a post may be that answers: "today" and "tomorrow" are told of now. None: as old as any."""
    found = fold(question)
    return next((int(days) for days, words in _patterns("days").items() if words.search(found)), None)


def has_answer(sentence: str, asked: Asked, question: str, inflection: Inflection) -> bool:
    """Whether it has what the question asks for, and not only what the question itself says."""
    folded = fold(sentence)
    match asked:
        case Asked.ANYTHING:
            return True
        case Asked.PLACE | Asked.NAME:
            known = {sound(fold(word))[:SAME] for word in words_of(question)}
            found = _names_told(_SOURCE.sub("", sentence), inflection, places=asked is Asked.PLACE)
            return any(sound(fold(name))[:SAME] not in known for name in found)
        case Asked.NUMBER if set(_DIGITS.findall(sentence)) - set(_DIGITS.findall(question)):
            return True
        case Asked.TIME if _CLOCK.search(sentence):
            return True
    return bool(_patterns("shows")[asked].search(folded))


def focus_of(words: Sequence[str], inflection: Inflection) -> str:
    """The word that is asked about: "president" in "who is the president of Chad". `words`: those that are no names."""
    return next((word for word in words if not is_weak(word, inflection) and _tells(word, inflection)), "")


def is_weak(word: str, inflection: Inflection) -> bool:
    """One that stands in any question, as "years" and "become"."""
    return not _words("weak").isdisjoint((fold(word), inflection.lemma(word)))


def _tells(word: str, inflection: Inflection) -> bool:
    """No Russian adjective, adverb or numeral: the noun after it is what is meant."""
    return not has_cyrillic(word) or inflection.parse(fold(word))[0].tag.POS in _TELLING


@cache
def said_for(lemma: str) -> frozenset[str]:
    """Lemmas that are said instead of this one, in Russian or English."""
    rows = [frozenset(map(fold, line.split())) for line in _lists()["same"]["lines"]]
    return frozenset().union(*(row for row in rows if lemma in row))


def is_home(word: str) -> bool:
    return fold(word) in _words("home")


def is_date(word: str) -> bool:
    """Months and days of the week, which English writes like names."""
    return bool(_patterns("shows")[Asked.TIME].match(fold(word)))


def is_name(word: str, inflection: Inflection, *, first: bool) -> bool:
    """Written as one, or known as one: people do not always write them with a capital letter. `first` of a sentence."""
    if word[0].isupper() and not first:
        return True
    if not has_cyrillic(word):
        return word[0].isupper()
    likeliest = inflection.parse(fold(word))[0]
    return any(kind in likeliest.tag for kind in _NAMES) or (word[0].isupper() and not likeliest.is_known)


def _names_told(text: str, inflection: Inflection, *, places: bool) -> Iterator[str]:
    """Names, or only those that may be places: known as one, or after a word like "in"."""
    for sentence in sentences_of(text):
        for before, word in pairwise(["", *words_of(sentence)]):
            if not word[0].isupper() or len(word) == 1 or not is_name(word, inflection, first=not before):
                continue
            if not places or fold(before) in _words("places") or "Geox" in _tag(word, inflection):
                yield word


def _tag(word: str, inflection: Inflection) -> str:
    return str(inflection.parse(fold(word))[0].tag) if has_cyrillic(word) else ""


@cache
def _lists() -> dict[str, Any]:
    return tomllib.loads(files(__package__).joinpath("questions.toml").read_text("utf-8"))


@cache
def _words(name: str) -> frozenset[str]:
    return frozenset(fold(word) for word in _lists()["words"][name].split())


@cache
def _patterns(section: str) -> dict[str, re.Pattern[str]]:
    end = r"\b" if section == "asks" else ""
    return {
        name: re.compile(rf"\b(?:{fold(words.replace(chr(10), ''))}){end}") for name, words in _lists()[section].items()
    }
