"""All tables together: what migrations must lead to."""

from __future__ import annotations

from telegram_assistant.stores.postgres import pipeline_tables, search_tables
from telegram_assistant.stores.postgres.tables import metadata

__all__ = ["metadata", "pipeline_tables", "search_tables"]
