"""Stories are found by their ids, those of the history and those of a life, and only the newest are kept."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from telegram_simulator.archive import Archive
from telegram_simulator.generate import demo_world
from telegram_simulator.life import Life
from telegram_simulator.model import Message
from telegram_simulator.texts import new_story
from telegram_simulator.truth import truth_of
from telegram_simulator.world import World

pytestmark = pytest.mark.unit

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)


def lived(archive: Archive | None) -> World:
    world = demo_world(now=NOW, clock=lambda: NOW, archive=archive)
    Life(world, seed=1, rate=180, archive=archive).step(NOW + timedelta(hours=2))
    return world


def all_messages(world: World) -> list[Message]:
    channels = world.channels.values()
    return [message for c in channels for message in (*c.messages.values(), *c.deleted.values())]


def test_every_story_of_the_history_and_of_the_life_is_kept() -> None:
    archive = Archive()
    told = {message.story for message in all_messages(lived(archive)) if message.story is not None}
    assert min(told) < 1_000_000_000 < max(told)
    for number in told:
        story = archive.get(number)
        assert story is not None
        assert story.id == number
    assert archive.get(max(told) + 1_000) is None


def test_a_restart_gives_the_same_stories() -> None:
    one, two = Archive(), Archive()
    lived(one)
    lived(two)
    assert len(one) == len(two) > 300
    assert one.newest(len(one)) == two.newest(len(two))


def test_keeping_stories_changes_nothing_in_the_world() -> None:
    with_one, without = (json.dumps({**truth_of(lived(a)), "now": None}, sort_keys=True) for a in (Archive(), None))
    assert with_one == without


def test_only_the_newest_are_kept() -> None:
    archive, rng = Archive(most=10), Random(1)
    for number in range(25):
        archive.add(new_story(rng, "tech" if number % 2 else "city", number, 1, NOW))
    assert len(archive) == 10
    assert archive.get(14) is None
    assert [story.id for story in archive.newest(3)] == [24, 23, 22]
    assert [story.id for story in archive.newest(99, "tech")] == [23, 21, 19, 17, 15]
