"""No address that a stranger writes leads the fetcher to a place that is not public, however it is written."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterable, Sequence
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address

import httpcore
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from telegram_assistant.crawl.fetcher import Fetcher
from telegram_assistant.crawl.network import Resolver
from telegram_assistant.errors import AssistantError

pytestmark = pytest.mark.unit

TLS = ssl.create_default_context()  # made once: it reads a file of all authorities
OFTEN = settings(max_examples=300, deadline=None)
PUBLIC = "93.184.216.34"
PRIVATE = (
    st.ip_addresses(v=4, network="10.0.0.0/8")
    | st.ip_addresses(v=4, network="127.0.0.0/8")
    | st.ip_addresses(v=4, network="169.254.0.0/16")
    | st.ip_addresses(v=4, network="172.16.0.0/12")
    | st.ip_addresses(v=4, network="192.168.0.0/16")
    | st.ip_addresses(v=4, network="100.64.0.0/10")
    | st.sampled_from(
        [
            IPv4Address("169.254.169.254"),
            IPv4Address("0.0.0.0"),
            IPv4Address("127.0.0.1"),
            IPv4Address("255.255.255.255"),
        ]
    )
)
# What a name of the attacker leads to: one of each kind.
HOSTILE = st.sampled_from(["169.254.169.254", "127.0.0.1", "10.0.0.1", "::1", "fd00::1", "::ffff:10.0.0.1"])
WIDE = str.maketrans("0123456789.", "０１２３４５６７８９。")  # noqa: RUF001 - what browsers take for digits and dots
CIRCLED = str.maketrans("123456789", "①②③④⑤⑥⑦⑧⑨")

NAMES = st.sampled_from(
    [
        *("rebind.example.org", "1.nip.example", "localhost", "xn--localhost-.example", "метаданные.example"),
        "ｌｏｃａｌｈｏｓｔ",  # noqa: RUF001 - wide letters
    ]
)


def spellings(address: IPv4Address | IPv6Address) -> dict[str, str]:
    """How the same address can be written so that somebody's parser understands it."""
    number, parts = int(address), address.packed
    last_three = int.from_bytes(parts[1:], "big")
    mapped = f"{number >> 16:x}:{number & 0xFFFF:x}"
    return {
        "plain": str(address),
        "octal": ".".join(f"0{part:o}" for part in parts),
        "long octal": ".".join(f"{part:012o}" for part in parts),
        "hex": ".".join(f"0x{part:x}" for part in parts),
        "mixed": f"0x{parts[0]:X}.{parts[1]}.0{parts[2]:o}.{parts[3]}",
        "one number": str(number),
        "one octal": f"0{number:o}",
        "one hex": f"0x{number:08x}",
        "overflowing": str(number + 2**32),
        "two parts": f"{parts[0]}.{last_three}",
        "three parts": f"{parts[0]}.{parts[1]}.{parts[2] * 256 + parts[3]}",
        "wide": str(address).translate(WIDE),
        "circled": str(address).translate(CIRCLED),
        "escaped": "".join(f"%{ord(sign):02x}" for sign in str(address)),
        "with a dot": f"{address}.",
        "mapped": f"[::ffff:{address}]",
        "mapped in hex": f"[::ffff:{mapped}]",
        "mapped in full": f"[0:0:0:0:0:FFFF:{mapped}]",
        "compatible": f"[::{address}]",
        "translated": f"[64:ff9b::{mapped}]",
        "6to4": f"[2002:{mapped}::1]",
        "with a zone": f"[fe80::{mapped}%25eth0]",
    }


HOSTS = NAMES | PRIVATE.flatmap(lambda address: st.sampled_from(sorted(spellings(address).values())))
USERS = st.sampled_from(["", "", "a@", f"{PUBLIC}@", f"{PUBLIC}:80@", "example.org%40", "example.org\\@", "a:b@c@"])
PORTS = st.sampled_from(["", ":", ":80", ":443", ":0080", ":22", ":6379", ":65616", ":-1", ":８０", ": 80"])  # noqa: RUF001 - wide digits
SCHEMES = st.sampled_from(["http://", "https://", "HTTP://", "hTtPs:\\\\", "http:/", "//", "http:\t//", "\x01http://"])
ENDS = st.sampled_from(["", "/", "/latest/meta-data/", f"#@{PUBLIC}/", "?@example.org", "\\@example.org", "/..//x"])
URLS = st.one_of(  # half of them with nothing odd but the host
    st.builds("{}{}{}/".format, st.sampled_from(["http://", "https://"]), HOSTS, st.sampled_from(["", ":80"])),
    st.builds("".join, st.tuples(SCHEMES, USERS, HOSTS, PORTS, ENDS)),
)


class Wire(httpcore.AsyncNetworkBackend):
    """Notes who is dialled. The first that is may say where to go on; nobody else answers."""

    def __init__(self, location: str | None = None) -> None:
        self.dialled: list[str] = []
        self._location = location

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's signature
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        del port, timeout, local_address, socket_options
        self.dialled.append(host)
        if self._location is None or len(self.dialled) > 1:
            raise httpcore.ConnectError("nobody")
        head = b"HTTP/1.1 302 Found\r\nLocation: %b\r\n\r\n" % self._location.encode()
        return httpcore.AsyncMockStream([head])


def resolver(hostile: str) -> Resolver:
    """As the C library reads addresses, with all their odd spellings; every name is the attacker's."""

    async def resolve(host: str, _: int) -> Sequence[str]:
        if host == "public.example":
            return [PUBLIC]
        try:
            return [socket.inet_ntoa(socket.inet_aton(host))]
        except OSError:
            pass
        try:
            return [str(IPv6Address(host))]
        except ValueError:
            return [hostile]

    return resolve


def led_to(url: str, hostile: str, *, location: str | None = None) -> list[str]:
    """Whom the fetcher dialled for this address."""
    wire = Wire(location)
    fetcher = Fetcher(agent="test", resolve=resolver(hostile), network=wire, tls=TLS)

    async def go() -> None:
        with suppress(AssistantError):
            await fetcher.get(url)

    asyncio.run(go())
    return wire.dialled


def is_public(address: str) -> bool:
    """As Python sees it, not as we do: also what is inside of an IPv6 address."""
    found = ip_address(address)
    inner = (found.ipv4_mapped or found.sixtofour) if isinstance(found, IPv6Address) else None
    return (inner or found).is_global and not found.is_multicast


@OFTEN
@given(URLS, HOSTILE)
@example("http://2852039166/latest/meta-data/", "10.0.0.1")
@example("http://[::ffff:a9fe:a9fe]/", "10.0.0.1")
@example("http://0251.0376.0251.0376/", "10.0.0.1")
def test_no_spelling_leads_inside(url: str, hostile: str) -> None:
    assert all(is_public(address) for address in led_to(url, hostile)), url


@OFTEN
@given(URLS, HOSTILE)
def test_no_redirect_leads_inside(location: str, hostile: str) -> None:
    clean = location.replace("\x01", "").replace("\t", "")
    dialled = led_to("http://public.example/", hostile, location=clean)
    assert dialled[:1] == [PUBLIC]
    assert all(is_public(address) for address in dialled), location


@OFTEN
@given(st.text(max_size=40), HOSTILE)
def test_no_text_leads_inside(text: str, hostile: str) -> None:
    assert all(is_public(address) for address in led_to(f"http://{text}", hostile)), text


def test_a_public_address_is_reached() -> None:
    """Or else the tests above show nothing."""
    assert led_to("http://public.example/", "10.0.0.1") == [PUBLIC]
    assert led_to(f"http://{PUBLIC}/", "10.0.0.1") == [PUBLIC]
    assert led_to("http://public.example/", "10.0.0.1", location=f"https://{PUBLIC}/") == [PUBLIC, PUBLIC]
