"""Addresses of pages: one spelling for one page, and no spelling that hides where it leads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telegram_assistant.domain.urls import (
    BadUrl,
    ascii_host,
    canonical,
    forbidden,
    is_telegram,
    join_url,
    parse_url,
    same_site,
    site_of,
)

pytestmark = pytest.mark.unit

anything = st.text(st.characters(codec=None, exclude_categories=()), max_size=60)
pieces = st.sampled_from(
    ("http://", "https://", "HTTP://", "a.example", "пример.рф", "127.0.0.1", "[::1]", ":", "80", "443", "/", "..", ".")
) | st.sampled_from(
    ("%2e", "?", "&", "=", "utm_source", "#", "%", "%41", "%zz", "@", "\\", " ", "é", "\t", "+", "//", "t.me", "amp")
)


def address_of(text: str) -> str:
    return str(canonical(parse_url(text)))


@pytest.mark.parametrize(
    "written,normal",
    [
        ("https://Example.COM", "https://example.com/"),
        ("HTTP://example.com:80/a", "http://example.com/a"),
        ("https://example.com:443/a", "https://example.com/a"),
        ("https://example.com:/a", "https://example.com/a"),
        ("http://example.com:8080/", "http://example.com:8080/"),
        ("https://example.com./a", "https://example.com/a"),
        ("https://example.com/a/./b/../c", "https://example.com/a/c"),
        ("https://example.com/a/%2e%2e/c", "https://example.com/c"),
        ("https://example.com/../../etc/passwd", "https://example.com/etc/passwd"),
        ("https://example.com/a/..", "https://example.com/"),
        ("https://example.com/a/b/.", "https://example.com/a/b/"),
        ("https://example.com/a//b", "https://example.com/a//b"),
        ("https://example.com/%7euser/%41%2f%c3%a9", "https://example.com/~user/A%2F%C3%A9"),
        ("https://example.com/é ж", "https://example.com/%C3%A9%20%D0%B6"),
        ("https://example.com/100%", "https://example.com/100%25"),
        ("https://example.com/a#part", "https://example.com/a"),
        ("https://example.com?b=2&a=1", "https://example.com/?b=2&a=1"),
        ("https://example.com/?", "https://example.com/"),
        ("https://example.com/?q=a+b&r=%20", "https://example.com/?q=a+b&r=%20"),
        ("  https://example.com/a\n", "https://example.com/a"),
        ("https://пример.рф/путь", "https://xn--e1afmkfd.xn--p1ai/%D0%BF%D1%83%D1%82%D1%8C"),
        ("https://straße.de/", "https://xn--strae-oqa.de/"),
        ("https://ｅｘａｍｐｌｅ。com/", "https://example.com/"),  # noqa: RUF001 - full-width letters
        ("https://аррӏе.com/", "https://xn--80ak6aa92e.com/"),  # noqa: RUF001 - Cyrillic: it must show as what it is
        ("http://1.1.1.1/", "http://1.1.1.1/"),
        ("http://[2606:4700:4700:0::1111]/", "http://[2606:4700:4700::1111]/"),
        ("http://example.com/a:b@c", "http://example.com/a:b@c"),
    ],
)
def test_an_address_has_one_spelling(written: str, normal: str) -> None:
    assert str(parse_url(written)) == normal


@pytest.mark.parametrize(
    "text,reason",
    [
        ("", "no web address"),
        ("example.com", "no web address"),
        ("javascript:alert(1)", "no web address"),
        ("javascript://example.com/%0aalert(1)", "javascript: is not http"),
        ("file:///etc/passwd", "file: is not http"),
        ("ftp://example.com/", "ftp: is not http"),
        ("gopher://127.0.0.1:6379/_FLUSHALL", "gopher: is not http"),
        ("data:text/html,x", "no web address"),
        ("http:///path", "host or the port"),
        ("http://", "host or the port"),
        ("http://user@example.com/", "user name"),
        ("http://user:secret@example.com/", "user name"),
        ("http://example.com@127.0.0.1/", "user name"),
        ("http://example.com\\@127.0.0.1/", "user name"),
        ("http://exa\tmple.com/", "control characters"),
        ("http://exa\nmple.com/", "control characters"),
        ("http://example.com/\x00", "control characters"),
        ("http://exa mple.com/", "host name"),
        ("http://exam%70le.com/", "host name"),
        ("http://-example.com/", "host name"),
        ("http://a..b/", "host name"),
        ("http://exa\u200bmple.com/", "invisible"),
        ("http://exam\u202eple.com/", "invisible"),
        ("http://example.com:0/", "no port 0"),
        ("http://example.com:65536/", "no port 65536"),
        ("http://example.com:8o/", "host or the port"),
        ("http://example.com:123456/", "host or the port"),
        ("http://127.1/", "odd way"),
        ("http://2130706433/", "odd way"),
        ("http://017700000001/", "odd way"),
        ("http://0177.0.0.1/", "odd way"),
        ("http://0x7f000001/", "odd way"),
        ("http://0x7f.0.0.1/", "odd way"),
        ("http://127.0.0.0x1/", "odd way"),
        ("http://127.0.0.1.1/", "odd way"),
        ("http://127.0.0.256/", "odd way"),
        ("http://1/", "odd way"),
        ("http://0/", "odd way"),
        ("http://①②⑦.⓪.⓪.①.1/", "odd way"),
        ("http://[::1", "host or the port"),
        ("http://[fe80::1%25eth0]/", "host or the port"),
        ("http://[::ffff:127.1]/", "odd way"),
        ("http://example.com/" + "a" * 2048, "longer than"),
        ("http://" + "a." * 130 + "com/", "too long"),
    ],
)
def test_what_is_odd_is_refused_with_a_reason(text: str, reason: str) -> None:
    with pytest.raises(BadUrl, match=reason):
        parse_url(text)


def test_circled_digits_are_digits() -> None:
    """Browsers read ①②⑦.⓪.⓪.① as 127.0.0.1."""
    assert forbidden(parse_url("http://①②⑦.⓪.⓪.①/")) == "the address 127.0.0.1 is loopback"


@pytest.mark.parametrize(
    "text",
    [
        "http://localhost/",
        "http://LOCALHOST./",
        "http://app.localhost/",
        "http://intranet/",
        "http://metadata.google.internal/",
        "http://printer.local/",
        "http://abc.onion/",
        "http://127.0.0.1/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[::1]/",
        "http://[::ffff:10.0.0.1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://example.com:22/",
        "http://example.com:6379/",
        "https://example.com:8443/",
    ],
)
def test_some_addresses_are_never_asked(text: str) -> None:
    assert forbidden(parse_url(text))


def test_an_allowance_is_for_exactly_one_host_and_port() -> None:
    allow = frozenset({("127.0.0.1", 8099), ("localhost", 80)})
    assert forbidden(parse_url("http://127.0.0.1:8099/page"), allow) is None
    assert forbidden(parse_url("http://localhost/"), allow) is None
    for other in ("http://127.0.0.1:8098/", "http://127.0.0.1/", "http://127.0.0.2:8099/", "http://a.localhost/"):
        assert forbidden(parse_url(other), allow)


@pytest.mark.parametrize(
    "written,page",
    [
        ("https://a.example/x?utm_source=tg&utm_medium=social&id=5", "https://a.example/x?id=5"),
        ("https://a.example/x?id=5&UTM_Campaign=1&b=", "https://a.example/x?id=5&b="),
        ("https://a.example/x?fbclid=1&gclid=2&yclid=3&ysclid=4&igshid=5&_openstat=6&erid=7", "https://a.example/x"),
        ("https://a.example/x?mc_cid=1&mc_eid=2&_hsenc=3&msclkid=4&twclid=5&amp=1", "https://a.example/x"),
        ("https://a.example/x?z=1&a=2&z=1", "https://a.example/x?z=1&a=2&z=1"),
        ("https://a.example/x?&&a=2&", "https://a.example/x?a=2"),
        ("https://a.example/x?id=1#comments", "https://a.example/x?id=1"),
        ("https://vk.com/away.php?to=https%3A%2F%2Fa.example%2Fx%3Futm_source%3Dvk&cc_key=", "https://a.example/x"),
        ("https://l.facebook.com/l.php?u=https%3A%2F%2Fa.example%2Fx&h=1", "https://a.example/x"),
        ("https://www.google.com/url?q=https://a.example/x&sa=D", "https://a.example/x"),
        ("https://www.google.com/url?q=javascript:alert(1)", "https://www.google.com/url?q=javascript:alert(1)"),
        ("https://www.google.com/amp/s/a.example/x/amp", "https://a.example/x/amp"),
        ("https://a-example.cdn.ampproject.org/c/s/a.example/x?id=1", "https://a.example/x?id=1"),
        ("https://a.example/?clid=9&amplitude=1&from=tg", "https://a.example/?clid=9&amplitude=1&from=tg"),
    ],
)
def test_where_the_reader_came_from_is_no_part_of_the_address(written: str, page: str) -> None:
    assert address_of(written) == page


def test_a_wrapped_private_address_is_still_private() -> None:
    assert forbidden(parse_url(address_of("https://vk.com/away.php?to=http://127.0.0.1/"))) is not None


@given(st.lists(pieces, max_size=12).map("".join) | anything)
def test_any_text_is_read_or_refused_and_the_spelling_is_stable(text: str) -> None:
    try:
        once = address_of(text)
    except BadUrl:
        return
    assert address_of(once) == once
    assert str(parse_url(once)) == once
    assert once.isascii()
    assert once.isprintable()
    assert "#" not in once
    assert " " not in once


@pytest.mark.parametrize(
    "reference,there",
    [
        ("/b", "https://a.example/b"),
        ("c?d=1", "https://a.example/x/c?d=1"),
        ("//b.example/c", "https://b.example/c"),
        ("../..", "https://a.example/"),
        ("HTTP://B.example", "http://b.example/"),
        ("", "https://a.example/x/y"),
    ],
)
def test_a_reference_is_read_where_it_stands(reference: str, there: str) -> None:
    assert str(join_url(parse_url("https://a.example/x/y"), reference)) == there


@pytest.mark.parametrize("reference", ["file:///etc/passwd", "//user@b.example/", "//[::1", "http://[x]/", "//127.1/"])
def test_a_reference_that_leads_astray_is_refused(reference: str) -> None:
    with pytest.raises(BadUrl):
        join_url(parse_url("https://a.example/x/y"), reference)


def test_telegram_is_recognised() -> None:
    for inside in ("https://t.me/channel/5", "http://telegram.me/x", "https://name.t.me/", "https://telegram.dog/x"):
        assert is_telegram(parse_url(inside))
    for outside in (
        "https://telegra.ph/Title-01-02",
        "https://nott.me/",
        "https://telegram.org/blog",
        "https://t.me.evil.example/",
    ):
        assert not is_telegram(parse_url(outside))


def test_the_same_site_is_the_same_host_and_its_twins() -> None:
    def same(one: str, other: str) -> bool:
        return same_site(parse_url(f"http://{one}/"), parse_url(f"https://{other}/"))

    assert same("a.example", "www.a.example")
    assert same("m.a.example", "a.example")
    assert not same("evil.blog.example", "good.blog.example")
    assert not same("evil.blog.example", "blog.example")
    assert not same("m.ru", "www.ru")


@pytest.mark.parametrize(
    "host,site",
    [
        ("a.example", "a.example"),
        ("news.a.example", "a.example"),
        ("x.y.a.example", "a.example"),
        ("news.bbc.co.uk", "bbc.co.uk"),
        ("bbc.co.uk", "bbc.co.uk"),
        ("kazan.spb.ru", "kazan.spb.ru"),
        ("127.0.0.1", "127.0.0.1"),
        ("2606:4700::1", "2606:4700::1"),
        ("localhost", "localhost"),
    ],
)
def test_a_site_pays_for_all_its_hosts(host: str, site: str) -> None:
    assert site_of(host) == site


def test_a_host_is_asked_for_in_ascii() -> None:
    assert ascii_host("Пример.РФ.") == "xn--e1afmkfd.xn--p1ai"
    with pytest.raises(BadUrl):
        ascii_host("https://a.example")
