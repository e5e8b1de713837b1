"""How a channel writes: derived from the channel alone, so that a living world goes on in the same voice."""

from __future__ import annotations

from bisect import bisect
from dataclasses import dataclass
from itertools import accumulate
from random import Random

from telegram_simulator.model import Channel
from telegram_simulator.phrasebook import phrasebook

TOPICS = ("news", "tech", "markets", "sport", "culture", "city", "science")
REACTIONS = ("👍", "❤", "🔥", "👏", "😁", "🤔", "😢", "🎉", "🤯", "👎")

# What an arrival can be, and how often: a channel's own mix varies around this.
MIX = {
    "story": 44.0,
    "photo": 18.0,
    "album": 5.0,
    "document": 3.0,
    "bare": 4.0,  # a picture without a word
    "forward": 7.0,
    "reply": 6.0,
    "poll": 1.5,
    "service": 0.5,
    "short": 8.0,
    "digest": 3.0,
}
MEAN_ALBUM = 4.4  # of what `album_size` draws


def album_size(rng: Random) -> int:
    """2 to 10, small ones oftener."""
    return 2 + int(9 * rng.random() ** 2.2)


@dataclass(slots=True, frozen=True)
class Voice:
    """The habits of one channel."""

    language: str
    topic: str
    leads: tuple[str, ...]  # emoji that open a post; empty: none
    bold_headline: bool
    hashtags: int
    link: str  # plain | hidden | none
    signs_off: bool  # ends with its own @name
    authors: tuple[str, ...]  # signatures; empty: unsigned
    reactions: tuple[str, ...]  # the ones readers use most
    reach: float  # views per subscriber in the end
    holes: float  # share of its messages that get deleted
    edits: float
    comments: float  # per post, where there is a discussion group
    follows: float  # share of stories taken up from other channels
    kinds: tuple[str, ...]
    steps: tuple[float, ...]  # running sums of the kinds' weights
    messages_per_arrival: float  # an album is one arrival and several messages

    def draw_kind(self, rng: Random) -> str:
        """What the next arrival is."""
        return self.kinds[bisect(self.steps, rng.random() * self.steps[-1])]


def voice_of(channel: Channel) -> Voice:
    """The voice of a channel: the same whenever it is asked for."""
    rng = Random(f"voice/{channel.id}")
    book = phrasebook(channel.language)
    weights = {kind: weight * rng.uniform(0.3, 1.9) for kind, weight in MIX.items()}
    return Voice(
        language=channel.language,
        topic=channel.topic,
        leads=book.leads[channel.topic] if rng.random() < 0.7 else (),
        bold_headline=rng.random() < 0.75,
        hashtags=rng.choice((0, 0, 1, 2, 3)),
        link=rng.choice(("plain", "hidden", "hidden", "none")),
        signs_off=rng.random() < 0.4,
        authors=tuple(rng.sample(book.phrases["authors"], 2)) if rng.random() < 0.25 else (),
        reactions=tuple(rng.sample(REACTIONS, 5)),
        reach=rng.uniform(0.08, 0.7),
        holes=0.002 * 230 ** rng.random(),  # 0.2 to 46 per cent, small shares oftener
        edits=rng.uniform(0.01, 0.12),
        comments=rng.uniform(0.1, 0.5),
        follows=rng.uniform(0.15, 0.5),
        kinds=tuple(weights),
        steps=tuple(accumulate(weights.values())),
        messages_per_arrival=1.0 + weights["album"] / sum(weights.values()) * (MEAN_ALBUM - 1.0),
    )
