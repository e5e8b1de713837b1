"""The index stays true through any history of changes, without being made anew."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telegram_simulator.index import Index
from telegram_simulator.model import Channel, Forward, Message
from telegram_simulator.world import World

pytestmark = pytest.mark.unit

START = datetime(2024, 1, 1, tzinfo=UTC)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("post"), st.none() | st.integers(1, 4)),
        st.tuples(st.just("delete"), st.integers(1, 60)),
        st.tuples(st.just("edit"), st.integers(1, 60)),
    ),
    max_size=80,
)


def live(world: World, group: Channel, steps: list[tuple[str, int | None]]) -> None:
    for action, value in steps:
        if action == "post":
            world.post(group, Message(group.newest_id + 1, START, comment_to=value))
        elif action == "delete" and value is not None:
            world.delete(group, [value, value + 1])
        elif value in group.messages:
            world.edit(group, value, "edited")


@given(before=STEPS, after=STEPS)
def test_ids_and_threads_follow_the_world(
    before: list[tuple[str, int | None]], after: list[tuple[str, int | None]]
) -> None:
    world = World()
    group = world.add_channel(Channel(1, 1, "G", None, START, group=True, linked_id=2))
    index = Index(world)
    live(world, group, before)
    world.listen(index.apply)
    ids = index.ids(group)
    for post_id in range(1, 5):
        index.thread(group, post_id)
    live(world, group, after)
    assert index.ids(group) is ids, "made anew: a page would cost more the longer the channel is"
    assert ids == sorted(group.messages)
    for post_id in range(1, 5):
        assert index.thread(group, post_id) == [i for i, m in group.messages.items() if m.comment_to == post_id]


def test_the_forwarded_post_is_the_root_of_its_comments() -> None:
    world = World()
    group = world.add_channel(Channel(1, 1, "G", None, START, group=True, linked_id=2))
    index = Index(world)
    world.listen(index.apply)
    world.post(group, Message(1, START, forward=Forward(3, 7, START)))
    world.post(group, Message(2, START, forward=Forward(2, 7, START)))
    assert index.root(group, 7) == 2
    world.post(group, Message(3, START, forward=Forward(2, 8, START)))
    assert (index.root(group, 8), index.root(group, 9)) == (3, None)


def test_a_channel_has_news_if_it_changed_since_or_if_nobody_knows() -> None:
    now = [START]
    world = World(lambda: now[0])
    channel = world.add_channel(Channel(1, 1, "C", "c", START))
    index = Index(world)
    world.listen(index.apply)
    assert index.changed_since(channel, START + timedelta(days=9))
    world.post(channel, Message(1, START))
    assert index.changed_since(channel, START)
    assert not index.changed_since(channel, START + timedelta(seconds=1))
    now[0] += timedelta(seconds=5)
    world.edit(channel, 1, "later")
    assert index.changed_since(channel, START + timedelta(seconds=1))
