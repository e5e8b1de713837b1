"""Telethon keeps one configuration for all clients, with the port of the server that came first."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from telethon import TelegramClient


@contextmanager
def forgotten_after() -> Iterator[None]:
    """What a test does with Telethon is quiet, and no other test sees it."""
    logger = logging.getLogger("telethon")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(level)
    TelegramClient._config = None  # noqa: SLF001 - Telethon has no other way to forget it
