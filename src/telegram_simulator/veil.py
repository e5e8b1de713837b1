"""Which messages show late, and how late: as data, and the same for a seed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random

from telegram_simulator.model import Channel


@dataclass(slots=True, frozen=True)
class Veil:
    """A share of all posts is hidden at first, for a time that is as likely to be short as ten times longer."""

    share: float
    shortest: timedelta
    longest: timedelta
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1 or not timedelta(0) < self.shortest <= self.longest:
            raise ValueError(
                "a veil has a share from 0 to 1, and its shortest time is above 0 and not above its longest"
            )

    def lifted(self, channel: Channel, message_id: int, at: datetime) -> datetime | None:
        """When a message that is posted now shows; None: at once."""
        rng = Random(f"{self.seed}/veil/{channel.id}/{message_id}")
        if rng.random() >= self.share:
            return None
        return at + self.shortest * math.pow(self.longest / self.shortest, rng.random())
