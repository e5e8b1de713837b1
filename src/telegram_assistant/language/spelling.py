"""What a word of a query may have been meant to be, among the words of the archive.

A word that the archive does not have may be misspelt, typed with the other keyboard, or written in the other alphabet:
"Набиулиной", "yfgbcfyj", "чатгпт". The archive's own words are the dictionary, so names of the day are in it.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping

from rapidfuzz.distance import DamerauLevenshtein
from rapidfuzz.process import extract

from telegram_assistant.language.clean import has_cyrillic
from telegram_assistant.language.inflection import fold
from telegram_assistant.language.lexemes import Lexicon

SHORTEST = 4  # letters of a word that can be misspelt; of shorter ones too many are alike
TWO_MISTAKES = 7  # letters from which two mistakes are likely
MORE_COMMON = 5  # times that the name in the other alphabet must be, if the archive has the word
MUCH_MORE_COMMON = 20  # times that another spelling must be: archives have misspelt words too
IN_DICTIONARY = 3  # documents that a word of the dictionary counts for, if the archive has none
MANY = 20  # words that are compared by how common they are
LEAST_ALIKE = 0.5  # of two words in different alphabets that sound alike
LITTLE_SOUND, MORE_ALIKE = 2, 0.6  # where so few consonants are all that they have in common

_LETTERS = (
    "а:a б:b в:v г:g д:d е:e ж:zh з:z и:i й:y к:k л:l м:m н:n о:o п:p р:r с:s т:t у:u ф:f х:kh ц:ts ч:ch"  # noqa: RUF001 - both alphabets
    " ш:sh щ:sch ъ: ы:y ь: э:e ю:yu я:ya і:i ї:i є:e ґ:g ў:u"  # noqa: RUF001 - both alphabets
)
_LATIN = {pair[0]: pair[2:] for pair in _LETTERS.split()}
_KEYS = dict(zip("йцукенгшщзхъфывапролджэячсмитьбю", "qwertyuiop[]asdfghjkl;'zxcvbnm,.", strict=True))
_OTHER_KEYBOARD = str.maketrans(_KEYS | {latin: cyrillic for cyrillic, latin in _KEYS.items()})
# How Latin letters are heard, the longest first; what is not here stands for itself.
_SOUNDS = "dzh:J sch:S tch:C sh:S ch:C zh:J kh:h ph:f wh:v th:t ck:k qu:kv tz:ts ce:se ci:si cy:sy c:k q:k w:v x:ks j:J"
_HEARD = dict(pair.split(":") for pair in _SOUNDS.split())
_HEARD_AS = re.compile("|".join(_HEARD))
_DOUBLED = re.compile(r"(.)\1+")
_VOWELS = re.compile("[aeiouy]+")


def latin(word: str) -> str:
    """A folded word in Latin letters."""
    return "".join(_LATIN.get(letter, letter) for letter in word)


def sound(word: str) -> str:
    """The consonants of a word as they are heard, in whichever alphabet it is written: эппл and apple are equal."""
    heard = _HEARD_AS.sub(lambda found: _HEARD[found[0]], latin(word))
    first = "A" if _VOWELS.match(heard) else ""
    return first + _DOUBLED.sub(r"\1", _VOWELS.sub(" ", _DOUBLED.sub(r"\1", heard))).replace(" ", "")


def _spoken(word: str) -> bool:
    """Whether it has vowels: an abbreviation without any is not how a name sounds, and musk is no МСК."""  # noqa: RUF002 - an example
    return bool(_VOWELS.search(latin(word)))


class Vocabulary:
    """The words of the archive as they are written, folded, and in how many documents each stands."""

    def __init__(self, documents: Mapping[str, int], lexicon: Lexicon) -> None:
        self._lexicon = lexicon
        self._documents = {word: count for word, count in documents.items() if word.isalpha()}
        self._by_length: dict[int, list[str]] = defaultdict(list)
        self._by_sound: dict[str, list[str]] = defaultdict(list)
        for word in self._documents:
            self._by_length[len(word)].append(word)
            self._by_sound[sound(word)].append(word)

    def meant(self, word: str) -> str | None:
        """The likeliest other word, if the archive has next to nothing for this one."""
        folded = fold(word)
        if not folded.isalpha():
            return None
        known = self._documents.get(folded, 0)
        # A word of the dictionary may be one that the archive does not have.
        enough = MUCH_MORE_COMMON * max(known, self._lexicon.knows(folded) * IN_DICTIONARY)
        typo = self._misspelt(folded, enough)
        if (other := self._other_keyboard(folded)) is not None:
            return other
        if typo is not None and self._lexicon.knows(typo) and sound(typo) == sound(folded):
            return typo  # биржжа is биржа, however often posts have @birzha
        likely = [self._other_alphabet(folded, MORE_COMMON * known), typo]
        return max(filter(None, likely), key=self._documents.__getitem__, default=None)

    def _other_keyboard(self, word: str) -> str | None:
        other = word.translate(_OTHER_KEYBOARD)
        return other if len(word) >= SHORTEST and self._documents.get(other, 0) > self._documents.get(word, 0) else None

    def _other_alphabet(self, word: str, enough: int) -> str | None:
        """A name as the other alphabet writes it."""
        spoken, written = sound(word), latin(word)
        least = MORE_ALIKE if len(spoken) <= LITTLE_SOUND else LEAST_ALIKE
        likely = [
            (DamerauLevenshtein.normalized_similarity(written, latin(other)), other)
            for other in self._by_sound.get(spoken, ())
            if has_cyrillic(other) != has_cyrillic(word)
            and self._documents[other] >= enough
            and _spoken(other) == _spoken(word)
        ]
        likely = [(alike, other) for alike, other in likely if alike >= least]
        return max(likely, key=lambda one: one[0] + self._weight(one[1]), default=(0.0, None))[1]

    def _misspelt(self, word: str, enough: int) -> str | None:
        """What is like the word itself; or like a guessed dictionary form of it, and begins as the word does."""
        found = self._like(word, 2 if len(word) >= TWO_MISTAKES else 1)
        for lemma in {*self._lexicon.lemmas(word)} - {word}:
            guessed = [(2, weight, other) for _, weight, other in self._like(lemma, 1)]
            found += [one for one in guessed if one[2].startswith(word[: (len(word) + 1) // 2])]
        likely = [one for one in found if one[2] != word and self._documents[one[2]] >= enough]
        return min(likely, default=(0, 0.0, None))[2]

    def _like(self, word: str, most: int) -> list[tuple[int, float, str]]:
        """Words with at most so many mistakes."""
        if len(word) < SHORTEST:
            return []
        lengths = range(len(word) - most, len(word) + most + 1)
        near = [other for length in lengths for other in self._by_length.get(length, ())]
        scored = extract(word, near, scorer=DamerauLevenshtein.distance, score_cutoff=most, limit=MANY)
        return [(int(mistakes), -self._weight(other), other) for other, mistakes, _ in scored]

    def _weight(self, word: str) -> float:
        """Up to 0.2 for a word that is very common: of two that are as near the commoner one was meant."""
        return 0.02 * min(10.0, math.log2(self._documents[word]))
