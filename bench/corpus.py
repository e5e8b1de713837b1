"""Posts for the benchmarks of search: real ones, paragraphs with the questions that they answer, and made-up ones.

Files: TGA_NEWS12 (JSON lines, gzip), TGA_RETRIEVAL_RU and TGA_RETRIEVAL_EN (JSON, gzip: paragraphs and the questions
that each answers), or those of their usual names in a folder `data` beside the checkout.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import asyncpg
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.post import post_id
from telegram_assistant.language.clean import sentences_of
from telegram_assistant.language.documents import channel_key, filter_key, month_key
from telegram_assistant.language.lexemes import EXACT, Lexicon, pieces, quoted, readable
from telegram_assistant.language.signatures import SIZE
from telegram_assistant.language.stories import Rarity, Telling, keys_of, outline_of
from telegram_assistant.stores.postgres.database import raw_transaction

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

CHANNELS = 500
MONTHS = 24
SPAN = timedelta(days=30 * MONTHS)
FIRST_DAY = datetime(2024, 1, 1, tzinfo=UTC)
TAGS = ("экономика", "политика", "спорт", "наука", "погода", "кино", "футбол", "москва", "нефть", "выборы")
DIFFERENT = 30_000  # texts: more posts than that tell them again, weeks later
_AT_ONCE = 500
_DOCUMENT = (
    *(
        "post_id",
        "channel_id",
        "posted_at",
        "language",
        "tags",
        "has",
        "length",
        "signature",
        "outline",
        "story_id",
        "words",
        "forms",
    ),
    "digest",
)


@dataclass(frozen=True, slots=True)
class Questions:
    """Paragraphs, and questions with the number of the paragraph that answers each."""

    paragraphs: list[str]
    asked: list[tuple[str, int]]


def data_file(variable: str, name: str) -> Path | None:
    beside = sorted(Path(__file__).parents[2].glob(f"*/data/{name}"))
    path = Path(os.environ[variable]) if variable in os.environ else next(iter(beside), None)
    return path if path is not None and path.exists() else None


@dataclass(frozen=True)
class RealPost:
    """A post of a channel that there is."""

    channel_id: int
    channel: str
    message_id: int
    posted_at: datetime
    text: str
    topic: str = ""


def real_posts() -> list[RealPost]:
    """None without the file."""
    path = data_file("TGA_NEWS12", "news12_ru.jsonl.gz")
    if path is None:
        return []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [_real_post(json.loads(line)) for line in lines]


def _real_post(found: dict[str, Any]) -> RealPost:
    number = int(str(found["channel_id"]).removeprefix("-100"))
    moment = datetime.fromisoformat(found["date"])
    return RealPost(
        number, str(found["channel"]), int(found["message_id"]), moment, str(found["text"]), str(found.get("topic", ""))
    )


def real_texts() -> list[str]:
    return [post.text for post in real_posts()]


def questions(language: str) -> Questions | None:
    path = data_file(f"TGA_RETRIEVAL_{language.upper()}", f"retrieval_dev_{language}.json.gz")
    if path is None:
        return None
    with gzip.open(path, "rt", encoding="utf-8") as file:
        data: dict[str, Any] = json.load(file)
    places = {paragraph["id"]: place for place, paragraph in enumerate(data["paragraphs"])}
    asked = [(one["question"], places[one["paragraph"]]) for one in data["questions"]]
    return Questions([paragraph["text"] for paragraph in data["paragraphs"]], asked)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A made-up text: how many words it has, and what the index keeps of them."""

    text: str
    length: int
    words: str
    forms: str
    outline: bytes


class Crowd:
    """Made-up posts of real sentences: any number of them, with the words as common and as rare as they are."""

    def __init__(self, texts: Sequence[str], lexicon: Lexicon, seed: int = 1, span: timedelta = SPAN) -> None:
        self._span = span  # the time in which they come
        self._rng = Random(seed)  # noqa: S311 - the same posts in every run
        self._lexicon = lexicon
        self._written = lru_cache(maxsize=None)(self._quoted)
        self._drawn = lru_cache(maxsize=None)(self._draw)
        cut = [(one, list(pieces(readable(one)))) for text in texts for one in sentences_of(text)]
        self.sentences = [(one, words) for one, words in cut if 3 <= len(words) <= 60]
        counts = Counter(lemma for _, words in cut for lemma in {lexicon.lemmas(word)[0] for word in words})
        self.rarity = Rarity(len(texts), counts)

    async def fill(self, database: AsyncEngine, count: int) -> None:
        """Into the tables as `indexing` would fill them; the index is made at the end, which is quicker."""
        async with raw_transaction(database) as connection:
            await connection.execute("SET LOCAL maintenance_work_mem = '512MB'")
            await connection.execute(
                "INSERT INTO channels (id, title, username) SELECT n, 'Channel ' || n, 'channel_' || n"
                " FROM generate_series(1, $1::int) n",
                CHANNELS,
            )
            await connection.execute(
                "INSERT INTO subscriptions (tenant_id, user_id, channel_id) SELECT u.tenant_id, u.id, c.id"
                " FROM users u CROSS JOIN channels c"
            )
            await connection.execute("DROP INDEX ix_search_documents_words_forms")
            rows = await asyncio.to_thread(self._rows, 0, count)
            for start in range(0, count, _AT_ONCE):
                # The next ones are made while PostgreSQL reads these.
                following = asyncio.to_thread(self._rows, start + _AT_ONCE, count)
                _, rows = await asyncio.gather(_store(connection, rows, start), following)
            await connection.execute(
                "CREATE INDEX ix_search_documents_words_forms ON search_documents USING gin (words, forms)"
                " WITH (fastupdate = off)"
            )
        async with raw_transaction(database) as connection:
            await connection.execute("ANALYZE posts, search_documents, channels, subscriptions")

    def words(self, count: int) -> list[str]:
        """Some that a user may look for: of one sentence, in any order, none of the shortest."""
        while True:
            found = list(dict.fromkeys(word for word in self._rng.choice(self.sentences)[1] if len(word) > 3))
            if len(found) >= count:
                return self._rng.sample(found, count)

    def _quoted(self, word: str) -> tuple[tuple[str, ...], str]:
        """Dictionary forms and the form itself, as PostgreSQL reads them."""
        return tuple(map(quoted, self._lexicon.lemmas(word))), quoted(EXACT + word)

    def _rows(self, start: int, count: int) -> list[tuple[Any, ...]]:
        return [self._row(number, count) for number in range(start, min(count, start + _AT_ONCE))]

    def _row(self, number: int, count: int) -> tuple[Any, ...]:
        """They come in the order of time, give or take a day."""
        rng = self._rng
        channel_id = min(int(rng.paretovariate(0.7)), CHANNELS)
        posted_at = FIRST_DAY + self._span * number / count + timedelta(days=rng.random())
        drawn = self._drawn(number % DIFFERENT)
        has = [kind for kind, share in (("photo", 0.5), ("link", 0.3), ("album", 0.05)) if rng.random() < share]
        language, tag = "ru" if rng.random() < 0.9 else "en", rng.choice(TAGS)
        own = post_id(channel_id, number + 1)
        told = Telling(own, channel_id, posted_at, rng.randbytes(4 * SIZE), drawn.outline, own)
        keys = [channel_key(channel_id), month_key(posted_at), filter_key("lang", language), filter_key("tag", tag)]
        keys += [*(filter_key("has", kind) for kind in has), *keys_of(told)]
        vectors = drawn.words, " ".join([drawn.forms, *map(quoted, keys)])
        numbers = _bytes(told.signature), _bytes(told.outline)
        return (
            *(own, channel_id, posted_at, drawn.text),
            *(language, [tag], has, drawn.length, *numbers, own, *vectors, str(number)),
        )

    def _draw(self, _number: int) -> Drawn:
        sentences = self._rng.choices(self.sentences, k=self._rng.randint(2, 6))
        words: dict[str, list[str]] = defaultdict(list)
        forms: dict[str, list[str]] = defaultdict(list)
        for place, word in enumerate((word for _, found in sentences for word in found), start=1):
            lemmas, form = self._written(word)
            for lemma in lemmas:
                words[lemma].append(f"{place}A")
            forms[form].append(str(place))
        telling = [self._lexicon.lemmas(word)[0] for _, found in sentences for word in found if len(word) > 3]
        return Drawn(
            " ".join(sentence for sentence, _ in sentences),
            sum(len(found) for _, found in sentences),
            _vector(words),
            _vector(forms),
            outline_of(telling, self.rarity),
        )


def _bytes(value: bytes) -> str:
    """As PostgreSQL reads them."""
    return f"\\x{value.hex()}"


def _vector(lexemes: dict[str, list[str]]) -> str:
    return " ".join([f"{lexeme}:{','.join(places)}" for lexeme, places in lexemes.items()])


async def _store(connection: Connection, rows: Sequence[tuple[Any, ...]], start: int) -> None:
    posts = [(row[0], row[1], number + 1, row[2], row[3], "") for number, row in enumerate(rows, start)]
    columns = ("id", "channel_id", "message_id", "posted_at", "text", "content_hash")
    await connection.copy_records_to_table("posts", records=posts, columns=columns)
    await connection.copy_to_table("search_documents", source=_lines(rows), columns=list(_DOCUMENT), format="text")


async def _lines(rows: Sequence[tuple[Any, ...]]) -> AsyncIterator[bytes]:
    """As COPY reads them."""
    for post, channel, moment, _, language, tags, has, length, *rest in rows:
        arrays = ["{" + ",".join(values) + "}" for values in (tags, has)]
        values = [post, channel, moment.isoformat(), language, *arrays, length, *rest]
        line = "\t".join(str(value).replace("\\", "\\\\") for value in values)
        yield f"{line}\n".encode()
