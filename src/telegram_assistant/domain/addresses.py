"""Which internet addresses a link of a stranger may lead to: only public ones, whatever they are written as."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address

# Named one by one, and not by `is_global`, whose meaning changed between Python releases.
_CLOSED_V4 = {
    IPv4Network(network): what
    for network, what in (
        ("0.0.0.0/8", "unspecified"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "a provider's own (CGNAT)"),
        ("127.0.0.0/8", "loopback"),
        ("168.63.129.16/32", "a cloud's own (metadata)"),
        ("169.254.0.0/16", "link-local (metadata)"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "reserved for documentation"),
        ("192.88.99.0/24", "reserved"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "reserved for measurements"),
        ("198.51.100.0/24", "reserved for documentation"),
        ("203.0.113.0/24", "reserved for documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
}
_OPEN_V6 = IPv6Network("2000::/3")  # all the rest is private, link-local, multicast or unassigned
_CLOSED_V6 = {
    IPv6Network("2001::/23"): "reserved (tunnels)",
    IPv6Network("2001:db8::/32"): "reserved for documentation",
    IPv6Network("3fff::/20"): "reserved for documentation",
}
_NAT64 = IPv6Network("64:ff9b::/96")


def closed(address: str) -> str | None:
    """Why an address is not for us, in a word or two; None: it is public."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return "not an address"
    if parsed.version == 6:
        return _closed_v6(parsed)
    return _closed_v4(parsed)


def is_loopback(address: str) -> bool:
    """For an explicit allowance, which opens loopback and nothing else."""
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False


def _closed_v4(address: IPv4Address) -> str | None:
    return next((what for network, what in _CLOSED_V4.items() if address in network), None)


def _closed_v6(address: IPv6Address) -> str | None:
    inner = _inside(address)
    if inner is not None:
        return _closed_v4(inner)
    if address not in _OPEN_V6:
        return "not public"
    return next((what for network, what in _CLOSED_V6.items() if address in network), None)


def _inside(address: IPv6Address) -> IPv4Address | None:
    """The IPv4 address that an IPv6 address leads to: mapped, 6to4, or through a NAT64."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return None
