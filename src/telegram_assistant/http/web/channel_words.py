"""Why a channel is looked at when it is, and how long it has been silent, as texts of the page with their values."""

from __future__ import annotations

from datetime import timedelta
from typing import TypeAlias

from telegram_assistant.domain.polling import Explanation, Reason
from telegram_assistant.domain.thresholds import GapReport
from telegram_assistant.ingest.polling import Explained, Why

Said: TypeAlias = tuple[str, dict[str, object]]  # a key of the texts, and what stands in it
Span: TypeAlias = tuple[str, int]  # a key of the texts, and how many of it

_UNITS = ((172_800, 86_400, "base.days"), (7200, 3600, "base.hours"), (120, 60, "base.minutes"))


def span_of(length: timedelta) -> Span:
    """In the largest unit of which there are at least two."""
    seconds = max(0, round(length.total_seconds()))
    for least, unit, key in _UNITS:
        if seconds >= least:
            return key, seconds // unit
    return "base.seconds", seconds


def span_of_seconds(seconds: float) -> Span:
    return span_of(timedelta(seconds=seconds))


def bar_of_silence(gap: GapReport | None) -> float:
    """How much of what would be unusual has passed, in percent."""
    if gap is None or not gap.threshold:
        return 0.0
    return min(100.0, 100.0 * gap.gap / gap.threshold)


def reasons(explained: Explained) -> list[Said]:
    """The same as `Explained.sentences`, to be said in the reader's language."""
    if explained.decision is not None:
        return _of_decision(explained.decision)
    values: dict[str, object] = {
        "at": "" if explained.at is None else f"{explained.at:%H:%M:%S %Z}",
        "every": f"{explained.every:g}",
        "failures": explained.failures,
    }
    return [(f"channel.why_{explained.why.value}", values)]


def _of_decision(decision: Explanation) -> list[Said]:
    said: list[Said] = [(f"channel.because_{decision.reason.value}", {"posts": f"{decision.waiting:.2g}"})]
    if decision.silence is None:
        return [*said, ("channel.no_post_yet", {})]
    said.append(
        (
            "channel.rate",
            {
                "posts": f"{decision.posts_a_day:.3g}",
                "hour": f"{decision.hour_factor:.2g}",
                "recent": f"{decision.recent_factor:.2g}",
            },
        )
    )
    if decision.minutes:
        said.append(("channel.minutes", {"minutes": ", ".join(f":{minute:02}" for minute in decision.minutes[:8])}))
    if decision.onset_share is not None:
        said.append(("channel.onset", {"percent": f"{decision.onset_share:.0%}"}))
    if decision.weight != 1.0:
        said.append(("channel.weight", {"weight": f"{decision.weight:.3g}"}))
    return said


KEYS = [f"channel.why_{why.value}" for why in Why if why is not Why.RHYTHM] + [
    f"channel.because_{reason.value}" for reason in Reason
]
