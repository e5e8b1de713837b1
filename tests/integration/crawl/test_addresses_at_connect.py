"""No link, redirect or DNS answer leads us into a private network (G6)."""

from __future__ import annotations

import socket
from typing import Any

import httpcore
import pytest

from telegram_assistant.crawl.fetcher import Fetcher
from telegram_assistant.errors import Reject, Retry, Skip

pytestmark = pytest.mark.integration

Internet = Any  # of conftest.py, which cannot be imported

FORBIDDEN = [
    "file:///etc/passwd",
    "ftp://news.test/",
    "gopher://127.0.0.1:6379/_FLUSHALL",
    "javascript:alert(1)",
    "http://127.0.0.1/",
    "http://127.0.0.1:{port}/secret",
    "http://localhost:{port}/secret",
    "http://[::1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[64:ff9b::7f00:1]/",
    "http://[2002:7f00:1::1]/",
    "http://0.0.0.0/",
    "http://10.0.0.1/",
    "http://100.64.0.1/",
    "http://169.254.169.254/latest/meta-data/",
    "http://metadata.google.internal/",
    "http://192.168.0.1/",
    "http://224.0.0.1/",
    "http://127.1/",
    "http://2130706433/",
    "http://0x7f000001/",
    "http://017700000001/",
    "http://user:password@news.test/",
    "http://news.test@127.0.0.1/",
    "http://news.test:22/",
    "http://news.test:6379/",
]


@pytest.mark.parametrize("link", FORBIDDEN)
async def test_a_link_to_a_forbidden_place_is_rejected_without_a_connection(internet: Internet, link: str) -> None:
    secret = await internet.server()
    with pytest.raises(Reject):
        await internet.fetcher().get(link.format(port=secret.port))
    assert internet.wire.dialled == []
    assert internet.looked_up == []
    assert secret.asked == []


@pytest.mark.parametrize("location", FORBIDDEN)
@pytest.mark.parametrize("status", [301, 307])
async def test_a_redirect_to_a_forbidden_place_is_rejected(internet: Internet, location: str, status: int) -> None:
    secret = await internet.server()
    target = location.format(port=secret.port)
    headers = [("Location", target)]
    site = await internet.site("news.test", start=internet.response(status=status, headers=headers))
    with pytest.raises(Reject, match="redirect leads astray"):
        await internet.fetcher().get("http://news.test/start")
    assert site.paths == ["/start"]
    assert len(internet.wire.dialled) == 1
    assert secret.asked == []


@pytest.mark.parametrize(
    "answers",
    [
        ["127.0.0.1"],
        ["::1"],
        ["10.1.2.3"],
        ["169.254.169.254"],
        ["100.64.0.1"],
        ["::ffff:127.0.0.1"],
        ["64:ff9b::7f00:1"],
        ["fe80::1%eth0"],
        ["fd00:ec2::254"],
        ["0.0.0.0"],
        ["93.184.216.1", "127.0.0.1"],
        ["127.0.0.1", "93.184.216.1"],
        ["not-an-address"],
    ],
)
async def test_a_name_that_leads_to_a_forbidden_address_is_rejected(internet: Internet, answers: list[str]) -> None:
    internet.names["evil.test"] = [answers]
    with pytest.raises(Reject, match="leads to"):
        await internet.fetcher().get("http://evil.test/")
    assert internet.wire.dialled == []


async def test_the_checked_address_is_the_one_that_is_dialled(internet: Internet) -> None:
    site = await internet.site("news.test", page=internet.response(internet.article()))
    fetched = await internet.fetcher().get("http://news.test/page")
    assert fetched.status == 200
    assert internet.looked_up == ["news.test"], "one look-up per connection: nothing to rebind between check and use"
    assert internet.wire.dialled == [("93.184.216.1", 80)]
    assert site.asked[0].headers["host"] == "news.test"


async def test_dns_rebinding_between_two_requests_is_rejected(internet: Internet) -> None:
    """The name is public when the first request is made, and private when the redirect to itself is followed."""
    site = await internet.site("rebind.test", start=internet.response(status=302, headers=[("Location", "/secret")]))
    internet.names["rebind.test"] = [["93.184.216.1"], ["127.0.0.1"]]
    with pytest.raises(Reject, match=r"rebind\.test leads to 127\.0\.0\.1, which is loopback"):
        await internet.fetcher().get("http://rebind.test/start")
    assert site.paths == ["/start"]
    assert internet.wire.dialled == [("93.184.216.1", 80)]


async def test_dns_rebinding_between_two_pages_is_rejected(internet: Internet) -> None:
    await internet.site("rebind.test", page=internet.response("<p>x</p>"))
    internet.names["rebind.test"] = [["93.184.216.1"], ["169.254.169.254"]]
    fetcher = internet.fetcher()
    assert (await fetcher.get("http://rebind.test/page")).status == 200
    with pytest.raises(Reject, match=r"169\.254\.169\.254"):
        await fetcher.get("http://rebind.test/page")


async def test_an_allowance_opens_one_host_and_port_on_loopback(internet: Internet) -> None:
    server, other = await internet.server(), await internet.server()
    server.pages["/page"] = other.pages["/page"] = internet.response("<p>x</p>")
    server.pages["/out"] = internet.response(status=302, headers=[("Location", f"http://127.0.0.1:{other.port}/page")])
    fetcher = internet.fetcher(allow={("127.0.0.1", server.port), ("demo.test", server.port)})
    internet.names["demo.test"] = [["127.0.0.1"]]
    assert (await fetcher.get(f"http://127.0.0.1:{server.port}/page")).status == 200
    assert (await fetcher.get(f"http://demo.test:{server.port}/page")).status == 200
    for link in (f"127.0.0.1:{other.port}/page", f"localhost:{server.port}/page", f"127.0.0.1:{server.port}/out"):
        with pytest.raises(Reject):
            await fetcher.get(f"http://{link}")
    internet.names["demo.test"] = [["169.254.169.254"]]
    with pytest.raises(Reject, match="link-local"):
        await fetcher.get(f"http://demo.test:{server.port}/page")
    assert other.asked == []


async def test_a_public_address_without_a_name_is_asked_by_that_address(internet: Internet) -> None:
    site = await internet.site("news.test", page=internet.response("<p>x</p>"))
    internet.wire.servers["2606:4700::1111"] = site
    assert (await internet.fetcher().get("http://[2606:4700:0::1111]/page")).status == 200
    assert internet.wire.dialled == [("2606:4700::1111", 80)]
    assert site.asked[0].headers["host"] == "[2606:4700::1111]"


async def test_a_second_address_is_tried_when_the_first_is_dead(internet: Internet) -> None:
    await internet.site("news.test", page=internet.response("<p>x</p>"))
    internet.names["news.test"] = [["93.184.216.99", "93.184.216.1"]]
    assert (await internet.fetcher().get("http://news.test/page")).status == 200
    assert internet.wire.dialled == [("93.184.216.99", 80), ("93.184.216.1", 80)]


async def test_names_that_cannot_be_looked_up() -> None:
    async def failing(host: str, _port: int) -> list[str]:
        raise socket.gaierror(socket.EAI_AGAIN if host == "busy.test" else socket.EAI_NONAME, "no")

    async def silent(_host: str, _port: int) -> list[str]:
        return []

    with pytest.raises(Retry, match="cannot be looked up at the moment"):
        await Fetcher(agent="x", resolve=failing).get("http://busy.test/")
    with pytest.raises(Skip, match="no host gone"):
        await Fetcher(agent="x", resolve=failing).get("http://gone.test/")
    with pytest.raises(Skip, match="no host"):
        await Fetcher(agent="x", resolve=silent).get("http://gone.test/")


async def test_the_systems_own_resolver_is_checked_too() -> None:
    """Without any argument of a test: `localhost.` names are refused by name, this one by its address."""
    fetcher = Fetcher(agent="x", network=httpcore.AnyIOBackend())
    with pytest.raises(Reject, match="private network"):
        await fetcher.get("http://localhost/")
    name = socket.gethostname()
    if "." not in name:
        with pytest.raises(Reject, match="private network"):
            await fetcher.get(f"http://{name}/")
