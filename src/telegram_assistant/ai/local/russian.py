"""Russian: noun phrases by slovnet's grammar, put into the nominative; people, organisations and places by its NER."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from telegram_assistant.ai.local.models import Models
from telegram_assistant.ai.local.phrases import Found, Phrase, gathered
from telegram_assistant.domain.models import Entity, EntityKind
from telegram_assistant.language.clean import has_cyrillic
from telegram_assistant.language.inflection import Inflection
from telegram_assistant.language.stopwords import StopWords

_KINDS = {"PER": EntityKind.PERSON, "ORG": EntityKind.ORGANISATION, "LOC": EntityKind.PLACE}
_CASES = {"Nom": "nomn", "Gen": "gent", "Dat": "datv", "Acc": "accs", "Ins": "ablt", "Loc": "loct"}
_NUMBERS = {"Sing": "sing", "Plur": "plur"}
_GENDERS = {"Masc": "masc", "Fem": "femn", "Neut": "neut"}
_NOUNS = {"NOUN", "PROPN"}
_PRESS_SPELLING = str.maketrans({"\u0451": "\u0435", "\u0401": "\u0415"})  # one e for both, as newspapers write
_PROPER = {"Geox", "Name", "Surn", "Patr", "Orgn", "Trad", "Abbr"}
_QUOTES = {'"', "«", "“", "„"}
_LETTERS = re.compile(r"[^\W\d_]{2}")
_MOST_ADJECTIVES = 2
_LONGEST_NAME = 5
_MOST_ENTITIES = 30


@dataclass(frozen=True, slots=True)
class _Token:
    """A word with its grammar."""

    text: str
    pos: str
    feats: dict[str, str]
    place: int
    gap: str  # what stands before it

    @property
    def glued(self) -> bool:
        return not self.gap.strip(" ")

    @property
    def case(self) -> str:
        return self.feats.get("Case", "")

    def agrees(self, other: _Token) -> bool:
        return (self.case, self.feats.get("Number")) == (other.case, other.feats.get("Number"))

    @property
    def noun(self) -> bool:
        return self.pos in _NOUNS and bool(_LETTERS.search(self.text))

    @property
    def adjective(self) -> bool:
        # A short form cannot stand before a noun.
        participle = (
            self.pos == "VERB" and self.feats.get("VerbForm") == "Part" and self.feats.get("Variant") != "Short"
        )
        return (self.pos == "ADJ" or participle) and bool(self.case) and bool(_LETTERS.search(self.text))


class RussianReader:
    """Reads a Russian text with natasha's models."""

    def __init__(self, models: Models, stop: StopWords) -> None:
        self._models = models
        self._stop = stop
        self._inflection = models.inflection

    def read(self, text: str) -> Found:
        doc = self._models.doc(text)
        doc.segment(self._models.segmenter)
        if not doc.tokens:
            return Found((), ())
        doc.tag_morph(self._models.morph)
        doc.tag_ner(self._models.ner)
        tokens = _tokens(doc.tokens, text)
        names = list(self._names(doc.spans, tokens))
        inside = {place for _, phrase, size in names for place in range(phrase.places[0], phrase.places[0] + size)}
        phrases = [phrase for _, phrase, _ in names] + list(self._noun_phrases(tokens, inside))
        kinds = {id(phrase): kind for kind, phrase, _ in names}
        together = gathered(phrases)
        entities = [Entity(kinds[id(phrase)], phrase.text) for phrase in together if id(phrase) in kinds]
        return Found(together, tuple(entities[:_MOST_ENTITIES]))

    def _names(self, spans: Sequence[Any], tokens: Sequence[_Token]) -> Iterator[tuple[EntityKind, Phrase, int]]:
        places = {token.place: token for token in tokens}
        for span in spans:
            words = [word for token in span.tokens if (word := places[token.id]).pos != "PUNCT"]
            if not words or len(words) > _LONGEST_NAME or not _LETTERS.search(span.text):
                continue
            before = tokens[words[0].place - 1].text if words[0].place else ""
            if self._common(words, quoted=before in _QUOTES):
                continue
            phrase = self._phrase(words, name=True, all_names=span.type == "PER")
            yield _KINDS[span.type], phrase, len(words)

    def _common(self, words: Sequence[_Token], *, quoted: bool) -> bool:
        """An ordinary word that was only capitalised, at the start of a sentence or out of respect."""
        first = words[0]
        if len(words) > 1 or quoted or not first.text.istitle() or not has_cyrillic(first.text):
            return False
        best = self._inflection.parse(first.text.lower())[0]
        return best.is_known and not _PROPER & set(best.tag.grammemes)

    def _noun_phrases(self, tokens: Sequence[_Token], names: set[int]) -> Iterator[Phrase]:
        for at, token in enumerate(tokens):
            if not token.noun or token.place in names or not self._can_be_noun(token):
                continue
            before = self._adjectives(tokens, at)
            if before and self._inflection.lemma(tokens[at - before].text) in self._stop.weak:
                before -= 1
            after = self._genitive(tokens, at)
            for start in range(at - before, at + 1):
                yield self._phrase(tokens[start : at + 1])
                if after and start >= at - 1:
                    yield self._phrase(tokens[start : at + 1 + after])

    def _can_be_noun(self, token: _Token) -> bool:
        """The tagger takes rare verbs for nouns; the dictionary knows better."""
        if not has_cyrillic(token.text):
            return True
        return any(found.tag.POS in {"NOUN", "ADJF", "PRTF"} for found in self._inflection.parse(token.text.lower()))

    def _phrase(self, words: Sequence[_Token], *, name: bool = False, all_names: bool = False) -> Phrase:
        """The head and its adjectives in the nominative; what depends on the head in the genitive stays as it is."""
        head = next((at for at, word in enumerate(words) if word.noun), len(words) - 1)
        forms = [
            _shaped(word.text.translate(_PRESS_SPELLING), word.text)
            if at > head and word.case == "Gen" and not all_names
            else inflected(self._inflection, word, name=name)
            for at, word in enumerate(words)
        ]
        keys = tuple(self._inflection.lemma(form) for form in forms)
        text = forms[0] + "".join(
            f" {form}" if word.gap else form for word, form in zip(words[1:], forms[1:], strict=True)
        )
        return Phrase(text, keys, [words[0].place], head=head, name=name, person=all_names)

    @staticmethod
    def _adjectives(tokens: Sequence[_Token], at: int) -> int:
        """How many adjectives before the noun agree with it."""
        count = 0
        while count < _MOST_ADJECTIVES and at - count > 0 and tokens[at - count].glued:
            word = tokens[at - count - 1]
            if not word.adjective or not word.agrees(tokens[at]):
                break
            count += 1
        return count

    @staticmethod
    def _genitive(tokens: Sequence[_Token], at: int) -> int:
        """How many words after the noun depend on it in the genitive: a noun, perhaps with its adjective."""
        following = tokens[at + 1 : at + 3]
        if following and following[0].glued and following[0].case == "Gen":
            if following[0].noun:
                return 1
            if len(following) > 1 and following[0].adjective and following[1].noun and following[1].glued:
                return 2 if following[1].case == "Gen" else 0
        return 0


def inflected(inflection: Inflection, word: _Token, *, name: bool) -> str:
    """The word in the nominative of its own number; names keep their capital letters."""
    text = word.text
    if has_cyrillic(text) and word.case not in {"", "Nom"}:
        text = _nominative(inflection, word) or text
    keep = name or word.pos == "PROPN" or not has_cyrillic(word.text) or not word.text.istitle()
    text = text.translate(_PRESS_SPELLING)
    return _shaped(text, word.text) if keep else text.lower()


def _nominative(inflection: Inflection, word: _Token) -> str:
    """Empty where the dictionary knows no form that fits."""
    case, number = {_CASES.get(word.case, "")}, {_NUMBERS.get(word.feats.get("Number", ""), "")}
    gender = {_GENDERS.get(word.feats.get("Gender", ""), "")} if "sing" in number else set()
    parses = inflection.parse(word.text.lower())
    # The tagger may be wrong about the gender, and then about the number: what it says is dropped in that order.
    for wanted in (case | number | gender, case | number, case):
        fitting = [found for found in parses if wanted - {""} <= set(found.tag.grammemes)]
        form = fitting[0].inflect({"nomn"}) if fitting else None
        if form:
            return str(form.word)
    return ""


def _shaped(text: str, like: str) -> str:
    """With the capital letters of another form of the word, part by part."""
    parts, shapes = text.split("-"), like.split("-")
    if len(parts) != len(shapes):
        return text
    return "-".join(_cased(part, shape) for part, shape in zip(parts, shapes, strict=True))


def _cased(text: str, shape: str) -> str:
    if len(shape) > 1 and shape.isupper():
        return text.upper()
    return text[:1].upper() + text[1:] if shape[:1].isupper() else text


def _tokens(found: Sequence[Any], text: str) -> list[_Token]:
    """Words of the whole text in order; the number of a word is its place."""
    tokens, end = [], 0
    for place, token in enumerate(found):
        gap = text[end : token.start]
        tokens.append(_Token(token.text, token.pos or "X", dict(token.feats or {}), place, gap))
        token.id = place  # the spans share the tokens, and so learn their places
        end = token.stop
    return tokens
