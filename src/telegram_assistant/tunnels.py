"""Connections through a SOCKS5 or HTTP proxy. The proxy looks names up; it is asked for exactly what is given here."""

from __future__ import annotations

import socket

from python_socks import ProxyError, ProxyType
from python_socks.async_.asyncio import Proxy as Connector

from telegram_assistant.domain.proxies import Proxy

_TYPES = {"socks5": ProxyType.SOCKS5, "http": ProxyType.HTTP}


async def open_tunnel(proxy: Proxy, host: str, port: int, *, seconds: float) -> socket.socket:
    """A connected socket. Raises ConnectionError, whose text holds no password."""
    connector = Connector(_TYPES[proxy.kind], proxy.host, proxy.port, proxy.user, proxy.password, rdns=True)
    try:
        return await connector.connect(host, port, timeout=seconds)
    except (ProxyError, OSError, UnicodeError) as exc:
        raise ConnectionError(f"the proxy {proxy.shown} did not connect us: {_reason(exc)}") from exc


def _reason(exc: Exception) -> str:
    cause = exc.__cause__ if isinstance(exc.__cause__, OSError) else exc
    return str(cause) or type(exc).__name__
