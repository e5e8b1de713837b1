"""What a digest says about itself in its language: when it comes, what was read, what was left out and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, tzinfo
from functools import partial
from typing import TypeAlias

from telegram_assistant.domain.digests import (
    Behind,
    Content,
    Correction,
    Coverage,
    Frequency,
    Language,
    Schedule,
    zone_named,
)
from telegram_assistant.i18n import load_texts

MOST_NAMED = 10  # channels that are not up to date

Says: TypeAlias = Callable[..., str]


def says(language: str) -> Says:
    return partial(load_texts(), language)


def schedule_words(schedule: Schedule, t: Says) -> str:
    at = f"{schedule.minute // 60:02}:{schedule.minute % 60:02}"
    if schedule.frequency is Frequency.WEEKLY:
        return t("digests.when_weekly", day=t(f"digests.weekday_{schedule.weekday}"), time=at, zone=schedule.zone)
    if schedule.frequency is Frequency.MONTHLY:
        return t("digests.when_monthly", day=schedule.day, time=at, zone=schedule.zone)
    return t("digests.when_daily", time=at, zone=schedule.zone)


def zone_of(schedule: Schedule) -> tzinfo:
    """UTC, should the zone have gone from the world's list since it was chosen."""
    try:
        return zone_named(schedule.zone)
    except ValueError:
        return UTC


def moment_words(moment: datetime, zone: tzinfo, language: str) -> str:
    return f"{moment.astimezone(zone):{'%d.%m.%Y %H:%M' if language == Language.RU else '%Y-%m-%d %H:%M'}}"


def period_words(since: datetime, until: datetime, zone: tzinfo, language: str) -> str:
    return f"{moment_words(since, zone, language)} \u2013 {moment_words(until, zone, language)}"


def coverage_lines(content: Content, t: Says, zone: tzinfo, language: str) -> list[str]:
    """What was read first, then each reason for leaving something out that there was."""
    return [*_read(content.coverage, t), *_left_out(content, t), *_behind(content.coverage, t, zone, language)]


def correction_words(correction: Correction, t: Says, zone: tzinfo, language: str) -> str:
    at = moment_words(correction.at, zone, language) if correction.at else ""
    return t(f"digests.correction_{correction.change}", at=at).strip()


def _read(coverage: Coverage, t: Says) -> Iterator[str]:
    posts, channels = t("digests.posts", n=coverage.posts), t("digests.channels_read", n=coverage.channels)
    yield t("digests.read", posts=posts, channels=channels)
    yield t("digests.fitting", posts=coverage.fitting, stories=t("digests.stories", n=coverage.stories))


def _left_out(content: Content, t: Says) -> Iterator[str]:
    coverage = content.coverage
    for reason in ("over_limit", "told_before", "wordless", "capped", "gone"):
        count = getattr(coverage, reason)
        if count:
            yield t(f"digests.left_{reason}", n=count)
    if content.without_model:
        yield t("digests.without_model", why=content.without_model)


def _behind(coverage: Coverage, t: Says, zone: tzinfo, language: str) -> Iterator[str]:
    if not coverage.behind:
        yield t("digests.up_to_date")
        return
    named = [_channel_behind(one, t, zone, language) for one in coverage.behind[:MOST_NAMED]]
    more = len(coverage.behind) - len(named)
    yield t("digests.behind", channels="; ".join(named)) + (t("digests.behind_more", n=more) if more else "")


def _channel_behind(one: Behind, t: Says, zone: tzinfo, language: str) -> str:
    since = moment_words(one.since, zone, language) if one.since else ""
    why = t(f"digests.behind_{one.reason}", n=one.unknown, since=since, error=one.error)
    return f"{one.channel} ({why})"
