"""Delay between a post and the look that finds it, by rule and at equal numbers of requests: real channels and worlds.

Real channels: the file named by TGA_NEWS12 (JSON lines, gzip: channel, date), or `data/news12_ru.jsonl.gz` in a folder
beside the checkout.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

from bench.figure import RESULTS, Figure
from bench.plot import Curve, Panel, draw
from bench.replay import ByAge, ByHour, ByRate, Learned, Policy, Result, Trial, fixed, replay
from telegram_assistant.domain.rhythm import DAY, WEEK
from telegram_simulator.generate import TEMPERS
from telegram_simulator.tempers import times

INTERVAL = 300.0
INTERVALS = (150.0, 300.0, 600.0, 1200.0)
WORLD_CHANNELS = 1000
CURVE_CHANNELS = 60  # of a smaller world, to see it at other budgets too
WORLD_LEARNS = 28  # days
SLOWEST, SPAN = 0.2, 1000.0  # posts a day of the quietest channel, and by what factor the busiest posts more
NEEDED = 9.5 * DAY  # of history, for a channel to take part in a week further back
FIXED = "fixed interval"
BY_RATE = "square root of the rate"
OURS = "learned rhythm (ours)"
POLICIES: dict[str, Callable[[Trial], Policy]] = {
    BY_RATE: ByRate,
    "Poisson by hour of day": ByHour,
    "age (web crawlers)": ByAge,
    OURS: Learned,
}


def real_channels() -> list[list[float]]:
    """Each channel's posts, shifted by whole weeks so that all end in the same week; none without the file."""
    beside = sorted(Path(__file__).parents[2].glob("*/data/news12_ru.jsonl.gz"))
    path = Path(os.environ["TGA_NEWS12"]) if "TGA_NEWS12" in os.environ else next(iter(beside), None)
    if path is None or not path.exists():
        return []
    found: dict[str, list[float]] = defaultdict(list)
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            found[row["channel"]].append(datetime.fromisoformat(row["date"]).timestamp())
    channels = [sorted(posts) for posts in found.values()]
    newest = max(posts[-1] for posts in channels)
    return [_shifted(posts, (newest - posts[-1]) // WEEK) for posts in channels]


def real_trials(channels: Sequence[Sequence[float]]) -> list[Trial]:
    """First the end of all histories, then the days after each one's middle, then weeks further back."""
    newest = max(posts[-1] for posts in channels)
    length = min(7 * DAY, min(newest - posts[0] for posts in channels) / 2)
    start = newest - length
    middles = [(posts[0] + posts[-1]) / 2 for posts in channels]
    centred = [_shifted(posts, (start - middle) // WEEK) for posts, middle in zip(channels, middles, strict=True)]
    trials = [Trial("the last days", channels, start, newest), Trial("after the middle", centred, start, newest)]
    for back in range(1, 5):
        end = start - (back - 1) * WEEK
        known = [posts for posts in channels if posts[0] <= end - WEEK - NEEDED]
        if len(known) >= 3:
            trials.append(Trial(f"{back} weeks earlier, {len(known)} channels", known, end - WEEK, end))
    return trials


def world_trial(channels: int, seed: int = 1) -> Trial:
    """Channels of all tempers, their rates spread evenly over three orders of magnitude."""
    begin = datetime(2024, 11, 4, tzinfo=UTC) - timedelta(hours=3)  # a Monday in Moscow
    end = begin + timedelta(days=WORLD_LEARNS + 7)
    ranks = Random(seed).sample(range(channels), channels)  # noqa: S311 - worlds are made from a seed
    posts = [
        [moment.timestamp() for moment in times(f"{seed}/{number}", temper, rate, begin, end)]
        for number, rank in enumerate(ranks)
        for temper, rate in [(TEMPERS[number % len(TEMPERS)], SLOWEST * math.pow(SPAN, (rank + 0.5) / channels))]
    ]
    return Trial(f"world of {channels:,} channels", posts, end.timestamp() - WEEK, end.timestamp())


def _shifted(posts: Sequence[float], weeks: float) -> list[float]:
    return [post + weeks * WEEK for post in posts]


INTRODUCTION = """# Delay between a post and the look that finds it

Every rule has the same number of requests: that of the fixed interval in the second column. `python -m bench polling`
writes this page; decision 0007 says what it means.

| posts | every | rule | requests used | mean, s | to fixed | p95, s | to fixed | busiest hour |
|---|---|---|---|---|---|---|---|---|"""


class Page:
    """The evidence: a table that is printed and kept, and the curves."""

    def __init__(self) -> None:
        self._lines = [INTRODUCTION]

    def add(self, trial: Trial, interval: float, results: dict[str, Result]) -> None:
        basis = results[FIXED]
        for name, result in results.items():
            peak = f"{result.peak:.2f}" if result.hourly else "1.00"
            line = (
                f"| {trial.name} | {interval:.0f} s | {name} | {result.used:.3f} | {result.mean:.1f} |"
                f" {result.mean / basis.mean:.3f} | {result.p95:.0f} | {result.p95 / basis.p95:.3f} | {peak} |"
            )
            print(line)
            self._lines.append(line)

    def write(self, panels: Sequence[Panel]) -> None:
        draw(panels, RESULTS / "polling.svg")
        lines = [*self._lines, "", "![requests against delay](polling.svg)", ""]
        (RESULTS / "polling.md").write_text("\n".join(lines), encoding="utf-8")


def measure(trial: Trial, interval: float, rules: Iterable[str] = POLICIES) -> dict[str, Result]:
    """Rules on one trial."""
    results = {FIXED: fixed(trial, interval)}
    for name in rules:
        results[name] = replay(trial, POLICIES[name](trial), interval)
    return results


def curves(trial: Trial, intervals: Sequence[float], page: Page) -> Panel:
    """The trial at several budgets."""
    points: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for interval in intervals:
        results = measure(trial, interval)
        page.add(trial, interval, results)
        for name, result in results.items():
            points[name].append((3600 / interval * result.used, result.mean, result.p95))
    return Panel(trial.name, [Curve(name, found) for name, found in points.items()])


def planning_cost(trial: Trial, channels: int = 10_000) -> Figure:
    """Deciding for so many channels, each once; the limit is a second, since only visited ones are decided anew."""
    rule = Learned(trial)
    began = time.process_time()
    for number in range(channels):
        rule.next(number % len(trial.channels), trial.begin, 5.0)
    return Figure("polling_plans_of_10000_channels", time.process_time() - began, "CPU s", 1.0)


def run() -> list[Figure]:
    page = Page()
    panels: list[Panel] = []
    figures: list[Figure] = []
    if channels := real_channels():
        first, *others = real_trials(channels)
        figures += _figures("real", measure(first, INTERVAL))
        panels.append(curves(first, INTERVALS, page))
        for trial in others:
            page.add(trial, INTERVAL, measure(trial, INTERVAL))
    else:
        print("no file of real channels (TGA_NEWS12): only the simulated world is measured")
    world = world_trial(WORLD_CHANNELS)
    results = measure(
        world, INTERVAL, (BY_RATE, OURS)
    )  # the others are measured in the smaller world: a matter of time
    page.add(world, INTERVAL, results)
    figures += [*_figures("world", results), planning_cost(world)]
    panels.append(curves(world_trial(CURVE_CHANNELS), INTERVALS[1:], page))
    page.write(panels)
    return figures


def _figures(name: str, results: dict[str, Result]) -> list[Figure]:
    ours, basis = results[OURS], results[FIXED]
    return [
        Figure(f"polling_{name}_mean_delay", ours.mean, "s, of the fixed interval's", basis.mean),
        Figure(f"polling_{name}_p95_delay", ours.p95, "s, of the fixed interval's", basis.p95),
    ]
