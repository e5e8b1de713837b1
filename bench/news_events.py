"""Are real posts of one event one story, does a digest tell what mattered, and are the top events trends?

Pairs that people judged (TGA_STORY_PAIRS, JSON lines, gzip: two texts and `same`), and the events of 30 days of
TGA_NEWS12 in `events.toml`: through the same code that places posts, writes digests and looks for trends.
"""

from __future__ import annotations

import gzip
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncEngine

from bench.corpus import data_file
from telegram_assistant.config import Settings
from telegram_assistant.domain.access import SYSTEM_TENANT, SYSTEM_USER
from telegram_assistant.domain.digests import Wish
from telegram_assistant.domain.models import Tagged
from telegram_assistant.domain.post import post_id
from telegram_assistant.jobs.digests import open_digest_maker
from telegram_assistant.jobs.trends import find_trends
from telegram_assistant.language.clean import plain
from telegram_assistant.language.lexemes import Lexicon, pieces
from telegram_assistant.language.signatures import signature
from telegram_assistant.language.stories import Rarity, Telling, likeness, outline_of
from telegram_assistant.stores.postgres.database import raw_transaction
from telegram_assistant.stores.postgres.trends import Trends

EVENTS = Path(__file__).with_name("events.toml")
TRENDS = Path(__file__).with_name("trends_judged.toml")
SYSTEM = UUID(SYSTEM_TENANT)
DAY = timedelta(days=1)
STORIES = 10  # of a digest
TOP_CHANNELS = 3  # that told of a day's top event, at least


@dataclass(frozen=True)
class Event:
    """What happened on a day, by the posts that told of it."""

    day: date
    name: str
    posts: frozenset[UUID]
    channels: int


@dataclass(frozen=True)
class Pairs:
    """How well pairs that tell of the same event are known, as people judged them."""

    precision: float
    recall: float
    pairs: int

    @property
    def f1(self) -> float:
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0


@dataclass(frozen=True)
class Day:
    """What was told of a day: its events, those that the digest has, and trends with the share that are events."""

    events: Sequence[Event]
    in_digest: Sequence[Event]
    stories: int  # of the digest
    ads: int  # of them that are advertising
    repeated: int  # that tell an event which another one told already
    trends: Sequence[str]
    trends_judged: Sequence[bool]  # whether an editor would name it, of those that were judged
    trends_of_events: int
    top_is_trend: bool | None  # None: no event was told by so many


def story_pairs(lexicon: Lexicon, rarity: Rarity) -> Pairs | None:
    """Of the Russian pairs; None without the file."""
    path = data_file("TGA_STORY_PAIRS", "story_pairs_dev.jsonl.gz")
    if path is None:
        return None
    right = said = same = count = 0
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for pair in map(json.loads, lines):
            if pair["lang"] != "ru":
                continue
            first, second = (_telling(number, pair[name], lexicon, rarity) for number, name in enumerate(NAMES, 1))
            found = likeness(first, second) > 0
            right, said, same = right + (found and pair["same"]), said + found, same + pair["same"]
            count += 1
    return Pairs(right / max(1, said), right / max(1, same), count)


NAMES = ("first", "second")


def _telling(number: int, found: Mapping[str, str], lexicon: Lexicon, rarity: Rarity) -> Telling:
    text = plain(f"{found['title']}\n{found['text']}")
    outline = outline_of(lexicon.telling(text), rarity)
    return Telling(UUID(int=number), number, datetime(2020, 1, 1, tzinfo=UTC), signature(list(pieces(text))), outline)


def _posts(written: Sequence[str]) -> frozenset[UUID]:
    return frozenset(post_id(*map(int, one.split("/"))) for one in written)


def judged() -> dict[date, list[Event]]:
    days = tomllib.loads(EVENTS.read_text(encoding="utf-8"))["days"]
    return {
        one["day"]: [
            Event(
                one["day"],
                event["name"],
                _posts(event["posts"]),
                len({written.split("/")[0] for written in event["posts"]}),
            )
            for event in one["events"]
        ]
        for one in days
    }


def judged_trends() -> dict[date, list[tuple[frozenset[UUID], bool]]]:
    """Their posts, and whether an editor would name it."""
    days = tomllib.loads(TRENDS.read_text(encoding="utf-8"))["days"]
    return {one["day"]: [(_posts(trend["posts"]), trend["good"]) for trend in one["trends"]] for one in days}


def _verdicts(found: Sequence[frozenset[UUID]], known: Sequence[tuple[frozenset[UUID], bool]]) -> list[bool]:
    nearest = [max(known, key=lambda one: len(one[0] & posts), default=(posts, False)) for posts in found]
    return [good for posts, (own, good) in zip(found, nearest, strict=True) if known and own & posts]


def _repeated(stories: Sequence[frozenset[UUID]], events: Sequence[Event]) -> int:
    """Stories whose event, that most of their posts tell, was told before."""
    about = [max(events, key=lambda event: len(event.posts & posts), default=None) for posts in stories]
    names = [event.name for event, posts in zip(about, stories, strict=True) if event and event.posts & posts]
    return len(names) - len(set(names))


async def name_posts(database: AsyncEngine, tagged: Mapping[UUID, Tagged]) -> None:
    """As tagging leaves them: names and tags are what trends are made of, beside headlines."""
    rows = [
        (one, json.dumps({"entities": [{"kind": entity.kind, "name": entity.name} for entity in found.entities]}))
        for one, found in tagged.items()
    ]
    tags = [(one, [tag.casefold() for tag in found.tags]) for one, found in tagged.items()]
    async with raw_transaction(database) as connection:
        await connection.executemany(
            "INSERT INTO post_enrichment (post_id, kind, content_hash, data, provider)"
            " VALUES ($1, 'tags', '', $2::jsonb, 'local')",
            rows,
        )
        await connection.executemany("UPDATE search_documents SET tags = $2 WHERE post_id = $1", tags)


async def told(database: AsyncEngine, ads: frozenset[UUID]) -> list[Day]:
    """Each day's digest, as its reader would get it at midnight, and what the nightly look finds. `ads`: posts."""
    maker = open_digest_maker(Settings(_env_file=None), database, lambda: datetime.now(UTC))
    days, verdicts = [], judged_trends()
    for day, events in judged().items():
        since = datetime(day.year, day.month, day.day, tzinfo=UTC)
        content = await maker.build(SYSTEM, UUID(SYSTEM_USER), Wish(name="day", most=STORIES), since, since + DAY)
        posts = [frozenset(story.posts) for story in content.stories]
        cited = {id_ for story in posts for id_ in story}
        await find_trends(database, SYSTEM, since + DAY)
        trends = await Trends(database).page(SYSTEM, since=since, before=since + DAY, limit=100)
        trends = [one for one in trends if one.window.end == since + DAY]
        found = [frozenset(post.post_id for post in one.posts) for one in trends]
        top = events[0] if events and events[0].channels >= TOP_CHANNELS else None
        days.append(
            Day(
                events=events,
                in_digest=[event for event in events if event.posts & cited],
                stories=len(posts),
                ads=sum(bool(story & ads) for story in posts),
                repeated=_repeated(posts, events),
                trends=[one.main.key for one in trends],
                trends_judged=_verdicts(found, verdicts.get(day, [])),
                trends_of_events=sum(any(event.posts & one for event in events) for one in found),
                top_is_trend=any(top.posts & one for one in found) if top else None,
            )
        )
    return days
