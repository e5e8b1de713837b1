"""What Telethon logs in tasks of its own speaks of no channel: it does not know which one it works for."""

from __future__ import annotations

import asyncio
import logging

import pytest
from structlog.contextvars import bound_contextvars, get_contextvars

from telegram_assistant.domain.source import Peer
from telegram_assistant.source.telegram_account import TelegramAccount
from telegram_simulator.faults import Fault
from telegram_simulator.server import Simulator

pytestmark = pytest.mark.integration

NEWS = Peer(100, 11)


class Witness(logging.Handler):
    """Remembers what was bound in each task that logged."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[asyncio.Task[object] | None, object]] = []

    def emit(self, record: logging.LogRecord) -> None:
        del record
        self.seen.append((asyncio.current_task(), get_contextvars().get("channel")))


async def test_n28_log_lines_of_telethons_tasks_bear_no_channel(sim: Simulator, source: TelegramAccount) -> None:
    log, witness = logging.getLogger("telethon"), Witness()
    level = log.level
    log.setLevel(logging.DEBUG)
    log.addHandler(witness)
    try:
        with bound_contextvars(channel="@first"):  # the visit that happens to open the connection
            await source.channel(NEWS).page_after(0)
        sim.faults.add(Fault("drop", "messages.getHistory", times=1))
        with bound_contextvars(channel="@second"):
            await source.channel(NEWS).page_after(0)
    finally:
        log.removeHandler(witness)
        log.setLevel(level)
    ours = asyncio.current_task()
    of_telethon = [channel for task, channel in witness.seen if task is not ours]
    assert of_telethon
    assert set(of_telethon) == {None}
