"""The sections of a digest: the main events first, then what belongs together, in the order of its best story."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from telegram_assistant.domain.digests import Language, Told, Wish
from telegram_assistant.i18n import load_texts
from telegram_assistant.jobs.digest_writing import Story
from telegram_assistant.language.taxonomy import NOISE, Taxonomy, heading_of

MOST_MAIN = 3  # stories
LEAST_TELLERS = 2  # channels that tell a main one


def in_sections(told: Sequence[tuple[Story, Told]], wish: Wish, taxonomy: Taxonomy) -> tuple[Told, ...]:
    """The same stories, the best first: each under its heading, and those of one heading together."""
    say = load_texts()
    main, other = (say(wish.language, f"digests.section_{name}") for name in ("main", "other"))
    titles = _titles(taxonomy, wish.language)
    headed = []
    for number, (story, one) in enumerate(told):
        is_main = number < MOST_MAIN < len(told) and story.channels >= LEAST_TELLERS
        key = story.topics[0] if story.topics else _topic(story)
        headed.append(replace(one, section=main if is_main else titles.get(key.casefold(), key) or other))
    places = {heading: place for place, heading in enumerate(dict.fromkeys([main, *(one.section for one in headed)]))}
    return tuple(sorted(headed, key=lambda one: (one.section == other, places[one.section])))


def _titles(taxonomy: Taxonomy, language: Language) -> dict[str, str]:
    """How topics are called in a language, by any of their names."""
    return {
        name.casefold(): topic.ru if language is Language.RU else topic.en
        for topic in taxonomy.topics
        for name in (topic.ru, topic.en, topic.key)
    }


def _topic(story: Story) -> str:
    """Under which most of its posts belong, the first topic of each counting most; empty where none has any."""
    votes: Counter[str] = Counter()
    for post in story.posts:
        for place, topic in enumerate(one for one in post.topics if one not in NOISE):
            votes[heading_of(topic)] += 60 // (place + 1)
    return max(votes, key=votes.__getitem__, default="")
