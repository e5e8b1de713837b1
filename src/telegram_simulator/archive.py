"""The stories of a world by their ids, for the server of the pages that posts link to."""

from __future__ import annotations

from collections import OrderedDict
from datetime import datetime
from itertools import islice
from typing import TypeAlias

from telegram_simulator.phrasebook import Facts
from telegram_simulator.texts import Story

MOST_STORIES = 50_000
# Kind, topic, facts, first channel, date: what a page needs. Whole stories, with all who told them, take half as much
# again (690 bytes each).
Kept: TypeAlias = tuple[str, str, Facts, int, datetime]


class Archive:
    """Keeps the newest stories; older ones have no page any more."""

    def __init__(self, most: int = MOST_STORIES) -> None:
        self._most = most
        self._kept: OrderedDict[int, Kept] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, story: Story) -> None:
        self._kept[story.id] = (story.kind, story.topic, story.facts, story.first_channel, story.date)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def get(self, story_id: int) -> Story | None:
        """The story, without who told it since."""
        kept = self._kept.get(story_id)
        return None if kept is None else Story(story_id, *kept)

    def newest(self, count: int, topic: str | None = None) -> list[Story]:
        """The last ones first, of all topics unless told otherwise."""
        kept = ((number, it) for number, it in reversed(self._kept.items()) if topic in (None, it[1]))
        return [Story(number, *it) for number, it in islice(kept, count)]
