"""All tables together: what migrations must lead to."""

from __future__ import annotations

from telegram_assistant.stores.postgres import (
    access_tables,
    alert_tables,
    capture_tables,
    digests_tables,
    interests_tables,
    pipeline_tables,
    saved_tables,
    search_tables,
    storage_tables,
    trends_tables,
)
from telegram_assistant.stores.postgres.tables import metadata

__all__ = [
    "access_tables",
    "alert_tables",
    "capture_tables",
    "digests_tables",
    "interests_tables",
    "metadata",
    "pipeline_tables",
    "saved_tables",
    "search_tables",
    "storage_tables",
    "trends_tables",
]
