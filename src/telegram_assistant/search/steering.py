"""Sentences of a post that speak to a machine, not to its readers: no answer is made from them.

It is not what keeps an answer honest: a model's sentence must name posts that were given to it and say what stands
there (ai/checks.py). But what a model never reads it cannot obey, and what stands in no passage proves nothing.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from functools import cache
from importlib.resources import files

from telegram_assistant.language.clean import sentences_of, visible

_LISTS = ("machine", "order", "rules")


@cache
def _steering() -> re.Pattern[str]:
    found = tomllib.loads(files(__package__).joinpath("steering.toml").read_text("utf-8"))
    whole = "|".join(found["patterns"])
    for name in _LISTS:
        whole = whole.replace(f"{{{name}}}", found[name].replace("\\\n", ""))
    return re.compile(whole, re.IGNORECASE | re.DOTALL)


def steers(sentence: str) -> bool:
    """Whether it is said to whoever makes answers. Letters of other widths and hidden ones do not help it."""
    return bool(_steering().search(unicodedata.normalize("NFKC", visible(sentence))))


def without_steering(text: str) -> str:
    """The text with the sentences that are for its readers."""
    sentences = sentences_of(visible(text))
    bad = {at for at, one in enumerate(sentences) if steers(one)}
    # An order that is cut in two shows only in both halves together.
    for at in range(1, len(sentences)):
        if not bad & {at - 1, at} and steers(f"{sentences[at - 1]}\n{sentences[at]}"):
            bad |= {at - 1, at}
    return "\n".join(one for at, one in enumerate(sentences) if at not in bad)
