"""Russian words for English ones: a question in English finds Russian posts by its words, too, not by meaning alone.

`translations.txt` has a line for each English stem: the stem, then Russian dictionary forms, the likeliest first.
`scripts/translations.py` made it out of what the local model of meaning holds for near (decision 0019).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from telegram_assistant.domain.query import Clause, Query, Term
from telegram_assistant.language.inflection import fold, stem
from telegram_assistant.language.other_names import is_plain_word

FILE = Path(__file__).with_name("translations.txt")
MOST_WORDS = 12  # of a query that are translated: the rest of a longer one adds little


class Translations:
    """Read when the first English word comes."""

    @cached_property
    def _lines(self) -> dict[str, str]:
        lines = FILE.read_text(encoding="utf-8").splitlines()
        return dict(line.split(" ", 1) for line in lines if line and not line.startswith("#"))

    def of(self, word: str) -> Sequence[str]:
        """None for a word that is not English, or not known."""
        folded = fold(word)
        return self._lines.get(stem(folded), "").split() if folded.isascii() and folded.isalpha() else ()

    def widened(self, query: Query, leave: Sequence[Clause] = ()) -> Query:
        """The same query, in which each English word may be one of its translations as well; but not these."""
        left = MOST_WORDS
        clauses = []
        for clause in query.clauses:
            words = (
                self.of(clause.options[0].words[0]) if left and is_plain_word(clause) and clause not in leave else ()
            )
            left -= bool(words)
            others = tuple(Term((word,), foreign=True) for word in words)
            clauses.append(replace(clause, options=(*clause.options, *others)))
        return replace(query, clauses=tuple(clauses))
