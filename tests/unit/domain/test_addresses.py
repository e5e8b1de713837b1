"""Public addresses only, in whatever form the others are hidden."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telegram_assistant.domain.urls import closed, is_loopback

pytestmark = pytest.mark.unit

CLOSED_V4 = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.100.100.200",
    "100.127.255.255",
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.7",
    "203.0.113.9",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
]
OPEN_V4 = [
    "1.1.1.1",
    "8.8.8.8",
    "93.184.216.34",
    "100.63.255.255",
    "100.128.0.0",
    "172.15.0.1",
    "172.32.0.1",
    "11.0.0.1",
]
CLOSED_V6 = [
    "::",
    "::1",
    "::127.0.0.1",  # IPv4-compatible
    "::8.8.8.8",
    "100::1",
    "64:ff9b:1::808:808",  # somebody's own NAT64
    "2001::1",  # Teredo
    "2001:db8::1",
    "3fff::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
    "4000::1",
]


@pytest.mark.parametrize("address", CLOSED_V4 + CLOSED_V6)
def test_what_is_not_public_is_closed(address: str) -> None:
    assert closed(address)


@pytest.mark.parametrize("address", CLOSED_V4)
def test_a_closed_address_stays_closed_inside_ipv6(address: str) -> None:
    number = int(IPv4Address(address))
    mapped, translated = IPv6Address(0xFFFF << 32 | number), IPv6Address((0x64FF9B << 96) | number)
    sixtofour = IPv6Address(0x2002 << 112 | number << 80 | 1)
    assert [str(form) for form in (mapped, translated, sixtofour) if closed(str(form)) is None] == []


@pytest.mark.parametrize("address", [*OPEN_V4, "2606:4700:4700::1111", "2a00:1450:4001:800::200e"])
def test_public_addresses_are_open(address: str) -> None:
    assert closed(address) is None


def test_a_public_address_is_open_through_nat64_too() -> None:
    """Networks with IPv6 only reach the old internet this way."""
    assert closed("64:ff9b::8.8.8.8") is None


@pytest.mark.parametrize("text", ["", "localhost", "127.1", "0x7f.0.0.1", "2130706433", "127.0.0.1:80", "[::1]"])
def test_what_is_no_address_is_closed(text: str) -> None:
    assert closed(text) == "not an address"
    assert not is_loopback(text)


@given(st.ip_addresses())
def test_nothing_that_python_calls_private_is_open(address: IPv4Address | IPv6Address) -> None:
    if address.is_private or address.is_multicast or address.is_loopback or address.is_link_local:
        assert closed(str(address))


def test_only_loopback_is_loopback() -> None:
    assert is_loopback("127.0.0.1")
    assert is_loopback("127.9.9.9")
    assert is_loopback("::1")
    assert not is_loopback("10.0.0.1")
    assert not is_loopback(str(ip_address("169.254.169.254")))
