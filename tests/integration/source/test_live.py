"""Live updates through the simulator: what is pushed, what is missed, and how that is noticed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from telegram_assistant.domain.retries import Failure
from telegram_assistant.domain.source import Deleted, Interrupted, LiveUpdate, NewPost, SourceError
from telegram_assistant.source.telegram_account import TelegramAccount
from telegram_simulator.faults import Fault
from telegram_simulator.model import Channel, Message
from telegram_simulator.server import Simulator
from telegram_simulator.world import World
from tests.integration.source.conftest import START, OpenSource, fill

pytestmark = pytest.mark.integration


@pytest.fixture
def live(open_source: OpenSource) -> TelegramAccount:
    return open_source(purpose="live")


@pytest.fixture
async def updates(live: TelegramAccount) -> AsyncIterator[AsyncIterator[LiveUpdate]]:
    """A flow that has begun."""
    async with aclosing(live.updates()) as flow:
        assert await anext(flow) == Interrupted(None)
        yield flow


def text_of(update: LiveUpdate) -> str:
    assert isinstance(update, NewPost)
    return update.post.text


async def test_posts_edits_and_deletions_of_joined_channels(
    world: World, news: Channel, updates: AsyncIterator[LiveUpdate]
) -> None:
    fill(world, world.channels[300], 1)  # not joined
    world.post(news, Message(1, START, "first", author="Ann"))
    world.edit(news, 1, "second")
    world.delete(news, [1])
    first = await anext(updates)
    assert isinstance(first, NewPost)
    assert (first.post.channel_id, first.post.message_id, first.post.text, first.post.author) == (
        100,
        1,
        "first",
        "Ann",
    )
    edited = await anext(updates)
    assert isinstance(edited, NewPost)
    assert edited.post.text == "second"
    assert edited.post.edited_at is not None
    assert await anext(updates) == Deleted(100, (1,))


async def test_a_lost_connection_is_an_interruption(
    sim: Simulator, world: World, news: Channel, updates: AsyncIterator[LiveUpdate]
) -> None:
    fill(world, news, 1)
    assert text_of(await anext(updates)) == "Post 1"
    sim.disconnect()
    fill(world, news, 1)  # while nobody listens
    assert await anext(updates) == Interrupted(None)
    fill(world, news, 1)
    assert await anext(updates) == Interrupted(100)  # what was missed shows in the numbers too
    assert text_of(await anext(updates)) == "Post 3"


async def test_a_lost_push_shows_with_the_next(
    sim: Simulator, world: World, news: Channel, updates: AsyncIterator[LiveUpdate]
) -> None:
    sim.faults.add(Fault("push_lose", "push.*", skip=1, times=1))
    fill(world, news, 3)
    assert text_of(await anext(updates)) == "Post 1"
    assert await anext(updates) == Interrupted(100)
    assert text_of(await anext(updates)) == "Post 3"


async def test_a_push_that_comes_twice(
    sim: Simulator, world: World, news: Channel, updates: AsyncIterator[LiveUpdate]
) -> None:
    sim.faults.add(Fault("push_double", "push.*"))
    fill(world, news, 2)
    assert [text_of(await anext(updates)) for _ in range(2)] == ["Post 1", "Post 2"]


async def test_a_push_that_comes_late_does_not_bring_old_text_back(
    sim: Simulator, world: World, news: Channel, updates: AsyncIterator[LiveUpdate]
) -> None:
    fill(world, news, 1)
    sim.faults.add(Fault("push_reorder", "push.edit", times=1))
    world.edit(news, 1, "old")
    world.edit(news, 1, "new")
    fill(world, news, 1)
    assert text_of(await anext(updates)) == "Post 1"
    assert await anext(updates) == Interrupted(100)
    assert [text_of(await anext(updates)) for _ in range(2)] == ["new", "Post 2"]


async def test_a_server_that_is_gone_ends_the_flow_and_another_begins(
    sim: Simulator, world: World, news: Channel, live: TelegramAccount, updates: AsyncIterator[LiveUpdate]
) -> None:
    await sim.stop()
    with pytest.raises(SourceError) as caught:
        await anext(updates)
    assert caught.value.failure is Failure.TRANSIENT
    await sim.start()
    async with aclosing(live.updates()) as again:
        assert await anext(again) == Interrupted(None)
        fill(world, news, 1)
        assert text_of(await anext(again)) == "Post 1"


async def test_an_account_that_is_logged_out_meanwhile(sim: Simulator, updates: AsyncIterator[LiveUpdate]) -> None:
    sim.faults.add(Fault("error", "users.getUsers", code=401, message="SESSION_REVOKED"))
    sim.disconnect()
    with pytest.raises(SourceError) as caught:
        await anext(updates)
    assert caught.value.failure is Failure.ACCOUNT


async def test_one_flow_at_a_time_and_only_of_a_live_client(
    live: TelegramAccount, source: TelegramAccount, updates: AsyncIterator[LiveUpdate]
) -> None:
    assert updates is not None
    for one in (live, source):
        with pytest.raises(RuntimeError, match="live"):
            await anext(one.updates())


async def test_a_reader_is_not_sent_updates(
    sim: Simulator, world: World, news: Channel, source: TelegramAccount
) -> None:
    await source.connect()
    sim.faults.add(Fault("push_lose", "push.new"))
    fill(world, news, 1)
    assert sim.faults.fired["push_lose"] == 0, "there was a push to lose"
