"""Addresses of pages: read strictly, written in one way, and judged before a connection is made.

The fetcher sends exactly what is parsed here, so that no second parser can read the same text in another way.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TypeAlias
from urllib.parse import quote, unquote, urljoin

from telegram_assistant.domain.text import clean_text

Allowance: TypeAlias = AbstractSet[tuple[str, int]]  # host and port, exactly, on loopback

LONGEST = 2048
DEFAULT_PORTS = {"http": 80, "https": 443}
NO_HOSTS: Allowance = frozenset()

_PARTS = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<path>[^?#]*)(?:\?(?P<query>[^#]*))?",
    re.IGNORECASE | re.ASCII,
)
_AUTHORITY = re.compile(r"(?P<host>\[[0-9a-f:.]+\]|[^:\[\]]+)(?::(?P<port>[0-9]{0,5}))?", re.IGNORECASE | re.ASCII)
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_LONE_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_PATH_SAFE = "/:@!$&'()*+,;=~[]%"
_QUERY_SAFE = _PATH_SAFE + "?"

# Names that never lead to a public site.
_CLOSED_NAMES = ("localhost", "localdomain", "local", "internal", "intranet", "home.arpa", "onion")
_TELEGRAM = ("t.me", "telegram.me", "telegram.dog")
_TWIN_PREFIXES = ("www.", "m.", "mobile.", "amp.")
_SECOND_LEVELS = frozenset({"ac", "co", "com", "edu", "gov", "msk", "net", "org", "spb"})

_TRACKING = re.compile(
    r"(?:utm_|pk_|mtm_|hsa_|fb_action_|oly_|amp_|_hs|mc_[ce]id).*"
    r"|(?:fb|g|y|ys|ym|d|tw|tt|yad)clid|msclkid|yadordid|gclsrc|[gw]braid|igsh(?:id)?|rb_clickid|mindbox-click-id"
    r"|_ga|_gl|_openstat|amp|cmpid|erid|etext|fb_ref|li_fat_id|mkt_tok|roistat|s_cid|vero_id|wickedid"
)
# Pages that only pass on to the address in their query: host, path, parameter.
_PASSING_ON = {
    ("vk.com", "/away.php"): "to",
    ("away.vk.com", "/away.php"): "to",
    ("l.facebook.com", "/l.php"): "u",
    ("l.instagram.com", "/"): "u",
    ("www.google.com", "/url"): "q",
    ("www.youtube.com", "/redirect"): "q",
}
_AMP_VIEWER = re.compile(r"/amp/(?P<secure>s/)?(?P<rest>[^/].*)")
_AMP_CACHE = re.compile(r"/[a-z]/(?P<secure>s/)?(?P<rest>[^/].*)")
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


class BadUrl(ValueError):
    """This text is no address of a page that we would ask for; the message says why."""


@dataclass(frozen=True, slots=True)
class Url:
    """An http address in its normal form."""

    scheme: str
    host: str  # ASCII and lower-case; an IPv6 address without its brackets
    port: int
    path: str
    query: str = ""

    @property
    def authority(self) -> str:
        """As in the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def target(self) -> str:
        """As in the first line of a request."""
        return f"{self.path}?{self.query}" if self.query else self.path

    @property
    def is_address(self) -> bool:
        return ":" in self.host or _ends_in_number(self.host)

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"


def parse_url(text: str) -> Url:
    """Read an address, or raise BadUrl. What browsers repair silently (odd numbers, control characters) is refused."""
    text = text.strip(" \t\r\n\f")
    if len(text) > LONGEST:
        raise BadUrl(f"the address is longer than {LONGEST} characters")
    if any(character < " " or character == "\x7f" for character in text):
        raise BadUrl("there are control characters in the address")
    parts = _PARTS.match(clean_text(text))
    if parts is None:
        raise BadUrl("this is no web address")
    scheme = parts["scheme"].lower()
    if scheme not in DEFAULT_PORTS:
        raise BadUrl(f"{scheme}: is not http or https")
    host, port = _host_and_port(parts["authority"], DEFAULT_PORTS[scheme])
    path = _without_dots(_escaped(parts["path"], _PATH_SAFE))
    url = Url(scheme, host, port, path, _escaped(parts["query"] or "", _QUERY_SAFE))
    if len(str(url)) > 3 * LONGEST:
        raise BadUrl("the address is too long when written in ASCII")
    return url


def join_url(base: Url, reference: str) -> Url:
    """Where a reference on a page (or in a Location header) leads."""
    try:
        return parse_url(urljoin(str(base), reference.strip()))
    except BadUrl:
        raise
    except ValueError as exc:  # urljoin does not like every bracket
        raise BadUrl("this is no web address") from exc


def canonical(url: Url) -> Url:
    """The same page without what only tells where the reader came from, and without a page that just passes on."""
    for _ in range(3):
        inner = _passed_on(url)
        if inner is None:
            break
        url = inner
    if not url.query:
        return url
    kept = [part for part in url.query.split("&") if part and not _tracks(part)]
    return replace(url, query="&".join(kept))


def forbidden(url: Url, allow: Allowance = NO_HOSTS) -> str | None:
    """Why we would not even connect, in one sentence; None: we may try (the address is checked then)."""
    if (url.host, url.port) in allow:
        return None
    if url.port not in DEFAULT_PORTS.values():
        return f"port {url.port} is not one of web pages"
    if url.is_address:
        why = closed(url.host)
        return f"the address {url.host} is {why}" if why else None
    if "." not in url.host or any(is_within(url.host, name) for name in _CLOSED_NAMES):
        return f"{url.host} is a name of a private network"
    return None


def is_telegram(url: Url) -> bool:
    """It leads into Telegram, which is read as Telegram and not as a page."""
    return any(is_within(url.host, name) for name in _TELEGRAM)


def is_within(host: str, domain: str) -> bool:
    """The host is this domain or below it."""
    return host == domain or host.endswith(f".{domain}")


def same_site(one: Url, other: Url) -> bool:
    """The same host, be it the mobile or the `www` one. Not more: neighbours below a domain may be strangers."""
    return _twin(one.host) == _twin(other.host)


def site_of(host: str) -> str:
    """The domain that pays for a host: `news.bbc.co.uk` is `bbc.co.uk`. A rule of thumb, good enough for budgets."""
    labels = host.split(".")
    if ":" in host or _ends_in_number(host) or len(labels) < 3:
        return host
    country_second_level = len(labels[-1]) == 2 and labels[-2] in _SECOND_LEVELS
    return ".".join(labels[-3:] if country_second_level else labels[-2:])


def ascii_host(text: str) -> str:
    """A host name as it is asked for: lower-case, international ones in punycode. Raises BadUrl."""
    name = unicodedata.normalize("NFKC", text).lower().replace("\u3002", ".")  # full-width letters, ideographic dots
    name = name.removesuffix(".")
    labels = [_ascii_label(label) for label in name.split(".")]
    host = ".".join(labels)
    if len(host) > 253:
        raise BadUrl("the host name is too long")
    return host


def _host_and_port(authority: str, default_port: int) -> tuple[str, int]:
    if "@" in authority or "\\" in authority:
        raise BadUrl("a user name in the address may hide where it leads")
    found = _AUTHORITY.fullmatch(authority)
    if found is None:
        raise BadUrl("the host or the port is not written properly")
    port = int(found["port"] or default_port)
    if not 0 < port < 65536:
        raise BadUrl(f"there is no port {port}")
    host = found["host"]
    if host.startswith("["):
        return _ip(host[1:-1], IPv6Address), port
    host = ascii_host(host)
    return (_ip(host, IPv4Address) if _ends_in_number(host) else host), port


def _ip(text: str, kind: type[IPv4Address | IPv6Address]) -> str:
    try:
        return str(kind(text))
    except ValueError as exc:
        raise BadUrl(f"{text[:60]} is an odd way to write an address") from exc


def _ends_in_number(host: str) -> bool:
    """Then a browser takes it for an IPv4 address: 127.1, 0x7f.1, 017700000001, 2130706433."""
    return _NUMBER.fullmatch(host.rpartition(".")[2]) is not None


def _ascii_label(label: str) -> str:
    if not label.isascii():
        if any(unicodedata.category(character) in {"Cf", "Cc", "Cn", "Co", "Zs"} for character in label):
            raise BadUrl("there are invisible characters in the host name")
        label = "xn--" + label.encode("punycode").decode("ascii")
    if _LABEL.fullmatch(label) is None:
        raise BadUrl("the host name is not written properly")
    return label


def _escaped(text: str, safe: str) -> str:
    """Percent-encoded in one way: nothing twice, hexadecimal digits large, letters and digits never."""
    text = _ESCAPE.sub(_unescape_unreserved, _LONE_PERCENT.sub("%25", text))
    return quote(text, safe=safe)


def _unescape_unreserved(escape: re.Match[str]) -> str:
    character = chr(int(escape[1], 16))
    return character if character in _UNRESERVED else escape[0].upper()


def _without_dots(path: str) -> str:
    """RFC 3986, 5.2.4."""
    kept: list[str] = []
    segments = path.split("/")[1:]
    for segment in segments:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if segments and segments[-1] in {".", ".."}:
        kept.append("")
    return "/" + "/".join(kept)


def _tracks(part: str) -> bool:
    name = unquote(part.partition("=")[0]).lower()
    return _TRACKING.fullmatch(name) is not None


def _passed_on(url: Url) -> Url | None:
    parameter = _PASSING_ON.get((url.host, url.path))
    if parameter is not None:
        values = [part.partition("=")[2] for part in url.query.split("&") if part.startswith(f"{parameter}=")]
        return _parsed(unquote(values[0].replace("+", " "))) if values else None
    amp = None
    if url.host == "www.google.com":
        amp = _AMP_VIEWER.fullmatch(url.path)
    elif url.host.endswith(".cdn.ampproject.org"):
        amp = _AMP_CACHE.fullmatch(url.path)
    if amp is None:
        return None
    inner = _parsed(f"{'https' if amp['secure'] else 'http'}://{amp['rest']}")
    return replace(inner, query=url.query) if inner else None


def _parsed(text: str) -> Url | None:
    try:
        return parse_url(text)
    except BadUrl:
        return None


def _twin(host: str) -> str:
    for prefix in _TWIN_PREFIXES:
        rest = host.removeprefix(prefix)
        if rest != host and "." in rest:
            return rest
    return host
