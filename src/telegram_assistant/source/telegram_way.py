"""Whether Telegram answers by a way: directly, or through a proxy. No account is needed, and nothing is signed in."""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict
from logging import Logger, getLogger

from telethon.network.connection.tcpfull import ConnectionTcpFull
from telethon.network.mtprotoplainsender import MTProtoPlainSender
from telethon.tl.functions import ReqPqMultiRequest
from telethon.tl.types import ResPQ

from telegram_assistant.config import TelegramServer
from telegram_assistant.domain.proxies import Proxy
from telegram_assistant.domain.retries import Failure
from telegram_assistant.domain.source import SourceError
from telegram_assistant.source.telegram_errors import translated
from telegram_assistant.source.telegram_proxy import connection_through

SECONDS = 10.0
TELEGRAM = TelegramServer(2, "149.154.167.51", 443)  # where Telethon begins, too


async def answers(server: TelegramServer | None, proxy: Proxy | None, *, seconds: float = SECONDS) -> None:
    """Return when Telegram answered the first question of every client. Raises SourceError."""
    server = server or TELEGRAM
    options = connection_through(proxy)
    make = options.get("connection", ConnectionTcpFull)
    loggers: defaultdict[str, Logger] = defaultdict(lambda: getLogger("telethon"))
    connection = make(server.host, server.port, server.dc_id, loggers=loggers, proxy=options.get("proxy"))
    with translated("asking Telegram directly" if proxy is None else f"asking Telegram through {proxy.shown}"):
        try:
            async with asyncio.timeout(seconds):
                await connection.connect(timeout=seconds)
                nonce = int.from_bytes(os.urandom(16), "big", signed=True)
                answer = await MTProtoPlainSender(connection, loggers=loggers).send(ReqPqMultiRequest(nonce))
        finally:
            await connection.disconnect()
        if not isinstance(answer, ResPQ) or answer.nonce != nonce:
            raise SourceError(Failure.TRANSIENT, "what answers there is not Telegram")
