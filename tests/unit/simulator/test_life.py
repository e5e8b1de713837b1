"""A world that goes on: what happens in it, at which moments, and that the truth stays true."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from telegram_simulator.clock import Clock
from telegram_simulator.generate import build_world
from telegram_simulator.life import Allowance, Life
from telegram_simulator.model import Change, Channel
from telegram_simulator.truth import truth_of
from telegram_simulator.world import World

pytestmark = pytest.mark.unit

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def small_world(speed: float = 0.0) -> World:
    return build_world(seed=2, channels=6, posts=100, now=NOW, days=2, spread=0.3, clock=Clock(NOW, speed))


def replayed(channel: Channel, before: set[int], seen: list[tuple[int, Change]]) -> set[int]:
    """The ids that a reader would hold who was told of every change."""
    held = set(before)
    for channel_id, change in seen:
        if channel_id == channel.id and change.kind == "new":
            held |= set(change.ids)
        elif channel_id == channel.id and change.kind == "delete":
            held -= set(change.ids)
    return held


def test_a_step_posts_edits_and_deletes_and_every_change_is_told() -> None:
    world = small_world()
    before = {channel.id: set(channel.messages) for channel in world.channels.values()}
    seen: list[tuple[int, Change]] = []
    world.listen(lambda channel, change: seen.append((channel.id, change)))
    arrivals = Life(world, seed=1).step(NOW + 24 * HOUR)
    kinds = Counter(change.kind for _, change in seen)
    assert arrivals > 50
    assert min(kinds["new"] - 50, kinds["edit"], kinds["delete"]) > 0
    for channel in world.channels.values():
        assert replayed(channel, before[channel.id], seen) == set(channel.messages)
        assert all(a < b for a, b in pairwise(channel.messages))
        assert all(a.pts == b.pts - b.count for a, b in pairwise(channel.changes))
        assert all(message.date <= NOW + 24 * HOUR for message in channel.messages.values())
    assert any(change.kind == "new" and world.channels[i].group for i, change in seen)  # comments


def test_truth_and_world_agree_after_a_step() -> None:
    world = small_world()
    Life(world, seed=1).step(NOW + 12 * HOUR)
    truth = truth_of(world)
    assert truth["now"] == (NOW + 12 * HOUR).isoformat()
    for told in truth["channels"]:
        channel = world.channels[told["id"]]
        assert [message["id"] for message in told["messages"]] == list(channel.messages)
        assert told["deleted"] == sorted(channel.deleted)
        assert told["pts"] == channel.pts
    assert truth["totals"]["messages"] == sum(len(channel.messages) for channel in world.channels.values())


def test_steps_are_deterministic_and_may_be_cut_anywhere() -> None:
    worlds = [small_world() for _ in range(3)]
    Life(worlds[0], seed=1).step(NOW + 6 * HOUR)
    life = Life(worlds[1], seed=1)
    for minutes in range(7, 361, 7):
        life.step(NOW + timedelta(minutes=minutes))
    life.step(NOW + 6 * HOUR)
    Life(worlds[2], seed=9).step(NOW + 6 * HOUR)
    one, two, other = (json.dumps(truth_of(world)) for world in worlds)
    assert one == two
    assert one != other


def test_albums_are_completed_item_by_item() -> None:
    world = small_world()
    life = Life(world, seed=1, rate=600)
    sizes: dict[int, list[int]] = {}

    def watch(channel: Channel, change: Change) -> None:
        message = channel.messages.get(change.ids[0])
        if change.kind == "new" and message is not None and message.grouped_id is not None:
            together = [m.id for m in channel.messages.values() if m.grouped_id == message.grouped_id]
            sizes.setdefault(message.grouped_id, []).append(len(together))

    world.listen(watch)
    partly = set()
    for seconds in range(3600):
        life.step(NOW + timedelta(seconds=seconds))
        partly |= {grouped for grouped, counts in sizes.items() if counts == [1]}
    whole = [counts for counts in sizes.values() if len(counts) > 1]
    assert len(whole) > 5
    assert all(counts == list(range(1, len(counts) + 1)) for counts in whole)
    assert partly  # between two steps somebody could have seen a part of it


def test_counters_of_recent_posts_grow_and_are_no_edit() -> None:
    world = small_world()
    channel = max((c for c in world.channels.values() if not c.group and c.rate), key=lambda c: c.subscribers)
    newest = [m for m in channel.messages.values() if m.service is None][-1]
    views, edited, pts = newest.counters.views, newest.edited, channel.pts
    channel.rate = 0.0
    Life(world, seed=1).step(NOW + 3 * HOUR)
    assert newest.counters.views > views
    assert (newest.edited, channel.pts) == (edited, pts)


def test_rate_sets_the_arrivals_of_the_whole_world_per_hour() -> None:
    world = small_world()
    assert 350 < Life(world, seed=1, rate=100).step(NOW + 5 * HOUR) < 750


def test_a_world_made_by_hand_lives_when_a_rate_is_given() -> None:
    world = World(now=lambda: NOW)
    world.add_channel(Channel(5, 1, "By hand", "by_hand", NOW))
    assert Life(world, seed=1).step(NOW + HOUR) == 0
    assert Life(world, seed=1, rate=60).step(NOW + 2 * HOUR) > 20


def test_dead_channels_stay_dead() -> None:
    world = build_world(seed=2, channels=6, posts=20, now=NOW, days=2, clock=Clock(NOW, 0))
    (dead,) = (channel for channel in world.channels.values() if channel.temper == "dead" and not channel.group)
    newest = dead.newest_id
    Life(world, seed=1, rate=200).step(NOW + 5 * HOUR)
    assert dead.newest_id == newest


def test_what_is_over_the_bound_comes_late_and_is_dated_late() -> None:
    world = small_world()
    life = Life(world, seed=1, rate=600)
    assert life.step(NOW + HOUR, at_most=10) == 10
    newest = {channel.id: channel.newest_id for channel in world.channels.values()}
    assert life.step(NOW + 2 * HOUR, at_most=10) == 10
    for channel in world.channels.values():
        later = [m for m in channel.messages.values() if m.id > newest[channel.id]]
        assert all(message.date >= NOW + HOUR for message in later)


async def test_run_posts_in_speeded_time_until_it_is_cancelled() -> None:
    world = small_world(speed=1.0)
    posted = asyncio.Event()
    world.listen(lambda _channel, _change: posted.set())
    task = asyncio.create_task(Life(world, seed=1, speed=3600).run())
    await asyncio.wait_for(posted.wait(), 300)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert world.now() > NOW


def test_an_allowance_lets_so_many_through_in_any_second() -> None:
    now = 100.0
    allowance = Allowance(5, lambda: now)
    passed = []
    for tick in range(100):  # ten seconds, and more wants to come than may
        now = 100 + tick / 10
        wanted = 0 if 40 <= tick < 70 else 50
        passed.append(min(wanted, allowance.left()))
        allowance.spend(passed[-1])
    seconds = [sum(passed[start : start + 10]) for start in range(90)]
    assert sum(passed) == 39  # of 10 seconds, 3 had nothing to do, and of those only one second's share was kept
    assert max(seconds) <= 10
    assert Allowance(None).left() > 100


async def test_run_with_a_bound_still_gets_everywhere() -> None:
    world = small_world(speed=1.0)
    enough = asyncio.Event()
    posted: list[int] = []

    def watch(_channel: Channel, change: Change) -> None:
        posted.extend(change.ids)
        if len(posted) > 20:
            enough.set()

    world.listen(watch)
    task = asyncio.create_task(Life(world, seed=1, speed=86_400, rate=10_000, posts_per_second=200).run())
    await asyncio.wait_for(enough.wait(), 300)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_clock_stands_runs_and_only_goes_forward() -> None:
    clock = Clock(NOW, 0)
    assert clock() == clock() == NOW
    clock.advance_to(NOW + HOUR)
    clock.advance_to(NOW)
    assert clock() == NOW + HOUR
    clock.set_speed(10**6)
    assert clock() >= NOW + HOUR
    with pytest.raises(ValueError, match="speed"):
        Life(World(now=clock), seed=1, speed=0)
