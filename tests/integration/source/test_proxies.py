"""Telegram through real proxies: SOCKS5, HTTP, and MTProxy with each kind of secret."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest

from telegram_assistant.config import Settings, TelegramServer
from telegram_assistant.domain.proxies import parse_proxy
from telegram_assistant.domain.retries import Failure
from telegram_assistant.domain.source import SourceError
from telegram_assistant.source.telegram_account import TelegramAccount
from telegram_assistant.source.telegram_client import open_client
from telegram_assistant.source.telegram_proxy import connection_through
from telegram_assistant.source.telegram_way import answers
from telegram_simulator.model import Channel
from telegram_simulator.server import Simulator
from telegram_simulator.world import World
from tests.integration.source.conftest import NEWS, fill
from tests.proxies import HttpProxy, MTProxy, Socks5Proxy, TestProxy

pytestmark = pytest.mark.integration

KEY = bytes(range(16))
PASSWORD = "s3cret-p4ss"
Open = Callable[[str], TelegramAccount]


def telegram_at(sim: Simulator) -> tuple[str, int]:
    server = TelegramServer.parse(sim.address)
    return server.host, server.port


def made(kind: str, sim: Simulator) -> TestProxy:
    kinds: dict[str, Callable[[], TestProxy]] = {
        "socks5": Socks5Proxy,
        "socks5 with a password": lambda: Socks5Proxy(login=("ann", PASSWORD)),
        "http": HttpProxy,
        "http with a password": lambda: HttpProxy(login=("ann", PASSWORD)),
        "mtproxy": lambda: MTProxy(telegram_at(sim), key=KEY),
        "mtproxy dd": lambda: MTProxy(telegram_at(sim), key=KEY, padded=True),
        "mtproxy ee": lambda: MTProxy(telegram_at(sim), key=KEY, domain="www.example.org"),
    }
    return kinds[kind]()


@pytest.fixture
async def through(sim: Simulator) -> AsyncIterator[Open]:
    async with AsyncExitStack() as stack:

        def account(url: str) -> TelegramAccount:
            client = open_client(
                api_id=1,
                api_hash="hash",
                session=sim.session(),
                server=TelegramServer.parse(sim.address),
                rsa_key_pem=sim.public_key_pem,
                proxy=parse_proxy(url),
            )
            client._sender._delay = 0.02  # noqa: SLF001 - not half a second for a server that is gone
            made = TelegramAccount(client, "account")
            stack.push_async_callback(made.close)
            return made

        yield account


@pytest.mark.parametrize(
    "kind",
    ["socks5", "socks5 with a password", "http", "http with a password", "mtproxy", "mtproxy dd", "mtproxy ee"],
)
async def test_posts_come_through(kind: str, sim: Simulator, world: World, news: Channel, through: Open) -> None:
    fill(world, news, 130)
    async with made(kind, sim) as proxy:
        account = through(proxy.url)
        page = await account.channel(NEWS).page_after(0)
        assert [post.message_id for post in page.posts] == [*range(1, 101)]
        assert account.way == f"through {parse_proxy(proxy.url).shown}"
        assert proxy.asked == [telegram_at(sim)]  # one connection, and it is Telegram's
        assert proxy.refused == 0
        if isinstance(proxy, MTProxy):
            assert proxy.centres == [2]
        await answers(TelegramServer.parse(sim.address), parse_proxy(proxy.url))


@pytest.mark.parametrize(
    "case",
    [
        ("socks5 with a password", "s3cret-p4ss", "s3cret-other", "did not connect us"),
        ("http with a password", "s3cret-p4ss", "s3cret-other", "407"),
        ("mtproxy ee", KEY.hex(), "5ec4e7" + "0" * 26, "know the secret|in time"),
    ],
)
async def test_a_wrong_password_is_told_and_never_shown(
    case: tuple[str, str, str, str], sim: Simulator, through: Open, caplog: pytest.LogCaptureFixture
) -> None:
    kind, right, wrong, said = case
    async with made(kind, sim) as proxy:
        bad = proxy.url.replace(right, wrong)
        account = through(bad)
        with pytest.raises(SourceError, match=said) as caught:
            await account.connect()
        assert caught.value.failure is Failure.TRANSIENT  # a proxy's fault is not the account's
        assert "tga doctor" in str(caught.value)
        for text in (str(caught.value), repr(connection_through(parse_proxy(bad))), caplog.text):
            assert "s3cret" not in text
            assert "5ec4e7" not in text
        assert proxy.refused
        assert proxy.asked == []


async def test_nothing_goes_directly_while_the_proxy_is_away(sim: Simulator, through: Open) -> None:
    async with Socks5Proxy() as proxy:
        gone = proxy.url
    with pytest.raises(SourceError, match="did not connect us"):
        await through(gone).connect()
    with pytest.raises(SourceError, match="did not connect us"):
        await answers(TelegramServer.parse(sim.address), parse_proxy(gone))
    assert not sim.rpc_log


def test_who_goes_through_what() -> None:
    mtproxy = "tg://proxy?server=a.example&port=443&secret=" + KEY.hex()
    assert Settings(proxy_url="socks5://a:1").account_proxy() == parse_proxy("socks5://a:1")
    assert Settings(proxy_url="socks5://a:1", telegram_proxy="direct").account_proxy() is None
    assert Settings(proxy_url="socks5://a:1", telegram_proxy="direct").telegram_web_proxy is None
    both = Settings(proxy_url="socks5://a:1", telegram_proxy=mtproxy)
    assert both.account_proxy() == parse_proxy(mtproxy)
    assert both.telegram_web_proxy == both.web_proxy == parse_proxy("socks5://a:1")
    assert both.account_proxy("http://b:2") == parse_proxy("http://b:2")
    assert Settings(telegram_proxy=mtproxy).telegram_web_proxy is None
