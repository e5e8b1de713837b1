"""Pages of strangers through a proxy: the guard holds, and what it gives up when the proxy looks names up."""

from __future__ import annotations

from typing import Any

import pytest

from telegram_assistant.crawl.fetcher import Fetcher
from telegram_assistant.crawl.network import leave_to_proxy, network_through
from telegram_assistant.domain.proxies import parse_proxy
from telegram_assistant.errors import Reject, Retry
from tests.proxies import HttpProxy, Socks5Proxy, TestProxy

pytestmark = pytest.mark.integration


@pytest.fixture(params=[Socks5Proxy, HttpProxy])
def proxy(request: pytest.FixtureRequest) -> TestProxy:
    made: TestProxy = request.param(login=("ann", "s3cret"))
    return made


async def test_the_proxy_is_asked_for_the_checked_address(internet: Any, proxy: TestProxy) -> None:
    site = await internet.site("news.test", page=internet.response("hello"))
    ((address,),) = internet.names["news.test"]
    inner = await internet.server()
    internet.names |= {"inside.test": [["10.0.0.7"]], "turns.test": [[address], ["127.0.0.1"]]}
    async with proxy:
        proxy.leads[address, 80] = ("127.0.0.1", site.port)
        network = network_through(parse_proxy(proxy.url))
        fetcher = Fetcher(agent="x", resolve=internet.resolve, network=network)
        assert (await fetcher.get("http://news.test/page")).body == b"hello"
        assert (await fetcher.get("http://turns.test/page")).body == b"hello"
        assert proxy.asked == [(address, 80)] * 2  # never by name: a second answer of the DNS changes nothing
        assert site.asked[0].headers["host"] == "news.test"
        for link in (
            "http://inside.test/",
            "http://turns.test/",
            f"http://127.0.0.1:{inner.port}/",
            "http://10.0.0.7/",
        ):
            with pytest.raises(Reject):
                await fetcher.get(link)
        assert len(proxy.asked) == 2
        assert inner.asked == []


async def test_names_that_only_the_proxy_knows(internet: Any, proxy: TestProxy) -> None:
    site = await internet.site("news.test", page=internet.response("hello"))
    async with proxy:
        proxy.leads["news.test", 80] = ("127.0.0.1", site.port)
        network = network_through(parse_proxy(proxy.url))
        fetcher = Fetcher(agent="x", resolve=leave_to_proxy, network=network)
        assert (await fetcher.get("http://news.test/page")).body == b"hello"
        assert proxy.asked == [("news.test", 80)]
        for link in (
            "http://10.0.0.7/",
            "http://[::1]/",
            "http://2130706433/",
            "http://printer.local/",
            "http://router/",
        ):
            with pytest.raises(Reject):
                await fetcher.get(link)
        assert len(proxy.asked) == 1


async def test_what_was_allowed_on_this_machine_is_not_taken_through_it(internet: Any, proxy: TestProxy) -> None:
    site = await internet.server()
    site.pages["/page"] = internet.response("hello")
    async with proxy:
        network = network_through(parse_proxy(proxy.url))
        for resolve in (internet.resolve, leave_to_proxy):
            fetcher = Fetcher(agent="x", allow={("127.0.0.1", site.port)}, resolve=resolve, network=network)
            assert (await fetcher.get(f"http://127.0.0.1:{site.port}/page")).body == b"hello"
        assert proxy.asked == []


async def test_a_proxy_that_is_away_or_refuses_is_tried_again_later(proxy: TestProxy) -> None:
    async with proxy:
        given = parse_proxy(proxy.url.replace("s3cret", "0ther-s3cret"))
        fetcher = Fetcher(agent="x", resolve=leave_to_proxy, network=network_through(given))
        with pytest.raises(Retry) as refused:
            await fetcher.get("http://news.test/page")
        assert proxy.refused == 1
    with pytest.raises(Retry, match="did not connect us") as away:
        await fetcher.get("http://news.test/page")
    for error in (refused, away):
        assert given.shown in str(error.value)
        assert "s3cret" not in str(error.value)
