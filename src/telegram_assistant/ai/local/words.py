"""Languages without a grammar here, English first: phrases between function words, names by their capitals."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from telegram_assistant.ai.local.models import Matrix, Models, unit
from telegram_assistant.ai.local.phrases import Found, Phrase, gathered
from telegram_assistant.domain.models import Entity, EntityKind
from telegram_assistant.language.clean import sentences_of
from telegram_assistant.language.stopwords import StopWords

_WORD = re.compile(r"[^\W_]+(?:[-'\u2019\u02bc.&][^\W_]+)*")
_LETTERS = re.compile(r"[^\W\d_]{2}")
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
_VERB_AFTER_NAME = re.compile("(?:[^s]s|ed)$")
_OF_A_NATION = re.compile("(?:ish|ese|ian|ean|ican|german|french|dutch|greek|swiss|thai|iraqi|israeli|pakistani)$")
_LONGEST_PHRASE = 3
_LONGEST_NAME = 4
_MOST_NAMES = 24
_COMMON = 3e-4  # a share above this has only function words and the like
_ORDINARY = 0.3  # of a sentence's capitalised words
_CAPITALISED_NOUNS = {"de", "lb"}
_SURE = 0.05
_JOINING = {"of", "the", "de", "la", "von", "van", "al", "bin", "del", "du", "da", "dos"}
# Ordinary words that begin names.
_OPENING = {"new", "los", "las", "san", "saint", "great", "north", "south", "east", "west", "united", "el", "la", "le"}
_TITLES = {
    "president",
    "minister",
    "mr",
    "mrs",
    "ms",
    "dr",
    "senator",
    "chancellor",
    "governor",
    "judge",
    "king",
    "queen",
}
_TITLES |= {"pope", "prince", "princess", "general", "colonel", "sir", "professor", "mayor", "ceo"}
_INSTITUTIONS = {
    "inc",
    "corp",
    "ltd",
    "llc",
    "university",
    "bank",
    "ministry",
    "agency",
    "party",
    "council",
    "committee",
}
_INSTITUTIONS |= {
    "union",
    "court",
    "institute",
    "group",
    "airlines",
    "motors",
    "foundation",
    "commission",
    "department",
}
_INSTITUTIONS |= {"association", "fc", "gmbh", "company", "corporation", "times", "post", "news"}
# What names of each kind look like to the sentence encoder; the last row is what is no name of ours.
_EXAMPLES: dict[EntityKind | None, tuple[str, ...]] = {
    EntityKind.PLACE: (
        "London",
        "France",
        "Tokyo, Japan",
        "California",
        "Nigeria",
        "Berlin",
        "Texas",
        "South Korea",
        "Cairo",
    ),
    EntityKind.ORGANISATION: (
        *("Microsoft", "United Nations", "Bank of America", "Google", "NATO", "Harvard University", "Reuters"),
        *("Ministry of Defense", "Boeing", "European Commission"),
    ),
    EntityKind.PERSON: (
        *("John Smith", "Angela Merkel", "Emmanuel Macron", "Maria Garcia", "Elon Musk", "Vladimir Putin", "Anna"),
        *("David Brown", "Li Wei", "Mohammed Ali"),
    ),
    None: (
        *("Bitcoin", "Christmas", "Monday", "English", "iPhone", "Python", "Super Bowl", "Internet", "Android"),
        *("Congress hearing", "Python code", "Windows", "Breaking news", "Thanks", "Black Friday"),
    ),
}


@dataclass(frozen=True, slots=True)
class _Word:
    """A word, its place in the text, and whether only a space stands before it."""

    text: str
    place: int
    glued: bool
    first: bool  # of its sentence

    @property
    def capital(self) -> bool:
        return self.text[0].isupper()


class OtherReader:
    """Reads a text of any language but Russian."""

    def __init__(self, models: Models, stop: StopWords) -> None:
        self._models = models
        self._stop = stop
        self._kinds = tuple(_EXAMPLES)
        self._centres: Matrix = unit(
            np.stack([models.sentence_vectors(examples).mean(axis=0) for examples in _EXAMPLES.values()])
        )

    def read(self, text: str, language: str) -> Found:
        if len(_UNSPACED.findall(text)) * 3 > len(text):
            return Found(gathered(self._unspaced(text)), ())
        phrases: list[Phrase] = []
        names: list[tuple[Phrase, str]] = []
        place = 0
        for sentence in sentences_of(text):
            words = _words(sentence, place)
            place += len(words)
            telling = language not in _CAPITALISED_NOUNS and not self._in_title_case(words)
            found = list(self._names(words)) if telling else []
            names += found
            inside = {at for name, _ in found for at in range(name.places[0], name.places[0] + len(name.keys))}
            phrases += self._phrases(words, inside)
        together = gathered([*(name for name, _ in names), *phrases])
        return Found(together, self._entities([pair for pair in names if any(pair[0] is one for one in together)]))

    def _phrases(self, words: Sequence[_Word], names: set[int]) -> Iterator[Phrase]:
        run: list[_Word] = []
        for word in words:
            after_name = word.place - 1 in names and word.glued and bool(_VERB_AFTER_NAME.search(word.text))
            breaks = word.place in names or after_name or self._breaks(word)
            if run and (breaks or not word.glued):
                yield from self._of_run(run)
                run = []
            if not breaks:
                run.append(word)
        yield from self._of_run(run)

    def _of_run(self, run: Sequence[_Word]) -> Iterator[Phrase]:
        for size in range(1, _LONGEST_PHRASE + 1):
            for start in range(len(run) - size + 1):
                words = run[start : start + size]
                if not words[-1].text.lower().endswith(self._stop.no_noun) and not words[0].text.lower().endswith("ly"):
                    yield self._phrase(words)

    def _names(self, words: Sequence[_Word]) -> Iterator[tuple[Phrase, str]]:
        """Runs of capitalised words, with the word before them."""
        at = 0
        while at < len(words):
            size = self._name_size(words[at:])
            if size:
                before = words[at - 1].text.lower() if at and words[at].glued else ""
                yield self._phrase(words[at : at + size], name=True), before
            at += max(size, 1)

    def _name_size(self, words: Sequence[_Word]) -> int:
        """Of the name that begins here; 0 for none."""
        opens = words[0].capital and words[0].text.lower() in _OPENING and len(words) > 1 and self._is_name(words[1])
        if not opens and not self._is_name(words[0]):
            return 0
        size = 1
        for more, word in enumerate(words[1:_LONGEST_NAME], start=2):
            if not word.glued or words[more - 2].text.endswith(("'s", "\u2019s")):
                break
            if self._is_name(word):
                size = more
            elif word.text.lower() not in _JOINING:
                break
        return 0 if size == 1 and not self._alone(words[0], words[1:2]) else size

    def _alone(self, word: _Word, following: Sequence[_Word]) -> bool:
        """Whether one capitalised word is a name: neither "German" of an engineer nor just the first of a sentence."""
        noun_follows = bool(following) and following[0].glued and not self._breaks(following[0])
        if noun_follows and _OF_A_NATION.search(word.text.lower()):
            return False
        known = self._models.share(word.text) > self._models.share(word.text.lower())
        return not word.first or known or word.text[1:].isupper()

    def _is_name(self, word: _Word) -> bool:
        return word.capital and not self._breaks(word) and word.text.lower() not in _TITLES

    def _entities(self, names: Sequence[tuple[Phrase, str]]) -> tuple[Entity, ...]:
        names = names[:_MOST_NAMES]
        near = self._models.sentence_vectors([name.text for name, _ in names]) @ self._centres.T
        kinds = [self._kind(name, before, row) for (name, before), row in zip(names, near, strict=True)]
        return tuple(Entity(kind, name.text) for (name, _), kind in zip(names, kinds, strict=True) if kind)

    def _kind(self, name: Phrase, before: str, near: Matrix) -> EntityKind | None:
        """By the words around it, else by what the encoder knows of the name; None where neither is sure."""
        if any(word.lower() in _INSTITUTIONS for word in name.text.split()):
            return EntityKind.ORGANISATION
        if before in _TITLES:
            return EntityKind.PERSON
        order = np.argsort(near)
        return self._kinds[int(order[-1])] if near[order[-1]] - near[order[-2]] >= _SURE else None

    def _in_title_case(self, words: Sequence[_Word]) -> bool:
        """A headline that capitalises ordinary words too: capitals tell nothing there."""
        capitals = [word for word in words if word.capital and not word.first]
        ordinary = [
            word
            for word in capitals
            if self._breaks(word) and word.text.istitle() and word.text.lower() not in _OPENING
        ]
        return len(capitals) > 3 and len(ordinary) > _ORDINARY * len(capitals)

    def _breaks(self, word: _Word) -> bool:
        text = word.text.lower()
        common = self._models.share(text) > _COMMON or text in self._stop.breaking
        return not _LETTERS.search(text) or (common and not word.text.isupper()) or (common and len(text) < 3)

    def _phrase(self, words: Sequence[_Word], *, name: bool = False) -> Phrase:
        keys = tuple(self._models.inflection.lemma(word.text) for word in words)
        texts = [word.text.lower() if word.first and word.text.istitle() and not name else word.text for word in words]
        texts[-1] = re.sub("['\u2019]s$", "", texts[-1])
        return Phrase(" ".join(texts), keys, [words[0].place], name=name, person=name)

    def _unspaced(self, text: str) -> Iterator[Phrase]:
        for place, piece in enumerate(self._models.pieces(text)):
            if (
                len(piece) > 1
                and _UNSPACED.match(piece)
                and piece.isalpha()
                and self._models.share(piece) < _COMMON / 10
            ):
                yield Phrase(piece, (piece,), [place])


def _words(sentence: str, place: int) -> list[_Word]:
    words: list[_Word] = []
    end = 0
    for match in _WORD.finditer(sentence):
        glued = not sentence[end : match.start()].strip(" ")
        words.append(_Word(match[0], place + len(words), glued and bool(words), first=not words))
        end = match.end()
    return words
