"""What a name may be in the nominative, where the dictionary does not know it or takes it for another word.

Of "Маска" and "Маску" the dictionary makes a mask, and of "Шольца" a "шолец". Names that end in a consonant all inflect
alike, so taking the ending away gives the name.
"""

from __future__ import annotations

import re

_CONSONANTS = "бвгджзклмнпрстфхцчшщ"
# Маск-ом, Шольц-ем, Силуанов-ым; Гогол-я; Миле-я, Миле-ем. The last one is what the nominative has instead.
_ENDINGS = (
    (re.compile(f"(..*[{_CONSONANTS}])(?:\u0430|\u0443|\u0435|ом|ем|ым)"), ""),
    (re.compile(f"(.*[{_CONSONANTS}])[яю]"), "ь"),
    (re.compile("(..*[аеиоуыэюя])(?:я|ю|ем)"), "й"),
)
_NOMINATIVE = re.compile(f".+[{_CONSONANTS}йь]")


def nominatives(word: str) -> tuple[str, ...]:
    """Of a folded word, as it is or without its ending."""
    found = [word] if _NOMINATIVE.fullmatch(word) else []
    for pattern, instead in _ENDINGS:
        if ended := pattern.fullmatch(word):
            found.append(ended[1] + instead)
    return tuple(found)
