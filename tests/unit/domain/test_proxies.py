"""Addresses of proxies as people have them, and as they are shown."""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64encode

import pytest
from pydantic import ValidationError

from telegram_assistant.config import Settings
from telegram_assistant.domain.proxies import Proxy, parse_choice, parse_proxy

pytestmark = pytest.mark.unit

KEY = bytes(range(200, 216))
LINK = "https://t.me/proxy?server=p.example.&port=443&secret="


@pytest.mark.parametrize(
    "text, proxy",
    [
        ("socks5://p.example:1081", Proxy(kind="socks5", host="p.example", port=1081)),
        (
            "SOCKS5H://u%40x:p%3Aw@p.example",
            Proxy(kind="socks5", host="p.example", port=1080, user="u@x", password="p:w"),
        ),
        ("http://[2001:db8::1]:3128", Proxy(kind="http", host="2001:db8::1", port=3128)),
        ("tg://socks?server=p&port=1&user=u&pass=w", Proxy(kind="socks5", host="p", port=1, user="u", password="w")),
        (LINK + KEY.hex(), Proxy(kind="mtproxy", host="p.example", port=443, key=KEY)),
        (LINK + "dd" + KEY.hex(), Proxy(kind="mtproxy", host="p.example", port=443, key=KEY, padded=True)),
        (
            LINK + "ee" + KEY.hex() + b"a.org".hex(),
            Proxy(kind="mtproxy", host="p.example", port=443, key=KEY, padded=True, domain="a.org"),
        ),
        (
            "tg://proxy?port=443&server=p.example&secret=" + b64encode(b"\xee" + KEY + b"a.org").decode().rstrip("="),
            Proxy(kind="mtproxy", host="p.example", port=443, key=KEY, padded=True, domain="a.org"),
        ),
        (
            LINK + urlsafe_b64encode(b"\xdd" + KEY).decode(),
            Proxy(kind="mtproxy", host="p.example", port=443, key=KEY, padded=True),
        ),
    ],
)
def test_what_people_have(text: str, proxy: Proxy) -> None:
    assert parse_proxy(text) == proxy


@pytest.mark.parametrize(
    "text, said",
    [
        ("", "socks5://"),
        ("p.example:1080", "socks5://"),
        ("socks5://", "socks5://"),
        ("socks5://s3cret@p:99999", "socks5://"),
        ("socks4://s3cret@p:1", "SOCKS4"),
        ("https://s3cret@p:1", "over TLS"),
        ("https://t.me/proxy?server=p&secret=s3cret", "server and port"),
        ("https://t.me/proxy?server=p&port=0&secret=s3cret", "server and port"),
        (LINK, "secret="),
        (LINK + "s3cret", "neither 16 bytes"),
        (LINK + "ee" + KEY.hex(), "neither 16 bytes"),
        (LINK + "ee" + KEY.hex() + "ff", "names no site"),
    ],
)
def test_what_is_none_is_told_without_repeating_it(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        parse_proxy(text)
    assert "s3cret" not in str(caught.value)
    assert KEY.hex() not in str(caught.value)


def test_secrets_are_not_shown() -> None:
    for text in ("socks5://ann:s3cret@p:1", LINK + "dd" + KEY.hex()):
        proxy = parse_proxy(text)
        for shown in (repr(proxy), str(proxy), proxy.shown):
            assert "s3cret" not in shown
            assert "ann" not in shown
            assert KEY.hex() not in shown
            assert repr(KEY) not in shown
        assert text.partition(":")[0] in {proxy.kind, "https"}
    assert parse_proxy("socks5://u%40x:p%3Aw@p:1").url == "socks5://u%40x:p%3Aw@p:1"
    assert parse_choice(" Direct ") is None


def test_the_setting_for_all_is_no_mtproxy() -> None:
    with pytest.raises(ValidationError, match="TELEGRAM_PROXY") as caught:
        Settings(proxy_url=LINK + KEY.hex())
    assert KEY.hex() not in str(caught.value)
