"""Candidates put together: the posts of an album are one, and so are posts that tell the same in their own channels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from telegram_assistant.language.documents import Candidate
from telegram_assistant.language.signatures import bands, same_story
from telegram_assistant.search.ranking import Ranked


@dataclass
class Story:
    """The best candidate, and the others that belong to it."""

    best: Ranked
    others: list[Candidate] = field(default_factory=list)

    @property
    def candidates(self) -> list[Candidate]:
        return [self.best.candidate, *self.others]


def fold(ranked: Iterable[Ranked]) -> list[Story]:
    """In their order, each story where its best candidate stands."""
    stories: list[Story] = []
    albums: dict[UUID, Story] = {}
    told: dict[bytes, Story] = {}
    for one in ranked:
        candidate = one.candidate
        story = albums.get(candidate.album_id) if candidate.album_id else None
        story = story or _told_before(candidate, told)
        if story is None:
            story = Story(one)
            stories.append(story)
        else:
            story.others.append(candidate)
        if candidate.album_id:
            albums.setdefault(candidate.album_id, story)
        for band in bands(candidate.signature):
            told.setdefault(band, story)
    return stories


def _told_before(candidate: Candidate, told: dict[bytes, Story]) -> Story | None:
    near = {id(story): story for band in bands(candidate.signature) if (story := told.get(band))}
    for story in near.values():
        if any(same_story(candidate, one) for one in story.candidates[:3]):
            return story
    return None
