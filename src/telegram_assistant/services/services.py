"""What the routes and pages work with; `wiring/api.py` puts it together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from redis.asyncio import Redis
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.access.credentials import Signer
from telegram_assistant.access.service import Access
from telegram_assistant.alerting.places import Places
from telegram_assistant.bus.observer import Sampler
from telegram_assistant.config import Settings
from telegram_assistant.health import Health
from telegram_assistant.index.cypher_graph import Graph
from telegram_assistant.jobs.digests import DigestMaker
from telegram_assistant.search.ask import Asking
from telegram_assistant.search.service import Search
from telegram_assistant.services.connect_desk import ConnectDesk
from telegram_assistant.services.import_desk import ImportDesk
from telegram_assistant.services.live import LiveFeed
from telegram_assistant.services.media_links import Thumbnails
from telegram_assistant.stores.media import MediaStore
from telegram_assistant.stores.sealed import Sealer


@dataclass(frozen=True)
class Senders:
    """What sends alerts to places and webhooks, and what keeps their secrets."""

    places: Places
    sealer: Sealer


@dataclass(frozen=True)
class Services:
    """One of them for the life of the process."""

    settings: Settings
    database: AsyncEngine
    redis: Redis
    clock: Callable[[], datetime]
    health: Health
    access: Access
    signer: Signer
    search: Search
    asking: Asking
    graph: Graph | None  # None: it is embedded, and in the hands of another process
    media: MediaStore
    digests: DigestMaker
    # Only where the API runs:
    senders: Senders | None = None
    sampler: Sampler | None = None
    live: LiveFeed | None = None
    thumbnails: Thumbnails | None = None
    connecting: ConnectDesk | None = None
    imports: ImportDesk | None = None
