"""What a request is worth: the price at which all channels together use the account's budget, and how it is steered."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

HOUR = 3600.0
DAY = 24 * HOUR
FIRST_PRICE = 5.0  # seconds of waiting that a request is worth, until the fair price is known,
FIRST_INTERVAL = 300.0  # where there would be one for each channel so often
STEERING = 2.0  # how fast the price answers to a balance of a day's requests
MOST_SAVED = 0.5  # days of requests that may be left for later: a quiet weekend, but no rush after an outage
MOST_OWED = 2.0


@dataclass(frozen=True, slots=True)
class Allowance:
    """What was not used of the request budget, in days of it; below zero, what was used too much."""

    days: float = 0.0

    def after(self, seconds: float, requests: int, per_hour: float) -> Allowance:
        """When that much time has passed and that many requests were made."""
        days = self.days + seconds / DAY - requests / (24.0 * per_hour)
        return Allowance(min(MOST_SAVED, max(-MOST_OWED, days)))

    def price(self, fair: float) -> float:
        """The fair price, raised or lowered so that within about a day the budget is met again."""
        return fair * math.exp(-STEERING * self.days)


def first_price(fixed: float) -> float:
    """Where requests may be made twice as often, each is worth a quarter."""
    return FIRST_PRICE * (fixed / FIRST_INTERVAL) ** 2


def new_appetite(fixed: float) -> float:
    """Of a channel that nothing is known of: at the first price it is looked at each fixed interval."""
    return math.sqrt(first_price(fixed)) / fixed


def fair_price(appetites: Sequence[float], per_hour: float, bound: float = 3600.0) -> float:
    """The price at which channels of these appetites make `per_hour` requests together, each at least one per bound.

    If the budget is too small even for that, the price at which all of them wait for the bound.
    """
    if not (per_hour > 0 and bound > 0):
        raise ValueError(f"budget and bound must be positive: {per_hour} an hour, {bound} s")
    if not appetites:
        return FIRST_PRICE
    hungry, rest, root = sorted(appetites, reverse=True), sum(appetites), 0.0
    for bounded in range(len(hungry)):
        # The least hungry are the first to wait for the bound; what they use is not for the others.
        left = per_hour / HOUR - bounded / bound
        if left <= 0:
            break
        root = rest / left
        if hungry[-1 - bounded] / root >= 1.0 / bound:
            return root * root
        rest -= hungry[-1 - bounded]
    return (hungry[0] * bound) ** 2
