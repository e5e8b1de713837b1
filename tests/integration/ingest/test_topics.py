"""Topics of forums, read through the simulator: of a group that is watched, and of a channel's discussion group."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.access import SYSTEM_TENANT, SYSTEM_USER
from telegram_assistant.domain.accounts import Priority
from telegram_assistant.domain.ledger import Coverage
from telegram_assistant.domain.media_rules import MediaDecision
from telegram_assistant.domain.post import post_id
from telegram_assistant.domain.source import Peer, Source
from telegram_assistant.ingest.saver import Reading, Saver
from telegram_assistant.ingest.topics import FORUMS, OTHERS, TopicReader
from telegram_assistant.source.telegram_account import TelegramAccount
from telegram_assistant.source.telegram_client import open_client
from telegram_assistant.stores.postgres.channels import Channel
from telegram_assistant.stores.postgres.post_views import PostViews
from telegram_assistant.stores.postgres.topics import ForumTopics
from telegram_simulator.faults import Fault
from telegram_simulator.model import Channel as SimChannel
from telegram_simulator.model import Message, User
from telegram_simulator.server import Simulator
from telegram_simulator.world import World

pytestmark = pytest.mark.integration

NOW = datetime.now(UTC).replace(microsecond=0)
TENANT = UUID(SYSTEM_TENANT)
NEWS, GROUP = 1001, 2001
ASKED = "messages.getForumTopics"


@dataclass
class Place:
    """A channel with a discussion group, and the job that asks for topics. It is an account for all of them, too."""

    world: World
    group: SimChannel
    sim: Simulator
    account: TelegramAccount
    database: AsyncEngine
    now: datetime = NOW

    async def reach(self) -> None:
        """All channels."""

    async def reader(self, channel: Channel, *, priority: Priority = Priority.VISIT) -> Source:  # noqa: ARG002 - one fits all
        return self.account.channel(Peer(channel.id, channel.access_hash["a"]))

    def __post_init__(self) -> None:
        self.store, self.posts = ForumTopics(self.database), PostViews(self.database)
        self.topics = TopicReader(self.store, self, clock=lambda: self.now)

    async def watch(self, *statements: str, channel_id: int = GROUP) -> None:
        async with self.database.begin() as connection:
            for statement in statements:
                await connection.execute(text(statement))
            await connection.execute(
                text("INSERT INTO subscriptions (tenant_id, user_id, channel_id) VALUES (:tenant, :user, :id)"),
                {"tenant": TENANT, "user": UUID(SYSTEM_USER), "id": channel_id},
            )

    def say(self, words: str, topic: int | None = None, answers: int | None = None) -> int:
        number = self.world.next_id(self.group)
        self.world.post(self.group, Message(number, NOW, words, topic=topic, reply_to=answers, sender_id=5001))
        return number

    async def visit(self) -> None:
        page = await self.account.channel(Peer(GROUP, 22)).page_after(0)
        saver = Saver(self.database, clock=lambda: NOW, decide_media=lambda _: MediaDecision("pending"))
        proven = Coverage.of_spans((1, self.group.newest_id + 1))
        await saver.save(Reading(channel_id=GROUP, posts=page.posts, proven=proven, newest_id=self.group.newest_id))

    async def listed(self, channel_id: int = GROUP) -> dict[str, str]:
        """Title by title what is said of a topic."""
        found = await self.store.of_channel(TENANT, channel_id)
        return {one.title: "deleted" if one.deleted_at else "closed" if one.closed else "" for one in found}

    async def texts(self, thread: int) -> list[str]:
        found = await self.posts.newest(TENANT, limit=100, channel_id=GROUP, thread=thread)
        return sorted(line.text for line in found if line.text)

    def asked(self) -> int:
        return sum(call.method == ASKED for call in self.sim.rpc_log)


@pytest.fixture
async def place(database: AsyncEngine) -> AsyncIterator[Place]:
    world = World()
    world.add_user(User(id=5001, access_hash=77, first_name="Reader", phone="79990000001"))
    born = NOW - timedelta(days=30)
    world.add_channel(SimChannel(NEWS, 11, "News", "the_news", born, members={5001}, linked_id=GROUP))
    group = SimChannel(GROUP, 22, "Chat", "the_chat", born, group=True, linked_id=NEWS, members={5001})
    world.add_channel(group)
    async with Simulator(world) as sim:
        client = open_client(api_id=1, api_hash="x", session=sim.session(), rsa_key_pem=sim.public_key_pem)
        async with TelegramAccount(client, "a") as account:
            yield Place(world, group, sim, account, database)
    assert sim.unhandled == []


WATCHED_GROUP = (
    "INSERT INTO channels (id, title, username, access_hash, is_group, requested_from)"
    " VALUES (2001, 'Chat', 'the_chat', '{\"a\": 22}', true, 1)"
)


async def test_posts_of_a_group_are_listed_by_topic_and_name_theirs(place: Place) -> None:
    general = place.say("hello all")
    releases, help_ = place.world.open_topic(place.group, "Releases"), place.world.open_topic(place.group, "Help")
    asked = place.say("how does it start?", help_.id)
    place.say("with make run", help_.id, answers=asked)
    place.say("0.2 is out", releases.id)
    place.say("hello you", answers=general)
    await place.watch(WATCHED_GROUP)
    await place.visit()
    await place.topics.step()
    assert await place.listed() == {"General": "", "Help": "", "Releases": ""}
    assert await place.texts(help_.id) == ["how does it start?", "with make run"]
    assert await place.texts(releases.id) == ["0.2 is out"]
    assert await place.texts(1) == ["hello all", "hello you"], "an answer in the general topic is no topic"
    for message_id, title in ((asked, "Help"), (asked + 1, "Help"), (help_.id, "Help"), (general, "General")):
        view = await place.posts.get(TENANT, post_id(GROUP, message_id))
        assert view is not None
        assert view.thread is not None
        assert view.thread.title == title


async def test_they_are_followed_when_they_change_and_asked_for_now_and_then(place: Place) -> None:
    place.say("hello")
    first, second = place.world.open_topic(place.group, "First"), place.world.open_topic(place.group, "Second")
    place.say("soon gone", second.id)
    await place.watch(WATCHED_GROUP)
    await place.visit()
    await place.topics.step()
    await place.topics.step()
    assert place.asked() == 1, "not again at once"
    first.title, first.closed = "Renamed", True
    place.world.delete_topic(place.group, second.id)
    place.now += FORUMS + timedelta(seconds=1)
    await place.topics.step()
    assert await place.listed() == {"General": "", "Renamed": "closed", "Second": "deleted"}
    assert await place.texts(second.id) == ["soon gone"], "what was captured is still found by it"
    place.group.topics.clear()
    place.now += FORUMS + timedelta(seconds=1)
    await place.topics.step()
    assert set((await place.listed()).values()) == {"deleted"}, "it is no forum any more"


async def test_a_long_list_comes_in_pages(place: Place) -> None:
    place.say("hello")
    titles = {place.world.open_topic(place.group, f"Topic {number}").title for number in range(250)}
    await place.watch(WATCHED_GROUP)
    await place.topics.step()
    assert await place.listed() == dict.fromkeys(titles | {"General"}, "")
    assert place.asked() == 3


async def test_a_channel_has_the_topics_of_its_discussion_group(place: Place) -> None:
    place.say("hello")
    place.world.open_topic(place.group, "Feedback")
    await place.watch(
        "INSERT INTO channels (id, title, is_group, linked_id, status)"
        " VALUES (2001, 'News: comments', true, 1001, 'linked')",
        "INSERT INTO channels (id, title, username, access_hash, read_comments, linked_id)"
        " VALUES (1001, 'News', 'the_news', '{\"a\": 11}', true, 2001)",
        channel_id=NEWS,
    )
    await place.topics.step()
    assert await place.listed(NEWS) == {"Feedback": "", "General": ""}


async def test_a_group_that_is_none_is_asked_once_a_day_and_a_failure_waits(place: Place) -> None:
    await place.watch(WATCHED_GROUP)
    await place.topics.step()
    assert (await place.listed(), place.asked()) == ({}, 0)
    place.say("hello")
    place.world.open_topic(place.group, "New")
    place.now += FORUMS * 2
    await place.topics.step()
    assert await place.listed() == {}
    place.now += OTHERS
    place.sim.faults.add(Fault("error", ASKED, code=400, message="CHANNEL_PRIVATE", times=1))
    await place.topics.step()
    assert await place.listed() == {}
    place.now += OTHERS + timedelta(seconds=1)
    await place.topics.step()
    assert set(await place.listed()) == {"General", "New"}
