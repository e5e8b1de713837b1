"""How a channel is visited: historical or incremental, and why (SPEC 1.1-1.3).

An incremental visit reads on from the cursor, with an overlap of minutes; a historical one reads the last day again as
well. Neither bounds what is read: a channel that was down for a week is read from where its ledger ends. Only a first
visit begins with its look-back.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from telegram_assistant.domain.moments import as_utc


class Mode(StrEnum):
    """How a channel is parsed."""

    HISTORICAL = "historical"
    INCREMENTAL = "incremental"


class ModeOverride(StrEnum):
    """What the operator set as `PARSER_MODE_OVERRIDE`."""

    AUTO = "auto"
    HISTORICAL = "historical"
    INCREMENTAL = "incremental"


class ForcedReason(StrEnum):
    """Why a mode is not the ordinary one; the label of `parser_mode_forced_total`."""

    FEATURE_OFF = "feature_off"
    OVERRIDE = "override"
    NEVER_PARSED = "never_parsed"
    STALE_LPA = "stale_lpa"


@dataclass(frozen=True, slots=True)
class ModeDecision:
    """A mode, and the reason if it was forced."""

    mode: Mode
    forced_reason: ForcedReason | None = None


def choose_mode(
    last_parsed_at: datetime | None,
    now: datetime,
    *,
    override: ModeOverride = ModeOverride.AUTO,
    incremental_enabled: bool = True,
    max_age_hours: float = 48,
    last_success_at: datetime | None = None,
) -> ModeDecision:
    """The mode of the next visit. The feature switch beats the override, and the override beats what is observed.

    A channel that was visited since it became stale is quiet, and not forced again with every visit.
    """
    if not incremental_enabled:
        return ModeDecision(Mode.HISTORICAL, ForcedReason.FEATURE_OFF)
    if override is not ModeOverride.AUTO:
        return ModeDecision(Mode(override.value), ForcedReason.OVERRIDE)
    if last_parsed_at is None:
        return ModeDecision(Mode.HISTORICAL, ForcedReason.NEVER_PARSED)
    # "Older than" is strict, and a time in the future (another machine's clock) is not old.
    stale_at = as_utc(last_parsed_at) + timedelta(hours=max_age_hours)
    if as_utc(now) > stale_at and (last_success_at is None or as_utc(last_success_at) <= stale_at):
        return ModeDecision(Mode.HISTORICAL, ForcedReason.STALE_LPA)
    return ModeDecision(Mode.INCREMENTAL)


def first_visit_since(now: datetime, hours: float = 24) -> datetime:
    """From when on a channel is read that was never read before (SPEC 8: 24 h)."""
    if hours <= 0:
        raise ValueError(f"the look-back of a first visit must be positive, not {hours} h")
    return as_utc(now) - timedelta(hours=hours)
