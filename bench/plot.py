"""Curves as an SVG, written by hand, on logarithmic scales: requests across and delay upwards unless told otherwise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

WIDTH, HEIGHT = 430, 330  # of a panel
LEFT, TOP, INNER_WIDTH, INNER_HEIGHT = 56, 36, 350, 240
LEGEND = 26  # pixels for a line of it
COLOURS = ("#555555", "#1b7837", "#2166ac", "#b2182b", "#e08214")
STEPS = (1, 2, 5)


@dataclass(frozen=True, slots=True)
class Curve:
    """Points (requests, mean delay, p95 of the delay) of one rule; the same twice where there is one value only."""

    name: str
    points: Sequence[tuple[float, float, float]]


@dataclass(frozen=True, slots=True)
class Panel:
    """One drawing of several curves."""

    title: str
    curves: Sequence[Curve]
    across: str = "requests per channel and hour"
    upwards: str = "delay, s"


class Scale:
    """From values to pixels, by logarithm."""

    def __init__(self, values: Sequence[float], begin: float, end: float) -> None:
        self.low, self.high = min(values) / 1.15, max(values) * 1.15
        self._begin, self._end = begin, end

    def __call__(self, value: float) -> float:
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return round(self._begin + share * (self._end - self._begin), 1)

    def ticks(self) -> list[float]:
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        found = (step * math.pow(10, power) for power in powers for step in STEPS)
        return [tick for tick in found if self.low <= tick <= self.high]


def draw(panels: Sequence[Panel], path: Path, *, strokes: str = "solid: mean, dashed: 95 % are faster") -> None:
    """Panels side by side, with one legend for all."""
    names = [curve.name for curve in panels[0].curves]
    height = HEIGHT + LEGEND * math.ceil((len(names) + 1) / 3)
    size = f'width="{WIDTH * len(panels)}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for number, panel in enumerate(panels):
        parts += [f'<g transform="translate({number * WIDTH} 0)">', *_panel(panel), "</g>"]
    for number, name in enumerate([*names, strokes]):
        x, y = LEFT + number % 3 * 270, HEIGHT + 10 + number // 3 * LEGEND
        if number < len(names):
            parts.append(f'<path d="M{x} {y - 4}h24" stroke="{COLOURS[number]}" stroke-width="3"/>')
        parts.append(f'<text x="{x + 30}" y="{y}">{escape(name)}</text>')
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*parts, "</svg>"]) + "\n", encoding="utf-8")


def _panel(panel: Panel) -> list[str]:
    points = [point for curve in panel.curves for point in curve.points]
    across = Scale([requests for requests, _, _ in points], LEFT, LEFT + INNER_WIDTH)
    up = Scale([delay for _, *delays in points for delay in delays], TOP + INNER_HEIGHT, TOP)
    parts = [f'<text x="{LEFT}" y="22" font-weight="bold">{escape(panel.title)}</text>', *_axes(across, up)]
    parts += _names(panel)
    for curve, colour in zip(panel.curves, COLOURS, strict=False):
        for column, dash in ((1, ""), (2, ' stroke-dasharray="5 4"')):
            line = " ".join(f"{across(point[0])},{up(point[column])}" for point in curve.points)
            parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
    return parts


def _axes(across: Scale, up: Scale) -> list[str]:
    bottom, right = TOP + INNER_HEIGHT, LEFT + INNER_WIDTH
    parts = []
    for tick in across.ticks():
        parts.append(f'<path d="M{across(tick)} {TOP}V{bottom}" stroke="#dddddd"/>')
        parts.append(f'<text x="{across(tick)}" y="{bottom + 16}" text-anchor="middle">{tick:g}</text>')
    for tick in up.ticks():
        parts.append(f'<path d="M{LEFT} {up(tick)}H{right}" stroke="#dddddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{up(tick) + 4}" text-anchor="end">{tick:g}</text>')
    return parts


def _names(panel: Panel) -> list[str]:
    middle, centre, below = LEFT + INNER_WIDTH / 2, TOP + INNER_HEIGHT / 2, TOP + INNER_HEIGHT + 34
    return [
        f'<text x="{middle}" y="{below}" text-anchor="middle">{escape(panel.across)}</text>',
        f'<text transform="translate(14 {centre}) rotate(-90)" text-anchor="middle">{escape(panel.upwards)}</text>',
    ]
