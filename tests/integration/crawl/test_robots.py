"""What sites ask of robots is found, kept for a while, and obeyed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from telegram_assistant.domain.urls import parse_url
from telegram_assistant.errors import Retry, Skip

pytestmark = pytest.mark.integration

Internet = Any  # of conftest.py, which cannot be imported
PAGE = parse_url("http://a.test/news/1")
RULES = """
User-agent: *
Disallow: /private/
Disallow: /*.cgi$
Crawl-delay: 5

User-agent: Googlebot
Disallow: /
"""


async def site_with(internet: Internet, answer: Any) -> Any:
    site = await internet.site("a.test")
    site.pages["/robots.txt"] = answer
    return site


def text(internet: Internet, rules: str) -> bytes:
    made: bytes = internet.response(rules, kind="text/plain")
    return made


async def test_the_rules_are_obeyed_and_asked_for_once(internet: Internet) -> None:
    site = await site_with(internet, text(internet, RULES))
    robots = internet.robots()
    assert await robots.check(PAGE) == 5
    assert await robots.check(parse_url("http://a.test/")) == 5
    for closed in ("http://a.test/private/x", "http://a.test/x.cgi", "http://a.test/%70rivate/x"):
        with pytest.raises(Skip, match=r"robots\.txt of a\.test does not allow it"):
            await robots.check(parse_url(closed))
    assert site.paths == ["/robots.txt"]


async def test_rules_for_us_by_name_come_first(internet: Internet) -> None:
    rules = f"{RULES}\nUser-Agent: telegramassistant/1.0\nAllow: /private/\nDisallow: /news/\nCrawl-delay: 0.5"
    await site_with(internet, text(internet, rules))
    robots = internet.robots()
    assert await robots.check(parse_url("http://a.test/private/x")) == 0.5
    with pytest.raises(Skip):
        await robots.check(PAGE)


async def test_an_agent_line_without_a_name_does_not_swallow_the_next(internet: Internet) -> None:
    await site_with(internet, text(internet, "User-agent:\nUser-agent: *\nDisallow: /news/"))
    with pytest.raises(Skip):
        await internet.robots().check(PAGE)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410])
async def test_a_site_without_the_file_allows_everything(internet: Internet, status: int) -> None:
    site = await site_with(internet, internet.response(RULES, status=status))
    robots = internet.robots()
    assert await robots.check(parse_url("http://a.test/private/x")) is None
    assert await robots.check(PAGE) is None
    assert site.paths == ["/robots.txt"]


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_site_in_trouble_is_asked_later_and_not_hammered(internet: Internet, status: int) -> None:
    site = await site_with(internet, internet.response(status=status, headers=[("Retry-After", "90")]))
    robots = internet.robots()
    for _ in range(3):
        with pytest.raises(Retry, match=rf"robots\.txt answers {status}") as retry:
            await robots.check(PAGE)
        assert retry.value.after == 90
        assert retry.value.failed, "or a dead site is asked for a week, at the cost of others"
    assert site.paths == ["/robots.txt"]
    site.pages["/robots.txt"] = text(internet, RULES)
    internet.clock.pass_by(seconds=91)
    assert await robots.check(PAGE) == 5


async def test_a_dead_site_is_asked_later(internet: Internet) -> None:
    internet.names["a.test"] = [["93.184.216.250"]]
    with pytest.raises(Retry, match=r"robots\.txt: a\.test broke the connection") as retry:
        await internet.robots().check(PAGE)
    assert retry.value.after == 300
    assert retry.value.failed


async def test_the_file_is_asked_for_again_after_half_a_day(internet: Internet) -> None:
    site = await site_with(internet, text(internet, RULES))
    robots = internet.robots()
    await robots.check(PAGE)
    site.pages["/robots.txt"] = text(internet, "User-agent: *\nDisallow: /")
    internet.clock.pass_by(hours=11)
    await robots.check(PAGE)
    internet.clock.pass_by(hours=2)
    with pytest.raises(Skip):
        await robots.check(PAGE)
    assert len(site.asked) == 2


async def test_only_so_many_sites_are_remembered(internet: Internet) -> None:
    sites = [await internet.site(f"{name}.test") for name in "abc"]
    robots = internet.robots(most_sites=2)
    for name in "abca":
        await robots.check(parse_url(f"http://{name}.test/x"))
    assert [len(site.asked) for site in sites] == [2, 1, 1]


async def test_scheme_and_port_are_sites_of_their_own(internet: Internet) -> None:
    site = await site_with(internet, text(internet, RULES))
    robots = internet.robots(connect_seconds=0.2)
    await robots.check(PAGE)
    with pytest.raises(Retry):
        await robots.check(parse_url("https://a.test/news/1"))
    assert len(site.asked) == 1


async def test_many_at_once_ask_once(internet: Internet) -> None:
    site = await site_with(internet, text(internet, RULES))
    robots = internet.robots()
    assert await asyncio.gather(*(robots.check(PAGE) for _ in range(20))) == [5] * 20
    assert len(site.asked) == 1


async def test_a_redirect_of_the_file_is_followed_but_not_into_a_private_network(internet: Internet) -> None:
    secret = await internet.server()
    secret.pages["/robots.txt"] = text(internet, "User-agent: *\nDisallow: /")
    await internet.site("b.test", rules=text(internet, RULES))
    site = await site_with(internet, internet.response(status=301, headers=[("Location", "http://b.test/rules")]))
    with pytest.raises(Skip):
        await internet.robots().check(parse_url("http://a.test/private/x"))
    private = [("Location", f"http://127.0.0.1:{secret.port}/robots.txt")]
    site.pages["/robots.txt"] = internet.response(status=301, headers=private)
    assert await internet.robots().check(PAGE) is None
    assert secret.asked == []


@pytest.mark.parametrize("asked,waited", [("99999", 60), ("1e400", None), ("-1", None), ("soon", None), ("nan", None)])
async def test_the_crawl_delay_has_bounds(internet: Internet, asked: str, waited: float | None) -> None:
    await site_with(internet, text(internet, f"User-agent: *\nCrawl-delay: {asked}\nDisallow: /x"))
    assert await internet.robots().check(PAGE) == waited


async def test_a_huge_file_is_read_as_far_as_the_standard_asks(internet: Internet) -> None:
    """Thousands of names, each with thousands of rules: the naive product would take minutes."""
    names = "".join(f"User-agent: bot{number}\n" for number in range(12_000))
    rules = "".join(f"Disallow: /*{number}*$\n" for number in range(12_000))
    late = "User-agent: *\nDisallow: /news/\n"
    await site_with(
        internet, text(internet, f"{late}{names}{rules}{'# padding' * 100_000}\nUser-agent: *\nAllow: /news/1\n")
    )
    with pytest.raises(Skip):
        await internet.robots().check(PAGE)


@pytest.mark.parametrize(
    "body", [b"", b"\xff\xfe\x00\x01" * 100, b"<html>not found</html>", b"\xef\xbb\xbfUser-agent: *\nDisallow: /x"]
)
async def test_odd_files_allow_what_they_do_not_forbid(internet: Internet, body: bytes) -> None:
    await site_with(internet, internet.response(body))
    assert await internet.robots().check(PAGE) is None
