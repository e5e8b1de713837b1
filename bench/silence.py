"""Silence and holes: how soon a rule notices, how often in vain; and whether what was withheld is found in the end.

Real channels take part where bench/polling finds their file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TypedDict

from bench.alarms import DAY, Alarms, replay
from bench.figure import RESULTS, Figure
from bench.plot import Curve, Panel, draw
from bench.polling import real_channels
from bench.replay import percentile
from bench.withheld import Report, live_through
from telegram_simulator.tempers import times
from telegram_simulator.veil import Veil

BEGIN = datetime(2024, 11, 4, tzinfo=UTC) - timedelta(hours=3)  # a Monday in Moscow
LEARNS, TESTED = timedelta(days=14), timedelta(days=28)
RATES = (0.5, 1, 2, 5, 10, 20, 50, 100, 200)  # posts a day
BUSY = 20  # from this rate on
TEMPERS = ("bursty", "night_quiet", "round_the_clock", "weekday", "steady")
SEEDS = 3
FIXED, OURS = "fixed hour", "adaptive (ours)"
LIVED, SHOWN_BY = timedelta(days=3.5), timedelta(days=14)
VEIL = Veil(0.12, timedelta(minutes=5), SHOWN_BY)
HOUR = timedelta(hours=1)
LATENESS = {  # how late a post shows, and what finds it
    "under 1 h": (timedelta(0), HOUR),
    "1 to 24 h": (HOUR, 24 * HOUR),
    "1 to 3 days": (24 * HOUR, 72 * HOUR),
    "3 to 7 days": (72 * HOUR, 168 * HOUR),
    "over 7 days": (168 * HOUR, timedelta.max),
}


class Size(TypedDict):
    """Of a world to live through."""

    channels: int
    posts_a_day: float
    lived: timedelta


INTRODUCTION = """# Silence and holes

`python -m bench silence` writes this page.

## Silence as an alarm

A rule looks at a channel when it is silent for longer than its threshold. It looks in vain when the channel just was
silent: the first system called each of these a gap. Here a look is one request, and what it proves decides (below).
The delay is from the first post that is not seen any more to the look. There is one look a day for one silence (SPEC
3.6): where it was made in vain before that post, the next comes a day later, and most of the delays are that. (Visits
go on all the while; silence is the second line.) Ticks come every 5 min. Channels of five tempers, among them such that
sleep at night and at the weekend; two weeks are learned from, four are tested.

| channels | posts a day | rule | looks in vain per channel and day | at night or weekend | mean delay, min | p95, min |
|---|---:|---|---:|---:|---:|---:|"""


def compare(channels: Sequence[Sequence[float]], begin: float, end: float) -> dict[str, Alarms]:
    """Both rules over the same channels."""
    results = {FIXED: Alarms(), OURS: Alarms()}
    for arrivals in channels:
        for name, alarms in results.items():
            replay(arrivals, begin, end, alarms, adaptive=name == OURS)
    return results


def world_channels(rate: float) -> list[list[float]]:
    """Some of each temper; the dead are left out, for nothing of theirs can be missed."""
    end = BEGIN + LEARNS + TESTED
    return [
        [moment.timestamp() for moment in times(f"{seed}/{rate}", temper, rate, BEGIN, end)]
        for temper in TEMPERS
        for seed in range(SEEDS)
    ]


def rows_of(name: str, rate: float, results: dict[str, Alarms]) -> list[str]:
    return [
        f"| {name} | {rate:g} | {rule} | {alarms.a_day:.2f} | {alarms.in_quiet_hours / max(1, alarms.in_vain):.0%} |"
        f" {alarms.mean / 60:.0f} | {alarms.p95 / 60:.0f} |"
        for rule, alarms in results.items()
    ]


def panels_of(results: dict[float, dict[str, Alarms]]) -> list[Panel]:
    delays, vain = [], []
    for rule in (FIXED, OURS):
        found = {rate: by_rule[rule] for rate, by_rule in results.items()}
        delays.append(Curve(rule, [(rate, alarms.mean / 60, alarms.p95 / 60) for rate, alarms in found.items()]))
        vain.append(Curve(rule, [(rate, alarms.a_day, alarms.a_day) for rate, alarms in found.items()]))
    return [
        Panel("until missing posts are noticed", delays, "posts a day", "delay, min"),
        Panel("looks in vain", vain, "posts a day", "per channel and day"),
    ]


def closing_rows(report: Report) -> list[str]:
    lines = ["| showed late by | posts | found | mean wait, min | p95, min |", "|---|---:|---:|---:|---:|"]
    for name, (low, high) in LATENESS.items():
        posts = [lateness for lateness, _ in report.late.values() if low <= lateness < high]
        waits = [wait.total_seconds() / 60 for lateness, wait in report.delays if low <= lateness < high]
        if posts:
            mean = sum(waits) / max(1, len(waits))
            lines.append(
                f"| {name} | {len(posts)} | {len(waits)} | {mean:.0f} | {percentile(waits or [0.0], 0.95):.0f} |"
            )
    return lines


CLOSING = """## Worlds where posts are withheld

Over MTProto, with the product's own visits, backfill and audits, on a clock that goes from tick to tick (15 min). No
push tells of anything. One post in eight shows 5 minutes to 14 days after its id was given, and one page in eleven
comes without a third of its messages. Waits are from the moment a post can be seen to its capture: posts of the last
hour are read again every 15 min, of the last day every hour, of three days every 8 h, of a week every day; what is
older, audits find.
"""


def closing_text(withheld: Report, control: Report) -> list[str]:
    looks, calm = (
        ", ".join(f"{count:.0f} {outcome}" for outcome, count in report.looks.items()) for report in (withheld, control)
    )
    facts = (
        f"{withheld.posts} posts, {len(withheld.late)} of them late, {withheld.pages_spoiled} pages spoiled.",
        f"{withheld.visits} visits, {withheld.requests} requests.",
        f"{withheld.found_late:.0f} of them showed where a page had proven nothing, and were counted as such.",
        f"At the end {withheld.unknown} ids are unknown and {withheld.differences} posts differ from the truth.",
        f"Looks at silence: {looks}.",
        f"The same world with nothing withheld and no page spoiled, {control.posts} posts: looks at silence: {calm}.",
        f"There {control.found_late:.0f} posts were late, {control.unknown} ids unknown, {control.differences} differ.",
    )
    return [CLOSING, *closing_rows(withheld), "", *(f"- {fact}" for fact in facts), ""]


async def _closing() -> tuple[Report, Report]:
    size: Size = {"channels": 6, "posts_a_day": 25, "lived": LIVED}
    withheld = await live_through(**size, calm=SHOWN_BY + timedelta(days=1), veil=VEIL, losing=True)
    control = await live_through(**size, calm=timedelta(hours=6), veil=None, losing=False)
    return withheld, control


def real_rows() -> list[str]:
    """Each real channel by itself: the days after the first two weeks, or after its middle."""
    lines = []
    for posts in real_channels():
        known = posts[-1] - posts[0]
        begin = max(posts[-1] - TESTED.total_seconds(), posts[0] + min(LEARNS.total_seconds(), known / 2))
        found = compare([posts], begin, posts[-1])
        if all(alarms.delays for alarms in found.values()):
            lines += rows_of("real", round(len(posts) / known * DAY, 1), found)
    return lines


def run() -> list[Figure]:
    begin = (BEGIN + LEARNS).timestamp()
    results = {rate: compare(world_channels(rate), begin, begin + TESTED.total_seconds()) for rate in RATES}
    worlds = [line for rate, found in results.items() for line in rows_of("world", rate, found)]
    withheld, control = asyncio.run(_closing())
    closing = closing_text(withheld, control)
    picture = "![delay and looks in vain, by rate](silence.svg)"
    page = "\n".join([INTRODUCTION, *worlds, *real_rows(), "", picture, "", *closing])
    print(page)
    draw(panels_of(results), RESULTS / "silence.svg")
    (RESULTS / "silence.md").write_text(page, encoding="utf-8")
    return _figures(results, withheld, control)


def _figures(results: dict[float, dict[str, Alarms]], withheld: Report, control: Report) -> list[Figure]:
    vain = {rule: sum(found[rule].a_day for found in results.values()) / len(results) for rule in (FIXED, OURS)}
    busy = {rule: [d for rate, found in results.items() if rate >= BUSY for d in found[rule].delays] for rule in vain}
    mean = {rule: sum(delays) / len(delays) / 60 for rule, delays in busy.items()}
    called = control.looks["hole"] + control.found_late
    return [
        Figure("silence_looks_in_vain", vain[OURS], "per channel and day, of the fixed hour's", vain[FIXED]),
        Figure("silence_busy_mean_delay", mean[OURS], "min, of the fixed hour's", mean[FIXED]),
        Figure("withheld_posts_found", len(withheld.delays) - withheld.differences, "posts", len(withheld.late)),
        Figure("silences_called_holes", called, "of looks at silence", max(1.0, sum(control.looks.values()))),
    ]
