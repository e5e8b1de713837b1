"""A channel read by its public preview, over HTTP from the simulator's web face."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from telegram_assistant.config import Settings
from telegram_assistant.domain.channel import ChannelRef
from telegram_assistant.domain.retries import Failure
from telegram_assistant.domain.source import SourceError
from telegram_assistant.source.preview import PreviewChannel, Previews
from telegram_assistant.source.preview_site import PreviewSite
from telegram_assistant.wiring.previews import open_previews
from telegram_simulator.faults import Fault
from telegram_simulator.model import Channel, Message, Service
from telegram_simulator.preview import PreviewPages
from telegram_simulator.world import World
from tests.integration.source.conftest import START, fill, picture
from tests.proxies import HttpProxy

pytestmark = pytest.mark.integration


def site_at(*hosts: str) -> PreviewSite:
    settings = Settings(preview_hosts=",".join(hosts), preview_pause_sec=0)
    site = open_previews(settings, clock=lambda: datetime.now(UTC))
    assert site is not None
    return site


@pytest.fixture
async def web(world: World) -> AsyncIterator[PreviewPages]:
    async with PreviewPages(world) as web:
        yield web


@pytest.fixture
def source(web: PreviewPages, news: Channel) -> PreviewChannel:
    return PreviewChannel(site_at(web.address), news.id, "News_Daily")


async def test_history_page_by_page_to_its_end(world: World, news: Channel, source: PreviewChannel) -> None:
    fill(world, news, 45)
    seen, after = [], 0
    while True:
        page = await source.page_after(after)
        seen += [post.message_id for post in page.posts]
        after = seen[-1]
        if page.reached_end:
            break
    assert seen == [*range(2, 46)]  # the first is not after any id that the site takes: it is asked for by its own
    assert await source.by_ids([1]) == {1: (await source.by_ids([1, 2]))[1]}
    before = await source.page_before(30, 5)
    assert before is not None
    assert [post.message_id for post in before.posts] == [25, 26, 27, 28, 29]


async def test_what_a_post_says(world: World, news: Channel, source: PreviewChannel) -> None:
    fill(world, news, 1)
    album = [Message(number, START, "both" if number == 2 else "", file=picture(number)) for number in (2, 3)]
    for message in album:
        message.grouped_id = 77
        world.post(news, message)
    world.post(news, Message(4, START, service=Service("created")))
    page = await source.page_after(0)
    assert [(post.message_id, post.text, post.grouped_id) for post in page.posts] == [
        (2, "both", -2),
        (3, "", -2),
        (4, "", None),
    ]
    assert page.posts[2].service is not None
    info = await source.describe()
    assert (info.id, info.title, info.username, info.about) == (100, "News", "News_Daily", "All of it")


async def test_an_id_is_empty_only_where_the_widget_says_so_while_the_canary_lives(
    world: World, news: Channel, web: PreviewPages, source: PreviewChannel
) -> None:
    fill(world, news, 30)
    world.delete(news, [7])
    web.left_out.add((news.id, 9))
    found = await source.by_ids([7, 8, 9])
    assert found.keys() == {7, 8, 9}
    assert [post.message_id for post in found.values() if post is not None] == [8, 9]


async def test_a_soft_ban_is_no_deletion(
    world: World, news: Channel, web: PreviewPages, source: PreviewChannel
) -> None:
    fill(world, news, 30)
    web.faults.add(Fault("web_soft_ban", "web.post"))
    with pytest.raises(SourceError, match="missing that it showed before") as told:
        await source.by_ids([7])
    assert told.value.failure is Failure.FLOOD
    assert told.value.flood_seconds


async def test_a_soft_ban_that_begins_in_the_middle_is_no_deletion(
    world: World, news: Channel, web: PreviewPages, source: PreviewChannel
) -> None:
    fill(world, news, 30)
    web.faults.add(Fault("web_soft_ban", "web.post", skip=2))
    with pytest.raises(SourceError, match="missing that it showed before"):
        await source.by_ids([2, 25])


async def test_the_newest_post_before_a_moment(world: World, news: Channel, source: PreviewChannel) -> None:
    fill(world, news, 300)
    world.delete(news, [*range(100, 160), 201])
    for minutes in (0, 1, 2, 50, 99, 120, 161, 202, 299, 300, 1000):
        moment = START + timedelta(minutes=minutes)
        expected = max((one.id for one in news.messages.values() if one.date < moment), default=0)
        assert await source.last_id_before(moment) == expected, minutes


async def test_files_are_fetched_and_an_address_that_died_is_renewed(
    world: World, news: Channel, web: PreviewPages, source: PreviewChannel
) -> None:
    fill(world, news, 1)
    world.post(news, Message(2, START, "photo", file=picture(2)))
    [post] = (await source.page_after(1)).posts
    data = b"".join([piece async for piece in source.download(2, post.media[0])])
    assert data == picture(2).data
    web.expire_files()
    again = b"".join([piece async for piece in source.download(2, post.media[0])])
    assert again == data


@pytest.mark.parametrize(
    "fault,failure,words",
    [
        (Fault("web_flood", seconds=40), Failure.FLOOD, "asks to wait 40 s"),
        (Fault("web_challenge"), Failure.FLOOD, "no page of Telegram"),
        (Fault("web_error", code=503), Failure.TRANSIENT, "answers 503"),
        (Fault("web_changed"), Failure.FATAL, "cannot be understood"),
        (Fault("web_no_preview"), Failure.CHANNEL_PRIVATE, "has no public preview"),
    ],
)
async def test_pages_that_are_none(  # noqa: PLR0917 - a table
    world: World, news: Channel, web: PreviewPages, source: PreviewChannel, fault: Fault, failure: Failure, words: str
) -> None:
    fill(world, news, 3)
    web.faults.add(fault)
    with pytest.raises(SourceError, match=words) as told:
        await source.page_after(1)
    assert told.value.failure is failure


async def test_after_a_refusal_the_site_is_left_alone(
    world: World, news: Channel, web: PreviewPages, source: PreviewChannel
) -> None:
    fill(world, news, 3)
    web.faults.add(Fault("web_challenge", times=1))
    for _ in range(3):
        with pytest.raises(SourceError, match="asks to wait"):
            await source.page_after(1)
    assert len(web.asked) == 1


async def test_where_one_host_is_away_the_next_is_asked(world: World, news: Channel, web: PreviewPages) -> None:
    fill(world, news, 3)
    source = PreviewChannel(site_at("http://127.0.0.1:9", web.address), news.id, "News_Daily")
    assert len((await source.page_after(1)).posts) == 2


async def test_a_name_that_another_channel_has_now(world: World, news: Channel, web: PreviewPages) -> None:
    fill(world, news, 3)
    source = PreviewChannel(site_at(web.address), news.id + 1, "News_Daily")
    with pytest.raises(SourceError, match="another channel now") as told:
        await source.page_after(1)
    assert told.value.failure is Failure.GONE


@pytest.mark.parametrize(
    "name,words,failure",
    [
        ("nothing_here", "no channel has this name", Failure.GONE),
        ("ann_reads", "a person or a bot", Failure.GONE),
        ("quiet", "no posts yet", Failure.CHANNEL_PRIVATE),
    ],
)
async def test_names_that_cannot_be_read(web: PreviewPages, name: str, words: str, failure: Failure) -> None:
    with pytest.raises(SourceError, match=words) as told:
        await Previews(site_at(web.address)).resolve(ChannelRef(username=name), uuid4())
    assert told.value.failure is failure


async def test_a_channel_by_its_name(world: World, news: Channel, web: PreviewPages) -> None:
    fill(world, news, 3)
    name, info = await Previews(site_at(web.address)).resolve(ChannelRef(username="news_daily"), uuid4())
    assert (name, info.id, info.username, info.subscribers) == ("preview", 100, "News_Daily", 77)
    with pytest.raises(SourceError, match="no public name"):
        await Previews(site_at(web.address)).resolve(ChannelRef(invite="come-in-here"), uuid4())


async def test_through_a_proxy_which_looks_the_name_up(world: World, news: Channel, web: PreviewPages) -> None:
    fill(world, news, 3)
    world.post(news, Message(4, START, "a picture", file=picture(4)))
    port = int(web.address.rpartition(":")[2])
    async with HttpProxy(leads={("previews.test", 80): ("127.0.0.1", port)}) as proxy:
        settings = Settings(preview_hosts="http://previews.test", preview_pause_sec=0, telegram_proxy=proxy.url)
        site = open_previews(settings, clock=lambda: datetime.now(UTC))
        assert site is not None
        page = await PreviewChannel(site, news.id, "News_Daily").page_after(0)
        assert [post.message_id for post in page.posts] == [2, 3, 4]
        assert set(proxy.asked) == {("previews.test", 80)}
