"""Every call of a model is counted and timed the same way, whoever answers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from telegram_assistant.domain.understanding import Usage
from telegram_assistant.errors import AssistantError
from telegram_assistant.metrics import AI_COST, AI_LATENCY, AI_REQUESTS, AI_TOKENS


@dataclass(frozen=True, slots=True)
class Price:
    """Of a thousand tokens, in whatever currency the operator counts."""

    per_1k_in: float = 0.0
    per_1k_out: float = 0.0


FREE = Price()


class Spending:
    """Adds up what the requests of one call take."""

    def __init__(self, price: Price) -> None:
        self._price = price
        self._began = time.perf_counter()
        self.tokens_in = 0
        self.tokens_out = 0

    def add(self, tokens_in: int, tokens_out: int) -> None:
        self.tokens_in += tokens_in
        self.tokens_out += tokens_out

    @property
    def tokens(self) -> int:
        return self.tokens_in + self.tokens_out

    def usage(self) -> Usage:
        cost = (self.tokens_in * self._price.per_1k_in + self.tokens_out * self._price.per_1k_out) / 1000
        latency = (time.perf_counter() - self._began) * 1000
        return Usage(tokens_in=self.tokens_in, tokens_out=self.tokens_out, cost=cost, latency_ms=latency)


@contextmanager
def measured(provider: str, ability: str, price: Price = FREE) -> Iterator[Spending]:
    """Counts how the call ends; what a failed call spent is counted too."""
    spending = Spending(price)
    outcome = "error"
    try:
        yield spending
        outcome = "ok"
    except AssistantError as exc:
        outcome = type(exc).__name__.lower()
        raise
    finally:
        usage = spending.usage()
        AI_REQUESTS.labels(provider, ability, outcome).inc()
        AI_LATENCY.labels(provider, ability).observe(usage.latency_ms / 1000)
        AI_COST.labels(provider, ability).inc(usage.cost)
        AI_TOKENS.labels(provider, ability, "in").inc(spending.tokens_in)
        AI_TOKENS.labels(provider, ability, "out").inc(spending.tokens_out)
