"""What is written in a world: stories that several channels tell in their own words, digests, short posts, comments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from random import Random
from typing import TypeVar

from telegram_simulator.draft import CAPTION_LIMIT, POST_LIMIT, Draft, Written, clip, shifted, units
from telegram_simulator.model import Entity
from telegram_simulator.phrasebook import Facts, Phrasebook, phrasebook, plots
from telegram_simulator.voices import Voice

LINK_HOST = "https://example.org"
T = TypeVar("T")


@dataclass(slots=True)
class Story:
    """Something that happened: who told it first, and who has told it since."""

    id: int
    kind: str
    topic: str
    facts: Facts
    first_channel: int
    date: datetime
    told_by: set[int] = field(default_factory=set)


def pick(rng: Random, options: Sequence[T]) -> T:
    return options[int(rng.random() * len(options))]


def new_story(rng: Random, topic: str, story_id: int, channel_id: int, date: datetime) -> Story:
    """Make up a story of a topic."""
    kind = pick(rng, [name for name, plot in plots().items() if plot.topic == topic and not plot.event])
    return story_of(kind, rng, story_id, channel_id, date)


def story_of(kind: str, rng: Random, story_id: int, channel_id: int, date: datetime) -> Story:
    """Make up the facts of a story."""
    plot = plots()[kind]
    facts: Facts = {}
    used: set[tuple[str, int]] = set()
    for fact, (listed, count) in plot.words.items():
        index = int(rng.random() * count)
        if (listed, index) in used:  # a club does not play against itself
            index = (index + 1) % count
        used.add((listed, index))
        facts[fact] = index
    for fact, count_range in plot.counts.items():
        facts[fact] = rng.randint(*count_range)
    for fact, share_range in plot.shares.items():
        facts[fact] = round(rng.uniform(*share_range), 1)
    return Story(story_id, kind, plot.topic, facts, channel_id, date, {channel_id})


def headline(story: Story, language: str, rng: Random) -> str:
    """One plain line about a story, for pictures and file names."""
    book = phrasebook(language)
    draft = Draft()
    draft.say(book, pick(rng, book.kinds[story.kind].headlines), story.facts)
    return draft.plain()


def link_to(story: Story, host: str) -> str:
    """The page about a story."""
    return f"{host}/{story.topic}/{story.kind}-{story.id}"


class Pen:
    """Writes posts in the voice of one channel."""

    def __init__(self, voice: Voice, rng: Random, *, username: str | None, link_host: str = LINK_HOST) -> None:
        self.voice = voice
        self.book: Phrasebook = phrasebook(voice.language)
        self._rng = rng
        self._username = username
        self._host = link_host

    def tell(self, story: Story, *, caption: bool = False) -> Written:
        """A post about a story, seldom twice in the same words."""
        rng, kind = self._rng, self.book.kinds[story.kind]
        draft = Draft(CAPTION_LIMIT if caption else POST_LIMIT)
        self._open(draft)
        start = draft.length
        draft.say(self.book, pick(rng, kind.headlines), story.facts)
        if self.voice.bold_headline:
            draft.mark("bold", start)
        draft.add("\n\n")
        for number, sentence in enumerate(rng.sample(kind.details, 1 + int(rng.random() * 4))):
            draft.add(" " if number else "")
            draft.say(self.book, sentence, story.facts)
        self._colour(draft, story)
        self._close(draft, story)
        return draft.written()

    def digest(self, stories: Sequence[Story]) -> Written:
        """A long post about many stories, up to what Telegram allows."""
        rng, draft = self._rng, Draft()
        draft.add(pick(rng, self.book.phrases["leads"]) + " ")
        draft.add(pick(rng, self.book.phrases["digests"]), "bold")
        for story in stories:
            kind = self.book.kinds[story.kind]
            draft.add("\n\n▪️ ")
            start = draft.length
            draft.say(self.book, pick(rng, kind.headlines), story.facts)
            draft.mark("bold", start)
            draft.add(". ")
            for sentence in rng.sample(kind.details, 3):
                draft.say(self.book, sentence, story.facts)
                draft.add(" ")
            draft.add(pick(rng, self.book.phrases["link_words"]), "text_url", link_to(story, self._host))
        return draft.written()

    def short(self) -> Written:
        return pick(self._rng, self.book.phrases["shorts"]), ()

    def caption(self) -> Written:
        draft = Draft(CAPTION_LIMIT)
        self._open(draft)
        draft.add(pick(self._rng, self.book.phrases["captions"]), "italic" if self._rng.random() < 0.5 else "")
        return draft.written()

    def comment(self) -> Written:
        return pick(self._rng, self.book.phrases["comments"]), ()

    def poll(self) -> tuple[str, tuple[str, ...]]:
        question, *answers = pick(self._rng, self.book.phrases["polls"]).split("|")
        return question, tuple(answers)

    def amend(self, text: str, entities: tuple[Entity, ...], limit: int) -> Written:
        """The text after its author came back to it: a word in front, or an addition at the end."""
        if self._rng.random() < 0.3:
            front = f"❗️ {pick(self._rng, self.book.phrases['corrected'])} "
            return clip(front + text, shifted(entities, units(front)), limit)
        update = pick(self._rng, self.book.phrases["updates"])
        if units(text) + units(update) + 2 > limit:
            return update, ()
        return (f"{text}\n\n{update}" if text else update), entities

    def _open(self, draft: Draft) -> None:
        if self.voice.leads:
            draft.add(pick(self._rng, self.voice.leads) + " ")
        if self._rng.random() < 0.08:
            draft.add(pick(self._rng, self.book.phrases["hot"]).upper(), "bold")
            draft.add(". ")

    def _colour(self, draft: Draft, story: Story) -> None:
        """What not every post has: a remark, a quote, a spoiler, something struck out, a block of code."""
        rng, phrases, dice = self._rng, self.book.phrases, self._rng.random()
        if dice < 0.30:
            draft.add(" ")
            draft.add(pick(rng, self.book.more[story.topic]), "italic" if dice < 0.12 else "")
        elif dice < 0.36:
            draft.add(f"\n\n{pick(rng, phrases['said'])}\n")
            draft.add(pick(rng, self.book.more[story.topic]), "blockquote")
        elif dice < 0.40:
            draft.add(" ")
            draft.add(pick(rng, phrases["spoiler"]), "spoiler")
        elif dice < 0.43:
            before, struck, after = pick(rng, phrases["strike"]).split("|")
            draft.add(f" {before}")
            draft.add(struck, "strike")
            draft.add(after)
        elif story.kind == "release" and dice < 0.7:
            draft.add("\n\n")
            draft.add("git fetch --tags\ngit checkout stable\nmake test", "pre")

    def _close(self, draft: Draft, story: Story) -> None:
        rng, voice = self._rng, self.voice
        link = voice.link if rng.random() < 0.7 else "none"
        if link == "plain":
            draft.add(f"\n\n{pick(rng, self.book.phrases['more_at'])} ")
            draft.add(link_to(story, self._host), "url")
        elif link == "hidden":
            draft.add("\n\n")
            draft.add(pick(rng, self.book.phrases["link_words"]), "text_url", link_to(story, self._host))
        if voice.hashtags:
            draft.add("\n\n")
            for number, tag in enumerate(rng.sample(self.book.hashtags[story.topic], voice.hashtags)):
                draft.add(" " if number else "")
                draft.add(f"#{tag}", "hashtag")
        if voice.signs_off and self._username:
            draft.add(f"\n\n{pick(rng, self.book.phrases['subscribe'])} ")
            draft.add(f"@{self._username}", "mention")
