"""The pages that posts link to, over real HTTP; and the demo, which serves them on a port that it remembers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import pytest
import trafilatura
from PIL import Image
from protego import Protego
from structlog.testing import capture_logs
from telethon import TelegramClient
from telethon.sessions import StringSession

from telegram_assistant.bus.supervisor import Supervisor
from telegram_assistant.config import Settings
from telegram_assistant.wiring.demo import Demo, pages_in, with_telegram
from telegram_simulator.archive import Archive
from telegram_simulator.generate import demo_world
from telegram_simulator.life import Life
from telegram_simulator.model import Message
from telegram_simulator.pages import HOST, Pages, free_port
from telegram_simulator.phrasebook import LANGUAGES, phrasebook
from telegram_simulator.world import World

pytestmark = pytest.mark.integration

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
LATER = NOW + timedelta(hours=2)


class Site:
    """A world that has lived two hours, its pages, and somebody who asks for them."""

    def __init__(self, world: World, link_host: str, client: httpx.AsyncClient) -> None:
        self.world, self.link_host, self.client = world, link_host, client

    def links(self) -> list[tuple[Message, str]]:
        """Posts about one story that link to its page."""
        messages = (m for c in self.world.channels.values() for m in c.messages.values() if m.story is not None)
        found = [(m, link) for m in messages for link in links_in(m) if link.endswith(f"-{m.story}")]
        return sorted(found, key=lambda pair: pair[1])

    async def get(self, url: str, status: int = 200, headers: dict[str, str] | None = None) -> httpx.Response:
        answer = await self.client.get(url, headers=headers)
        assert answer.status_code == status, answer.text
        return answer


def links_in(message: Message) -> Iterator[str]:
    raw = message.text.encode("utf-16-le")
    for entity in message.entities:
        if entity.kind == "text_url" and entity.url is not None:
            yield entity.url
        elif entity.kind == "url":
            yield raw[2 * entity.offset : 2 * (entity.offset + entity.length)].decode("utf-16-le")


def words_of(text: str) -> set[str]:
    return {word.strip(".,:;!?«»“”()—") for word in text.lower().split()}


def language_of(site: Site, message: Message) -> str:
    return next(c.language for c in site.world.channels.values() if c.messages.get(message.id) is message)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    archive, port = Archive(), free_port()
    link_host = f"http://{HOST}:{port}"
    world = demo_world(now=NOW, link_host=link_host, archive=archive)
    Life(world, seed=1, rate=180, link_host=link_host, archive=archive).step(LATER)
    async with (
        Pages(world, archive, link_host=link_host, port=port),
        httpx.AsyncClient(trust_env=False, timeout=300) as client,
    ):
        yield Site(world, link_host, client)


async def test_every_link_leads_to_the_story_of_its_post(site: Site) -> None:
    links = site.links()
    assert len({link for _, link in links}) > 100
    compared = 0
    for message, link in links[::8]:
        answer = await site.get(link)
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        text = trafilatura.extract(answer.text, include_comments=False) or ""
        assert len(text) >= 600
        told = words_of(message.text.split("\n\n")[1])  # after the headline
        if message.edited is None and f'<html lang="{language_of(site, message)}">' in answer.text:
            assert len(told & words_of(text)) >= 0.5 * len(told), (told, text)
            compared += 1
        boilerplate = (line for language in LANGUAGES for line in phrasebook(language).phrases["boilerplate"])
        assert [line for line in boilerplate if line in text] == []
    assert compared > 10


async def test_who_has_the_page_already_is_told_so(site: Site) -> None:
    link = site.links()[0][1]
    first = await site.get(link)
    etag, modified = first.headers["ETag"], first.headers["Last-Modified"]
    for headers in (
        {"If-None-Match": etag},
        {"If-None-Match": f'"other", W/{etag}'},
        {"If-None-Match": "*"},
        {"If-Modified-Since": modified},
        {"If-None-Match": etag, "If-Modified-Since": "Mon, 01 Jan 2001 00:00:00 GMT"},
    ):
        again = await site.get(link, 304, headers)
        assert again.content == b""
        assert (again.headers["ETag"], again.headers["Last-Modified"]) == (etag, modified)
    for headers in (
        {"If-None-Match": '"other"'},
        {"If-None-Match": '"other"', "If-Modified-Since": modified},
        {"If-Modified-Since": "Mon, 01 Jan 2001 00:00:00 GMT"},
        {"If-Modified-Since": "yesterday"},
    ):
        assert (await site.get(link, headers=headers)).text == first.text


async def test_what_is_no_story_is_not_found(site: Site) -> None:
    topic, kind, number = site.links()[0][1].replace(f"{site.link_host}/", "").replace("-", "/").split("/")
    for path in (
        f"{topic}/{kind}-999999999",
        f"{topic}/{kind}-{'9' * 40}",
        f"{topic}/wrong-{number}",
        f"wrong/{kind}-{number}",
        f"{topic}/{kind}",
        f"{topic}/{kind}-{number}.png",
        "wrong",
        "a/b/c",
    ):
        await site.get(f"{site.link_host}/{path}", 404)


async def test_robots_may_read_all_but_one_folder(site: Site) -> None:
    rules = Protego.parse((await site.get(f"{site.link_host}/robots.txt")).text)
    assert rules.can_fetch(site.links()[0][1], "anybody")
    assert not rules.can_fetch(f"{site.link_host}/private/draft", "anybody")
    await site.get(f"{site.link_host}/private/draft")  # it is there: only manners keep one out


async def test_a_page_has_a_picture(site: Site) -> None:
    link = site.links()[0][1]
    assert f'<img src="{link}.jpg"' in (await site.get(link)).text
    answer = await site.get(f"{link}.jpg")
    with Image.open(BytesIO(answer.content)) as picture:
        assert picture.format == "JPEG"
    await site.get(f"{link}.jpg", 304, {"If-None-Match": answer.headers["ETag"]})


async def test_the_menu_leads_to_newest_stories(site: Site) -> None:
    everything = (await site.get(f"{site.link_host}/")).text
    sport = (await site.get(f"{site.link_host}/sport")).text
    assert everything.count("<li lang=") == sport.count("<li lang=") == 30
    assert sport.count(f'href="{site.link_host}/sport/') == 30


async def test_it_stops_and_starts_on_the_same_port() -> None:
    pages = Pages(World(), Archive(), link_host="http://pages.test")
    async with httpx.AsyncClient(trust_env=False, timeout=300) as client:
        async with pages:
            port = pages.port
            assert (await client.get(f"http://{HOST}:{port}/robots.txt")).status_code == 200
            with pytest.raises(OSError, match="in use"):
                await Pages(World(), Archive(), link_host="", port=port).start()
        with pytest.raises(httpx.TransportError):
            await client.get(f"http://{HOST}:{port}/robots.txt")
        async with pages:
            assert pages.port == port
            assert (await client.get(f"http://{HOST}:{port}/robots.txt")).status_code == 200
        await pages.stop()  # twice is once


def test_a_port_that_is_taken_is_not_chosen() -> None:
    with socket.create_server((HOST, 0)) as other:
        taken = other.getsockname()[1]
        assert free_port(taken) not in (0, taken)
    assert free_port(taken) == taken


# The demo


@asynccontextmanager
async def running(home: Path, clock: Callable[[], datetime]) -> AsyncIterator[Demo]:
    """The demo as `tga up` runs it."""
    demo = await asyncio.to_thread(lambda: Demo(home, clock=clock, pages_port=0))
    supervisor = Supervisor()
    await supervisor.start("simulator", demo.run)
    try:
        yield demo
    finally:
        await asyncio.wait_for(supervisor.stop(), 300)


async def links_seen_by_a_reader(demo: Demo) -> dict[int, str]:
    """What Telethon says the posts of one channel link to."""
    client: Any = TelegramClient(StringSession(demo.telegram()["telegram_session"]), 1, "hash")
    await client.connect()
    try:
        messages = await client.get_messages("calm_exchange", limit=100)
    finally:
        await client.disconnect()
    found = {}
    for message in messages:
        for entity, text in message.get_entities_text() if message.entities else ():
            url = getattr(entity, "url", None) or text
            if url.startswith("http"):
                found[message.id] = url
    return found


async def test_a_restart_of_the_demo_serves_the_same_pages(tmp_path: Path) -> None:
    pages: list[dict[str, tuple[str, str]]] = []
    links: list[dict[int, str]] = []
    async with httpx.AsyncClient(trust_env=False, timeout=300) as client:
        for clock in (lambda: NOW, lambda: LATER):
            async with running(tmp_path, clock) as demo:
                links.append(await links_seen_by_a_reader(demo))
                assert len(links[-1]) > 5
                answers = [await client.get(url) for url in links[0].values()]
                pages.append({str(a.url): (a.headers["ETag"], a.text) for a in answers if a.status_code == 200})
    assert pages[0] == pages[1]
    assert len(pages[0]) == len(set(links[0].values()))
    assert links[0].items() & links[1].items()


async def test_who_joins_the_demo_learns_where_its_pages_are(tmp_path: Path) -> None:
    async with running(tmp_path, lambda: NOW) as demo:
        telegram = demo.telegram()
        address = (HOST, int((tmp_path / "pages.json").read_text()))
        assert [demo.pages_address, pages_in(telegram)] == [address, address]
        settings = with_telegram(Settings(_env_file=None), telegram)
        assert settings.telegram_api_id == 1
        assert not hasattr(settings, "demo_pages")
    assert demo.pages_address is None
    assert pages_in({}) is None


async def test_a_demo_from_before_there_were_pages_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "born.json").write_text(f'"{NOW.isoformat()}"')
    async with running(tmp_path, lambda: NOW) as demo:
        assert demo.pages_address is None
        assert pages_in(demo.telegram()) is None
        links = await links_seen_by_a_reader(demo)
        assert links
        assert all(link.startswith("https://example.org/") for link in links.values())
    assert not (tmp_path / "pages.json").exists()


async def test_where_another_has_the_port_the_demo_goes_on_without_pages(tmp_path: Path) -> None:
    with socket.create_server((HOST, 0)) as other:
        taken = other.getsockname()[1]
        # So it is too when the very first start was killed after it chose its port.
        (tmp_path / "pages.json").write_text(str(taken))
        with capture_logs() as logs:
            async with running(tmp_path, lambda: NOW) as demo:
                assert demo.pages_address is None  # or a crawler would be let in to whatever listens there
                assert pages_in(demo.telegram()) is None
                links = await links_seen_by_a_reader(demo)
        assert all(link.startswith(f"http://{HOST}:{taken}/") for link in links.values())
    said = [line for line in logs if line["event"] == "demo_without_pages"]
    assert [(line["log_level"], line["address"]) for line in said] == [("warning", f"{HOST}:{taken}")]
    async with running(tmp_path, lambda: NOW) as demo:
        assert demo.pages_address == (HOST, taken)
