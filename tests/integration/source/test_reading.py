"""Channels and posts as an account reads them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from telegram_assistant.domain.channel import ChannelRef, parse_ref
from telegram_assistant.domain.post import Counters, Forward, MediaKind, Poll, Post, ReplyTo, Service
from telegram_assistant.domain.retries import Failure
from telegram_assistant.domain.source import ChannelInfo, Page, Peer, Source, SourceError
from telegram_assistant.domain.text import Entity, EntityKind, Link
from telegram_assistant.source.telegram_account import TelegramAccount
from telegram_simulator import model
from telegram_simulator.world import World
from tests.integration.source.conftest import NEWS, OTHER, QUIET, READER, SECRET, START, document, fill, picture

pytestmark = pytest.mark.integration


async def read_all(account: TelegramAccount, peer: Peer) -> tuple[list[Post], list[int]]:
    after_id = 0
    posts: list[Post] = []
    unreadable: list[int] = []
    while True:
        page = await account.channel(peer).page_after(after_id)
        posts += page.posts
        unreadable += page.unreadable
        after_id = max([after_id, *(post.message_id for post in page.posts), *page.unreadable])
        if page.reached_end:
            return posts, unreadable


def spoil(channel: model.Channel, message_id: int) -> None:
    """Let a message be of a type that no client knows."""
    channel.messages[message_id].unknown = True
    channel.messages[message_id].changes += 1


async def test_a_channel_is_a_source(source: TelegramAccount) -> None:
    channel: Source = source.channel(NEWS)
    assert channel.channel_id == NEWS.channel_id


async def test_every_message_once_oldest_first(world: World, news: model.Channel, source: TelegramAccount) -> None:
    fill(world, news, 250)
    world.delete(news, [1, 77, 100, 101, 250])
    posts, unreadable = await read_all(source, NEWS)
    assert [(post.message_id, post.text) for post in posts] == [
        (message.id, message.text) for message in news.messages.values()
    ]
    assert unreadable == []


async def test_a_page_from_the_middle(world: World, news: model.Channel, source: TelegramAccount) -> None:
    fill(world, news, 30)
    page = await source.channel(NEWS).page_after(12, 5)
    assert [post.message_id for post in page.posts] == [13, 14, 15, 16, 17]
    assert not page.reached_end


async def test_nothing_new_is_the_end(world: World, news: model.Channel, source: TelegramAccount) -> None:
    fill(world, news, 3)
    assert await source.channel(NEWS).page_after(3) == Page((), reached_end=True)
    assert await source.channel(QUIET).page_after(0) == Page((), reached_end=True)


async def test_all_that_a_post_can_hold(world: World, news: model.Channel, source: TelegramAccount) -> None:
    edited = START + timedelta(hours=1)
    text = "🎈 look here https://x.org"
    world.post(news, model.Message(1, START, service=model.Service("created", "News")))
    world.post(
        news,
        model.Message(
            2,
            START,
            text,
            entities=(model.Entity("text_url", 8, 4, "https://hidden.org"), model.Entity("url", 13, 13)),
            file=picture(2),
            grouped_id=55,
            forward=model.Forward(300, 9, START, "Bob"),
            reply_to=1,
            author="Ann",
            edited=edited,
            pinned=True,
            counters=model.Counters(views=10, forwards=3, replies=2, reactions={"👍": 5, "🔥": 1}),
        ),
    )
    world.post(news, model.Message(3, START, poll=model.Poll(1, "Yes?", ("yes", "no"))))
    (created, rich, poll), _ = await read_all(source, NEWS)
    assert created.service == Service("created", "News")
    assert (rich.text, rich.posted_at, rich.edited_at) == (text, START, edited)
    assert rich.entities == (
        Entity(EntityKind.TEXT_URL, 8, 4, url="https://hidden.org"),
        Entity(EntityKind.URL, 13, 13),
    )
    assert rich.links == (Link("https://hidden.org", "here", hidden=True), Link("https://x.org", "https://x.org"))
    assert rich.forward == Forward(channel_id=300, message_id=9, author="Bob", posted_at=START)
    assert (rich.reply_to, rich.author, rich.pinned, rich.grouped_id) == (ReplyTo(message_id=1), "Ann", True, 55)
    assert rich.counters == Counters.counted(views=10, forwards=3, replies=2, reactions={"👍": 5, "🔥": 1})
    (photo,) = rich.media
    assert (photo.kind, photo.width, photo.height, photo.size) == (MediaKind.PHOTO, 900, 600, picture(2).size)
    assert poll.poll == Poll(question="Yes?", answers=("yes", "no"))


async def test_hostile_content_arrives_clean(world: World, news: model.Channel, source: TelegramAccount) -> None:
    combining = "e" + "\u0301" * 4095
    world.post(news, model.Message(1, START, combining))
    world.post(news, model.Message(2, START, "a\0b", file=document(2, 100, "../a\0b.pdf")))
    (first, second), _ = await read_all(source, NEWS)
    assert first.text == combining
    assert (second.text, second.media[0].name) == ("ab", ".._ab.pdf")


async def test_by_ids(world: World, news: model.Channel, source: TelegramAccount) -> None:
    fill(world, news, 5)
    world.delete(news, [2])
    found = await source.channel(NEWS).by_ids({4, 2, 9})
    assert {one: post and post.text for one, post in found.items()} == {2: None, 4: "Post 4", 9: None}
    assert await source.channel(NEWS).by_ids([]) == {}
    with pytest.raises(ValueError, match="at most 100"):
        await source.channel(NEWS).by_ids(range(1, 102))


@pytest.mark.parametrize(
    "minutes, expected",
    [(-(10**8), 0), (0, 0), (1, 0), (2.5, 2), (3, 2), (100, 5), (10**8, 5)],
)
async def test_the_last_before_a_moment(
    world: World, news: model.Channel, source: TelegramAccount, minutes: float, expected: int
) -> None:
    fill(world, news, 5)
    moment = datetime(1960, 1, 1, tzinfo=UTC) if minutes < 0 else START + timedelta(minutes=minutes)
    assert await source.channel(NEWS).last_id_before(moment) == expected


async def test_resolving(source: TelegramAccount) -> None:
    found = await source.resolve(parse_ref("https://t.me/News_Daily"))
    assert found == ChannelInfo(id=100, title="News", username="news_daily", access_hash=11, subscribers=77)
    joined = await source.resolve(ChannelRef(invite="our-own-club"))
    assert (joined.id, joined.access_hash, joined.is_private, joined.username) == (500, 15, True, None)


@pytest.mark.parametrize(
    "ref, failure, said",
    [
        ("@nobody_here", Failure.GONE, "USERNAME_NOT_OCCUPIED"),
        ("@ann_reads", Failure.GONE, "not a channel"),
        ("https://t.me/+expired-for-long", Failure.GONE, "INVITE_HASH_EXPIRED"),
        ("https://t.me/+come-in-here", Failure.CHANNEL_PRIVATE, "'Secret'"),
        ("-1001234567890", Failure.CHANNEL_PRIVATE, "username"),
    ],
)
async def test_what_cannot_be_resolved(source: TelegramAccount, ref: str, failure: Failure, said: str) -> None:
    with pytest.raises(SourceError, match=said) as caught:
        await source.resolve(parse_ref(ref))
    assert caught.value.failure is failure


async def test_describing(source: TelegramAccount) -> None:
    assert await source.channel(NEWS).describe() == ChannelInfo(
        id=100, title="News", username="news_daily", access_hash=11, about="All of it", subscribers=77, linked_id=200
    )
    group = await source.channel(Peer(200, 12)).describe()
    assert (group.is_group, group.linked_id) == (True, 100)


async def test_comments(discussed: model.Channel, source: TelegramAccount) -> None:
    first = await source.channel(NEWS).comments_after(1, 0, 3)
    rest = await source.channel(NEWS).comments_after(1, first.posts[-1].message_id)
    found = [*first.posts, *rest.posts]
    assert [(post.channel_id, post.message_id, post.text) for post in found] == [
        (discussed.id, number, f"Comment {number}") for number in range(2, 7)
    ]
    assert [(post.author, post.author_id) for post in found[:2]] == [("Ann", READER), ("Bob", OTHER)]
    assert found[0].reply_to == ReplyTo(message_id=1, thread_id=1)
    assert (await source.channel(NEWS).comments_after(1, 6)).reached_end


async def test_a_post_without_comments(world: World, source: TelegramAccount) -> None:
    fill(world, world.channels[300], 1)
    assert await source.channel(QUIET).comments_after(1, 0) == Page((), reached_end=True)
    assert await source.channel(NEWS).comments_after(12345, 0) == Page((), reached_end=True)


async def test_a_message_of_an_unknown_type_stops_nothing(
    world: World, news: model.Channel, source: TelegramAccount
) -> None:
    fill(world, news, 150)
    spoil(news, 60)
    posts, unreadable = await read_all(source, NEWS)
    assert unreadable == [60]
    assert [post.message_id for post in posts] == [number for number in range(1, 151) if number != 60]
    found = await source.channel(NEWS).by_ids([59, 60, 61, 999])
    assert {one: post is not None for one, post in found.items()} == {59: True, 61: True, 999: False}


async def test_an_unknown_type_at_the_top_hides_nothing(
    world: World, news: model.Channel, source: TelegramAccount
) -> None:
    fill(world, news, 10)
    spoil(news, 10)
    assert await source.channel(NEWS).last_id_before(START + timedelta(days=1)) == 9
    posts, unreadable = await read_all(source, NEWS)
    assert ([post.message_id for post in posts], unreadable) == (list(range(1, 10)), [10])


async def test_a_stale_access_hash_and_a_private_channel(source: TelegramAccount) -> None:
    with pytest.raises(SourceError, match="access hash") as caught:
        await source.channel(Peer(100, 999)).page_after(0)
    assert caught.value.failure is Failure.GONE
    with pytest.raises(SourceError, match="private") as caught:
        await source.channel(SECRET).page_after(0)
    assert caught.value.failure is Failure.CHANNEL_PRIVATE


async def test_whose_account_it_is(source: TelegramAccount) -> None:
    me = await source.me()
    assert (me.id, me.name, me.username, me.phone) == (READER, "Ann", "ann_reads", "+79•••••••01")
