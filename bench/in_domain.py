"""Questions to real news posts, for `retrieval.py`.

There every right answer is an encyclopaedia paragraph and every other text a news post, so what only tells the two
apart would look like progress. Here all texts are news.

The first sentence of a post must find the rest of it, among all other posts. And English queries, written by hand
(`english_news.toml`), must find the Russian posts that they were written for.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.corpus import RealPost
from telegram_assistant.language.clean import plain, sentences_of

ENGLISH_QUERIES = Path(__file__).with_name("english_news.toml")
CUT = 200  # posts
EVERY = 7  # only one of so many is looked at
FIRST_WORDS, REST_WORDS = 5, 20  # at least
TOLD_AGAIN = 0.75  # so near is another post that tells the same


@dataclass(frozen=True, slots=True)
class CutPost:
    """A post in two pieces, and its place among all."""

    place: int
    first: str
    rest: str


def cut_posts(texts: Sequence[str], vectors: NDArray[np.float32]) -> list[CutPost]:
    """Some posts that no other post repeats."""
    found: list[CutPost] = []
    for place in range(0, len(texts), EVERY):
        first, *rest = sentences_of(plain(texts[place])) or [""]
        cut = CutPost(place, first, " ".join(rest))
        long_enough = len(first.split()) >= FIRST_WORDS and len(cut.rest.split()) >= REST_WORDS
        if long_enough and np.sort(vectors @ vectors[place])[-2] < TOLD_AGAIN:
            found.append(cut)
    return found[:: max(1, len(found) // CUT)][:CUT]


def english_queries(posts: Sequence[RealPost]) -> list[tuple[str, list[int]]]:
    """Each with the places of the posts that tell it."""
    places = {f"{post.channel_id}/{post.message_id}": place for place, post in enumerate(posts)}
    read = tomllib.loads(ENGLISH_QUERIES.read_text(encoding="utf-8"))["queries"]
    return [(one["ask"], [places[post] for post in one["posts"]]) for one in read]
