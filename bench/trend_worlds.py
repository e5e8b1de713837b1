"""Worlds with planted bursts: the simulator's channels and stories, what rises among them, and what only seems to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from uuid import UUID

from telegram_assistant.domain.trends import BASELINE_DAYS, DAY, Kind, Subject
from telegram_simulator.archive import Archive
from telegram_simulator.desk import Wire
from telegram_simulator.generate import TEMPERS, Plan, realise
from telegram_simulator.model import Channel, Message
from telegram_simulator.phrasebook import plots
from telegram_simulator.texts import Story, pick
from telegram_simulator.voices import TOPICS

CHANNELS = 24
WATCHED_DAYS = 7  # that are looked at, after those of the baseline
PER_DAY = 9.0  # posts of a channel, on average
START = datetime(2026, 2, 2, tzinfo=UTC)  # a Monday
SIZES = (5, 6, 8, 10, 14)  # channels that tell of a planted burst


@dataclass(frozen=True, slots=True)
class Told:
    """A post, as far as it matters."""

    post_id: UUID
    channel_id: int
    posted_at: datetime
    source: UUID
    subjects: frozenset[Subject]


@dataclass(frozen=True, slots=True)
class Plant:
    """A burst that must be found."""

    subjects: frozenset[Subject]  # any of them will do
    begins: datetime
    ends: datetime
    channels: int
    known: bool  # the subject was told of before


@dataclass(frozen=True)
class TrendWorld:
    """Everything that was told, and which of it is news."""

    posts: list[Told]
    plants: list[Plant]

    @property
    def looks(self) -> list[datetime]:
        """The midnights at which trends are looked for."""
        return [START + (BASELINE_DAYS + day + 1) * DAY for day in range(WATCHED_DAYS)]


def make_world(seed: int) -> TrendWorld:
    rng = Random(f"{seed}/trends")  # noqa: S311 - worlds are made from a seed
    posts = list(_ordinary(seed))
    channels = sorted({post.channel_id for post in posts})
    maker = _Maker(seed, rng, channels)
    posts += maker.decoys()
    plants = []
    for number, size in enumerate(rng.sample(SIZES, 3)):
        plant, told = maker.plant(size, day=2 * number + rng.randrange(2), number=number)
        plants.append(plant)
        posts += told
    return TrendWorld(sorted(posts, key=lambda post: (post.posted_at, post.post_id)), plants)


def _ordinary(seed: int) -> Iterator[Told]:
    """What the simulator's channels tell by themselves, in their rhythm of day and week."""
    days = BASELINE_DAYS + WATCHED_DAYS
    rng = Random(f"{seed}/channels")  # noqa: S311 - worlds are made from a seed
    plans = [
        Plan(f"{seed}", f"c{seed}_{number}", "ru", pick(rng, TOPICS), temper, PER_DAY * days * rng.uniform(0.4, 2))
        for number, temper in enumerate((TEMPERS * CHANNELS)[:CHANNELS])
    ]
    archive = Archive()
    world = realise(plans, seed=seed, wire=Wire(archive=archive), now=START + timedelta(days=days), days=days)
    for channel in world.channels.values():
        for message in channel.messages.values():
            if not channel.group and message.date >= START:
                yield _told(channel, message, archive.get(message.story) if message.story else None)


def _told(channel: Channel, message: Message, story: Story | None) -> Told:
    origin = message.forward
    own = channel.id, message.id
    source = (origin.channel_id, origin.message_id) if origin and origin.channel_id else own
    return Told(_id(*own), channel.id, message.date, _id(*source), _subjects(story) if story else frozenset[Subject]())


def _subjects(story: Story) -> frozenset[Subject]:
    """As tagging would find them: the topic, what the facts name, and words that only this story has."""
    found = {Subject(Kind.TOPIC, story.topic), Subject(Kind.PHRASE, story.kind)}
    found.add(Subject(Kind.PHRASE, f"story {story.id}"))
    words = plots()[story.kind].words
    found |= {Subject(Kind.ENTITY, f"{listed} {story.facts[fact]}") for fact, (listed, _) in words.items()}
    return frozenset(found)


def _id(channel: int, message: int) -> UUID:
    return UUID(int=channel << 64 | message)


class _Maker:
    """Adds posts to a world."""

    def __init__(self, seed: int, rng: Random, channels: list[int]) -> None:
        self._seed = seed
        self._rng = rng
        self._channels = channels
        self._next = 10_000_000

    def plant(self, size: int, *, day: int, number: int) -> tuple[Plant, list[Told]]:
        rng = self._rng
        known = number == 2  # an entity that everybody knows rises; the others are new
        subject = Subject(Kind.ENTITY, f"city {rng.randrange(8)}" if known else f"planted {number}")
        words = Subject(Kind.PHRASE, f"words of {number}")
        about = frozenset((subject, words, Subject(Kind.TOPIC, pick(rng, TOPICS))))
        length = timedelta(hours=rng.choice((3, 8, 14)))
        begins = START + (BASELINE_DAYS + day) * DAY + timedelta(hours=rng.uniform(1, 23 - length / timedelta(hours=1)))
        tellers = rng.sample(self._channels, size + 2 * known)
        told = [
            self._post(channel, begins + length * rng.random(), about)
            for channel in tellers
            for _ in range(rng.choice((1, 1, 2)))
        ]
        return Plant(frozenset((subject, words)), begins, begins + length, size, known), told

    def decoys(self) -> list[Told]:
        watched = START + BASELINE_DAYS * DAY
        return [*self._spam(watched + 1 * DAY), *self._forwards(watched + 2 * DAY), *self._weekly(), *self._daily()]

    def _spam(self, day: datetime) -> Iterator[Told]:
        """One channel goes on and on about one thing."""
        about = frozenset((Subject(Kind.PHRASE, "spam"),))
        for _ in range(30):
            yield self._post(self._channels[0], day + self._rng.random() * DAY, about)

    def _forwards(self, day: datetime) -> Iterator[Told]:
        """Everybody forwards one post."""
        about = frozenset((Subject(Kind.PHRASE, "forwarded"),))
        first = self._post(self._channels[0], day + 0.3 * DAY, about)
        yield first
        for channel in self._rng.sample(self._channels[1:], 16):
            yield self._post(channel, day + self._rng.uniform(0.3, 0.8) * DAY, about, source=first.source)

    def _weekly(self) -> Iterator[Told]:
        """The same event each Thursday, told by a third of the channels."""
        about = frozenset((Subject(Kind.ENTITY, "weekly"), Subject(Kind.PHRASE, "weekly words")))
        for week in range((BASELINE_DAYS + WATCHED_DAYS) // 7):
            day = START + (7 * week + 3) * DAY
            for channel in self._rng.sample(self._channels, 9):
                yield self._post(channel, day + self._rng.uniform(0.5, 0.9) * DAY, about)

    def _daily(self) -> Iterator[Told]:
        """Each morning the weather, at weekends too."""
        about = frozenset((Subject(Kind.PHRASE, "forecast"),))
        for number in range(BASELINE_DAYS + WATCHED_DAYS):
            for channel in self._rng.sample(self._channels, 7):
                yield self._post(channel, START + (number + self._rng.uniform(0.2, 0.3)) * DAY, about)

    def _post(self, channel: int, at: datetime, about: frozenset[Subject], source: UUID | None = None) -> Told:
        self._next += 1
        own = _id(channel, self._next)
        return Told(own, channel, at, source or own, about)
