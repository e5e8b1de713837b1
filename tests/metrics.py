"""Reads the metrics of this process, for tests: they compare a sample with what it was before."""

from __future__ import annotations

from telegram_assistant.metrics import REGISTRY


def sample(name: str, **labels: str) -> float:
    """What a scrape would tell; 0 for what was never counted."""
    return REGISTRY.get_sample_value(name, labels) or 0.0
