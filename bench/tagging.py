"""Tags and topics of real Russian posts by the local models: are the tags in the text, are there 3 to 5, which topics.

The posts: the file named by TGA_NEWS12 (JSON lines, gzip: text, topic), or `data/news12_ru.jsonl.gz` in a folder beside
the checkout. Its topics were given by a language model, so they are silver; they are other topics than ours, and what
counts as agreement stands in AGREES.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import re
import time
from collections import Counter
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from bench.figure import RESULTS, Figure
from telegram_assistant.ai.local.provider import LocalEmbedder, LocalTagger, ModelProcess
from telegram_assistant.domain.models import Tagged
from telegram_assistant.language.taxonomy import ADS, load_taxonomy

Answer = TypeVar("Answer")
POSTS = 2_000
EMBEDDED = 500
SHORTEST = 80  # characters: TAGGING_MIN_CHARS of the settings
AGREES = {
    "political": {"politics", "diplomacy", "conflict"},
    "business": {"business", "economy", "energy", "realty", "work", "auto", "food"},
    "finances": {"finance", "crypto", "economy"},
    "science": {"science", "space", "health", "nature", "history", "ai"},
    "it": {"programming", "technology", "ai", "work"},
    "weather": {"weather"},
    "gaming": {"gaming", "technology"},
    "advertisement": {"ads"},
    "moscow": {"city", "incidents", "crime", "culture", "society"},
    "personal": {"incidents", "crime", "society", "celebrities", "health", "culture", "religion"},
}  # "other" and "stuff" say nothing of the topic
# Categories that people gave to the texts of TGA_CATEGORIES, by our topics. "Other" and "not news" are none of ours.
CATEGORIES = {
    "society": {"society", "politics", "diplomacy", "conflict", "incidents", "crime", "city", "religion", "education"}
    | {"health", "weather", "history", "nature"},
    "economy": {"economy", "finance", "business", "energy", "realty", "work", "crypto", "food", "auto"},
    "sports": {"sport"},
    "entertainment": {"culture", "celebrities", "humor", "travel", "gaming"},
    "technology": {"technology", "programming", "ai", "gaming", "auto"},
    "science": {"science", "space", "history", "nature", "health"},
}


def real_posts() -> list[dict[str, str]]:
    """A sample, always the same; none without the file."""
    beside = sorted(Path(__file__).parents[2].glob("*/data/news12_ru.jsonl.gz"))
    path = Path(os.environ["TGA_NEWS12"]) if "TGA_NEWS12" in os.environ else next(iter(beside), None)
    if path is None or not path.exists():
        return []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        posts = [json.loads(line) for line in lines]
    long = [post for post in posts if len(post["text"]) >= SHORTEST]
    return Random(7).sample(long, min(POSTS, len(long)))  # noqa: S311 - the same posts in every run


def categories() -> list[dict[str, str]]:
    """Texts with a category of ours; none without the file TGA_CATEGORIES (JSON lines, gzip: title, text, category)."""
    path = Path(os.environ.get("TGA_CATEGORIES", ""))
    if not path.is_file():
        return []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [one for one in map(json.loads, lines) if one["category"] in CATEGORIES]


async def _first_topics(texts: Sequence[dict[str, str]]) -> list[str]:
    """The first topic of each, empty for none."""
    process = ModelProcess()
    tagger = LocalTagger(process, load_taxonomy())
    try:
        tagged = [await tagger.tag(f"{one['title']}\n{one['text']}") for one in texts]
    finally:
        await process.close()
    return [found.topics[0] if found.topics else "" for found in tagged]


def _by_people(texts: Sequence[dict[str, str]]) -> tuple[list[Figure], list[str]]:
    """Whether the first topic fits the category. The second half is reported, the first was tuned on."""
    if not texts:
        return [], []
    first = asyncio.run(_first_topics(texts))
    fits = [topic in CATEGORIES[one["category"]] for topic, one in zip(first, texts, strict=True)]
    lines = [
        "",
        "| category given by people | texts | first topic fits | other topics that were found |",
        "|---|---|---|---|",
    ]
    for category in CATEGORIES:
        own = [(topic, fit) for topic, fit, one in zip(first, fits, texts, strict=True) if one["category"] == category]
        others = Counter(topic or "none" for topic, fit in own if not fit).most_common(5)
        found = ", ".join(f"{topic} {count}" for topic, count in others)
        lines.append(f"| {category} | {len(own)} | {sum(fit for _, fit in own)} | {found} |")
    lines.append(f"\nTuned on: {sum(fits[::2])} of {len(fits[::2])}; reported: {sum(fits[1::2])} of {len(fits[1::2])}.")
    return [Figure("tagging_topic_fits_category", sum(fits[1::2]), "texts", len(fits[1::2]))], lines


class Judge:
    """Whether a tag stands in a text, by other means than the tagger's own check: all forms of each of its words."""

    def __init__(self) -> None:
        self._morphology: Any = import_module("pymorphy3").MorphAnalyzer()
        self._forms = lru_cache(maxsize=20_000)(self._all_forms)

    def finds(self, tag: str, text: str) -> bool:
        words, tokens = _tokens(tag), _tokens(text)
        return any(
            all(self._same(word, token) for word, token in zip(words, tokens[start:], strict=False))
            for start in range(len(tokens) - len(words) + 1)
        )

    def _same(self, word: str, token: str) -> bool:
        if word == token or token in self._forms(word) or word in self._forms(token):
            return True
        stem = min(len(word), len(token)) - 2
        return word.isascii() and stem >= 3 and word[:stem] == token[:stem]

    def _all_forms(self, word: str) -> frozenset[str]:
        if word.isascii():
            return frozenset((word,))
        parses = self._morphology.parse(word)
        return frozenset(_folded(form.word) for parse in parses for form in parse.lexeme)


def _folded(text: str) -> str:
    return text.lower().replace("\u0451", "\u0435")


def _tokens(text: str) -> list[str]:
    """As a person sees it: a link is its label, and an ordinal is its number in every case."""
    shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.findall(r"[^\W_]+", re.sub(r"(\d)-\w{1,3}\b", r"\1", _folded(shown)))


@dataclass(frozen=True, slots=True)
class Speed:
    """Of the worker."""

    per_second: float
    per_cpu_second: float


async def _timed(process: ModelProcess, count: int, work: Awaitable[Answer]) -> tuple[Answer, Speed]:
    began, spent = time.perf_counter(), _cpu(process.pid)
    answer = await work
    return answer, Speed(count / (time.perf_counter() - began), count / max(0.01, _cpu(process.pid) - spent))


async def _measure(posts: Sequence[dict[str, str]]) -> tuple[list[Tagged], Speed, Speed, float]:
    """The results, the speed of tags and of vectors, and the worker's memory in MB."""
    process = ModelProcess()
    tagger, embedder = LocalTagger(process, load_taxonomy()), LocalEmbedder(process)

    async def tag() -> list[Tagged]:
        return [await tagger.tag(post["text"]) for post in posts]

    try:
        await tagger.tag("первый вызов загружает модели")
        tagged, tags = await _timed(process, len(posts), tag())
        _, vectors = await _timed(process, EMBEDDED, embedder.embed([post["text"] for post in posts[:EMBEDDED]]))
        return tagged, tags, vectors, _resident(process.pid)
    finally:
        await process.close()


def _cpu(pid: int | None) -> float:
    """Seconds of the processor that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident(pid: int | None) -> float:
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


def _write(lines: Sequence[str]) -> None:
    text = "\n".join(("# Tags and topics of real posts by the local models", "", *lines, ""))
    (RESULTS / "tagging.md").write_text(text, encoding="utf-8")
    print(text)


def _topic_table(posts: Sequence[dict[str, str]], tagged: Sequence[Tagged]) -> list[str]:
    lines = ["| silver topic | posts | first topic agrees | any agrees | no topic |", "|---|---|---|---|---|"]
    for topic, ours in AGREES.items():
        own = [found.topics for post, found in zip(posts, tagged, strict=True) if post["topic"] == topic]
        if own:
            first = sum(bool(found) and found[0] in ours for found in own) / len(own)
            some = sum(bool(set(found) & ours) for found in own) / len(own)
            none = sum(not found for found in own) / len(own)
            lines.append(f"| {topic} | {len(own)} | {first:.2f} | {some:.2f} | {none:.2f} |")
    return lines


def run() -> list[Figure]:
    posts = real_posts()
    if not posts:
        print("no file of real posts (TGA_NEWS12): tags are not measured")
        return []
    tagged, tagging, embedding, memory = asyncio.run(_measure(posts))
    judge = Judge()
    tags = [(tag, post["text"]) for post, found in zip(posts, tagged, strict=True) for tag in found.tags]
    absent = [tag for tag, text in tags if not judge.finds(tag, text)]
    counts = [len(found.tags) for found in tagged]
    labelled = [
        (found.topics, AGREES[post["topic"]])
        for post, found in zip(posts, tagged, strict=True)
        if post["topic"] in AGREES
    ]
    figures, by_people = _by_people(categories())
    called_ads = [
        post["topic"] == "advertisement" for post, one in zip(posts, tagged, strict=True) if ADS in one.topics
    ]
    _write(
        [
            f"{len(posts)} posts, {len(tags)} tags; tags that the judge does not find: {absent[:20] or 'none'}.",
            f"Posts with 0, 1, 2, 3, 4, 5 tags: {', '.join(str(counts.count(number)) for number in range(6))}.",
            f"Language found: {sum(found.language == 'ru' for found in tagged)} Russian.",
            "",
            *_topic_table(posts, tagged),
            "",
            f"Called advertising: {len(called_ads)} posts, of which the file calls {sum(called_ads)} so.",
            *by_people,
        ]
    )
    first = sum(bool(found) and found[0] in wanted for found, wanted in labelled) / len(labelled)
    some = sum(bool(set(found) & wanted) for found, wanted in labelled) / len(labelled)
    return [
        *figures,
        Figure("tagging_tags_in_the_text", 1 - len(absent) / len(tags), "share of tags", 1.0),
        Figure(
            "tagging_posts_with_3_to_5_tags", sum(count >= 3 for count in counts) / len(posts), "share of posts", 1.0
        ),
        Figure("tagging_first_topic_agrees", first, "share of posts", 1.0),
        Figure("tagging_any_topic_agrees", some, "share of posts", 1.0),
        Figure("tagging_speed", tagging.per_second, "posts/s, of those per CPU second", tagging.per_cpu_second),
        Figure("embedding_speed", embedding.per_second, "posts/s, of those per CPU second", embedding.per_cpu_second),
        Figure("tagging_worker_memory", memory, "MB of at most", 700.0),
    ]
