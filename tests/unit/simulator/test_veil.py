"""Messages that show late, in a world and in its life."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from telegram_simulator.clock import Clock
from telegram_simulator.generate import build_world
from telegram_simulator.index import Index
from telegram_simulator.life import Life
from telegram_simulator.model import Channel, Message
from telegram_simulator.truth import truth_of
from telegram_simulator.veil import Veil
from telegram_simulator.world import World

pytestmark = pytest.mark.unit

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
VEIL = Veil(0.3, timedelta(minutes=1), timedelta(hours=10))


@pytest.mark.parametrize("order", [(2, 4, 5), (5, 4, 2), (4, 2, 5)])
def test_order_and_index_stay_those_of_the_ids(order: tuple[int, int, int]) -> None:
    world = World(now=lambda: NOW)
    channel = world.add_channel(Channel(1, 1, "C", "c", NOW))
    index = Index(world)
    world.listen(index.apply)
    shows = {number: NOW + timedelta(minutes=place) for place, number in enumerate(order, 1)}
    for number in range(1, 7):
        world.post(channel, Message(number, NOW), visible_at=shows.get(number))
        assert index.ids(channel) == list(channel.messages)
    told = truth_of(world)["channels"][0]
    assert (told["withheld"], told["deleted"]) == ([2, 4, 5], [])
    for moment in sorted(shows.values()):
        assert world.reveal(moment) == 1
        assert index.ids(channel) == list(channel.messages) == sorted(channel.messages)
    assert world.reveal(NOW + timedelta(days=1)) == 0
    assert [*channel.messages] == [1, 2, 3, 4, 5, 6]


def test_a_moment_that_is_over_withholds_nothing() -> None:
    world = World(now=lambda: NOW)
    channel = world.add_channel(Channel(1, 1, "C", "c", NOW))
    world.post(channel, Message(1, NOW), visible_at=NOW)
    assert (list(channel.messages), channel.withheld, channel.pts) == ([1], {}, 2)


def lived(hours: float) -> World:
    world = build_world(seed=2, channels=6, posts=100, now=NOW, days=2, spread=0.3, clock=Clock(NOW, 0))
    life = Life(world, seed=1, veil=VEIL)
    for hour in range(1, int(hours) + 1):
        life.step(NOW + timedelta(hours=hour))
    return world


def test_a_life_under_a_veil_shows_everything_in_the_end() -> None:
    world = lived(24)
    withheld = [message.id for channel in world.channels.values() for message in channel.withheld.values()]
    assert withheld
    world.reveal(NOW + timedelta(days=2))
    assert not any(channel.withheld for channel in world.channels.values())
    late = [
        message.date
        for channel in world.channels.values()
        for before, after in zip(channel.changes, channel.changes[1:], strict=False)
        if after.kind == before.kind == "new" and after.ids[0] < before.ids[0]
        for message in [channel.messages.get(after.ids[0])]
        if message is not None
    ]
    assert len(late) > 5, "some showed after younger ones"
    for channel in world.channels.values():
        assert list(channel.messages) == sorted(channel.messages)


def test_the_same_seed_withholds_the_same() -> None:
    assert truth_of(lived(12)) == truth_of(lived(12))
    channel = Channel(1, 1, "C", "c", NOW)
    lifted = [Veil(0.5, timedelta(hours=1), timedelta(hours=2)).lifted(channel, number, NOW) for number in range(400)]
    times = [moment for moment in lifted if moment is not None]
    assert 150 < len(times) < 250
    assert all(NOW + timedelta(hours=1) <= moment <= NOW + timedelta(hours=2) for moment in times)


@pytest.mark.parametrize("share,shortest,longest", [(1.1, 1, 2), (-0.1, 1, 2), (0.5, 0, 2), (0.5, 3, 2)])
def test_a_veil_that_cannot_be_is_refused(share: float, shortest: int, longest: int) -> None:
    with pytest.raises(ValueError, match="a veil has a share"):
        Veil(share, timedelta(hours=shortest), timedelta(hours=longest))
