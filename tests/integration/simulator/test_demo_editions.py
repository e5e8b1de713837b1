"""A demo keeps the edition of the world that it was born with: its posts are stored under their ids."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from telegram_assistant.wiring.demo import Demo
from telegram_simulator.generate import DEMO_EDITION, DEMO_MESSAGES, demo_world
from telegram_simulator.world import World

pytestmark = pytest.mark.integration

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)


def world_of(home: Path, posts: int = DEMO_MESSAGES) -> World:
    return Demo(home, clock=lambda: NOW, pages_port=0, posts=posts).world


def told(world: World) -> dict[tuple[int, int], datetime]:
    return {(c.id, m.id): m.date for c in world.channels.values() for m in c.messages.values()}


def test_a_new_demo_is_of_the_newest_edition_and_stays_so(tmp_path: Path) -> None:
    first = told(world_of(tmp_path))
    assert json.loads((tmp_path / "edition.json").read_text()) == DEMO_EDITION
    assert first == told(demo_world(now=NOW))
    assert told(world_of(tmp_path)) == first


@pytest.mark.parametrize("with_pages", [True, False])
def test_a_demo_from_before_editions_is_of_the_first(tmp_path: Path, *, with_pages: bool) -> None:
    (tmp_path / "born.json").write_text(json.dumps(NOW.isoformat()))
    if with_pages:
        (tmp_path / "pages.json").write_text("1")
    former = told(demo_world(now=NOW, edition=1))
    assert told(world_of(tmp_path)) == former
    assert not (tmp_path / "edition.json").exists()


def test_a_start_that_was_killed_is_still_a_first_start(tmp_path: Path) -> None:
    world_of(tmp_path)
    port = (tmp_path / "pages.json").read_text()
    (tmp_path / "born.json").unlink()
    assert told(world_of(tmp_path)) == told(demo_world(now=NOW))
    assert (tmp_path / "pages.json").read_text() == port


def test_a_small_demo_is_small_and_another_setting_does_not_change_it(tmp_path: Path) -> None:
    small = told(world_of(tmp_path, posts=5))
    assert len(small) < len(told(demo_world(now=NOW))) / 4
    assert told(world_of(tmp_path, posts=50)) == small
