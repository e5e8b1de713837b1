"""SPEC 1.1-1.3: the mode of a visit."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from telegram_assistant.domain.visits import (
    ForcedReason,
    Mode,
    ModeDecision,
    ModeOverride,
    choose_mode,
    first_visit_since,
)

pytestmark = pytest.mark.unit

NOW = datetime(2025, 10, 28, 12, tzinfo=UTC)
RECENT = NOW - timedelta(hours=1)
STALE = NOW - timedelta(hours=49)


def test_spec_1_2_never_parsed_is_historical() -> None:
    assert choose_mode(None, NOW) == ModeDecision(Mode.HISTORICAL, ForcedReason.NEVER_PARSED)


def test_spec_1_2_parsed_lately_is_incremental() -> None:
    assert choose_mode(RECENT, NOW) == ModeDecision(Mode.INCREMENTAL, None)


@pytest.mark.parametrize("last", [None, RECENT, STALE])
@pytest.mark.parametrize("mode", ["historical", "incremental"])
def test_spec_1_2_override_wins_over_what_is_observed(last: datetime | None, mode: str) -> None:
    decision = choose_mode(last, NOW, override=ModeOverride(mode))
    assert decision == ModeDecision(Mode(mode), ForcedReason.OVERRIDE)


def test_spec_1_3_older_than_the_limit_is_forced_historical() -> None:
    limit = timedelta(hours=48)
    assert choose_mode(NOW - limit, NOW).mode is Mode.INCREMENTAL
    stale = choose_mode(NOW - limit - timedelta(microseconds=1), NOW)
    assert stale == ModeDecision(Mode.HISTORICAL, ForcedReason.STALE_LPA)
    assert stale.forced_reason == "stale_lpa"


def test_n9_a_quiet_channel_is_forced_once_and_not_with_every_visit() -> None:
    stale_at = STALE + timedelta(hours=48)
    forced = ModeDecision(Mode.HISTORICAL, ForcedReason.STALE_LPA)
    assert choose_mode(STALE, NOW, last_success_at=STALE) == forced, "nothing has read it since"
    assert choose_mode(STALE, NOW, last_success_at=stale_at) == forced
    later = stale_at + timedelta(seconds=1)
    assert choose_mode(STALE, NOW, last_success_at=later) == ModeDecision(Mode.INCREMENTAL)


def test_spec_1_3_the_limit_is_a_setting() -> None:
    assert choose_mode(STALE, NOW, max_age_hours=72).mode is Mode.INCREMENTAL


@pytest.mark.parametrize("override", list(ModeOverride))
def test_spec_1_1_with_the_feature_off_everything_is_historical(override: ModeOverride) -> None:
    decision = choose_mode(RECENT, NOW, override=override, incremental_enabled=False)
    assert decision == ModeDecision(Mode.HISTORICAL, ForcedReason.FEATURE_OFF)


def test_a_time_in_the_future_is_not_stale() -> None:
    assert choose_mode(NOW + timedelta(days=365), NOW).mode is Mode.INCREMENTAL


def test_spec_1_3_age_is_not_fooled_by_summer_time() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    now = datetime(2025, 3, 31, 12, tzinfo=berlin)  # 48 h by the wall clock, 47 h in truth
    assert choose_mode(datetime(2025, 3, 29, 12, tzinfo=berlin), now, max_age_hours=47).mode is Mode.INCREMENTAL


def test_spec_8_the_first_visit_looks_back_24_hours() -> None:
    assert first_visit_since(NOW) == datetime(2025, 10, 27, 12, tzinfo=UTC)
    assert first_visit_since(NOW, hours=0.5) == datetime(2025, 10, 28, 11, 30, tzinfo=UTC)


def test_lesson_6_the_mode_carries_no_window() -> None:
    assert not {"since", "hours", "window"} & set(ModeDecision.__slots__)


@pytest.mark.parametrize("hours", [0, -24])
def test_a_look_back_must_be_positive(hours: float) -> None:
    with pytest.raises(ValueError, match="positive"):
        first_visit_since(NOW, hours)


def test_lesson_10_naive_times_are_refused() -> None:
    naive = NOW.replace(tzinfo=None)
    with pytest.raises(ValueError, match="no time zone"):
        choose_mode(naive, NOW)
    with pytest.raises(ValueError, match="no time zone"):
        choose_mode(RECENT, naive)
    with pytest.raises(ValueError, match="no time zone"):
        first_visit_since(naive)
