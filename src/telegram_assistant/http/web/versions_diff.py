"""What an edit changed, word by word, as <ins> and <del>."""

from __future__ import annotations

import re
from difflib import SequenceMatcher

from markupsafe import Markup, escape

# Comparing takes as long as the words of one text times those of the other; beyond this all of it counts as changed.
MOST_PAIRS = 1_000_000

_GONE, _NEW = Markup("<del>{}</del>"), Markup("<ins>{}</ins>")
_WORDS = re.compile(r"\s+|\S+\s?")


def diff(old: str, new: str) -> Markup:
    """The new text with what went away from the old one."""
    before, after = _WORDS.findall(old), _WORDS.findall(new)
    start = _same(before, after)
    end = _same(before[start:][::-1], after[start:][::-1])
    old_middle, new_middle = before[start : len(before) - end], after[start : len(after) - end]
    middle = Markup("").join(_changes(old_middle, new_middle))
    return escape("".join(after[:start])) + middle + escape("".join(after[len(after) - end :]))


def _same(one: list[str], other: list[str]) -> int:
    """With how many equal words both begin."""
    return next(
        (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )


def _changes(old: list[str], new: list[str]) -> list[Markup]:
    if len(old) * len(new) > MOST_PAIRS:
        return [_marked(_GONE, old), _marked(_NEW, new)]
    out = []
    for kind, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            out.append(escape("".join(new[j1:j2])))
        else:
            out += [_marked(_GONE, old[i1:i2]), _marked(_NEW, new[j1:j2])]
    return out


def _marked(tag: Markup, words: list[str]) -> Markup:
    return tag.format("".join(words)) if words else Markup("")
