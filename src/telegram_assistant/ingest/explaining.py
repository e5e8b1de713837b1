"""When a channel is looked at next, and why then: the decision again, from the values that it was made of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from telegram_assistant.config import Settings
from telegram_assistant.domain.polling import Explanation, PollingRules, Reason, explain, first_price, weight_of
from telegram_assistant.domain.thresholds import zone_of
from telegram_assistant.ingest.polling import known_rhythm, polling_rules
from telegram_assistant.stores.postgres.channels import Channel
from telegram_assistant.stores.postgres.rhythms import Habit


class Why(StrEnum):
    """What decides."""

    FAILING = "failing"  # the last visits failed
    GIVEN_UP = "given_up"  # and it is not tried again often
    DUE = "due"  # now
    EVERY_TICK = "every_tick"  # polling that learns is off
    UNPLANNED = "unplanned"
    POSTPONED = "postponed"  # an album may be growing, or the account must wait
    RHYTHM = "rhythm"
    UNREADABLE = "unreadable"  # its rhythm was written by another version


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """The next look, and what it follows from."""

    why: Why
    at: datetime | None  # in the channel's zone
    every: float  # seconds between ticks
    failures: int = 0
    error: str = ""
    decision: Explanation | None = None  # with RHYTHM

    def sentences(self) -> list[str]:
        """In English, for the terminal and the API."""
        if self.decision is not None:
            return self.decision.sentences()
        at = "" if self.at is None else f"{self.at:%H:%M:%S %Z}"
        again = f"; it is tried again at {at}" if at else ""
        given_up = " (it was given up: tga channels revive)" if self.why is Why.GIVEN_UP else ""
        failed = f"The last {self.failures} visits failed{given_up}{again}: {self.error}."
        every = f"{self.every:g} s"
        said = {
            Why.FAILING: failed,
            Why.GIVEN_UP: failed,
            Why.DUE: "It is due now: its time has come, or somebody asked for it.",
            Why.EVERY_TICK: f"Every channel is visited on every tick, each {every}:"
            " FEATURE_PREDICTIVE_POLLING_ENABLED is off.",
            Why.UNPLANNED: f"No time is planned for it yet: the next tick, within {every}, visits it.",
            Why.POSTPONED: f"Next look at {at}: an album may still be growing, or the account must wait until then.",
        }
        return [said.get(self.why, "Its rhythm was written by another version; it is learned anew at the next visit.")]


def explain_next(channel: Channel, habit: Habit, settings: Settings, now: datetime) -> Explained:
    zone, at = zone_of(habit.timezone), channel.next_visit_at
    said = Explained(
        why=Why.RHYTHM,
        at=None if at is None else at.astimezone(zone),
        every=settings.parser_scheduler_interval_sec,
        failures=channel.failures,
        error=channel.last_error or "",
    )
    if channel.failures:
        return replace(said, why=Why.GIVEN_UP if channel.status == "dead" else Why.FAILING)
    if at is not None and at <= now:
        return replace(said, why=Why.DUE)
    if not settings.feature_predictive_polling_enabled:
        return replace(said, why=Why.EVERY_TICK)
    if at is None:
        return replace(said, why=Why.UNPLANNED)
    if at != habit.planned_at:
        return replace(said, why=Why.POSTPONED)
    decision = _decision(channel, habit, polling_rules(settings))
    return replace(said, why=Why.UNREADABLE) if decision is None else replace(said, decision=decision)


def _decision(channel: Channel, habit: Habit, rules: PollingRules) -> Explanation | None:
    rhythm, zone = known_rhythm(habit.rhythm), zone_of(habit.timezone)
    if rhythm is None or channel.last_success_at is None or habit.planned_at is None:
        return None
    price = habit.plan_price or first_price(rules.fixed)
    made = explain(rhythm, channel.last_success_at, price, weight=weight_of(habit.priority), zone=zone, rules=rules)
    made = replace(made, at=habit.planned_at.astimezone(zone))
    return made if habit.plan_price is not None else replace(made, reason=Reason.NEW)
