"""Panels over time, one below the other, as an SVG written by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

WIDTH, LEFT, RIGHT = 900, 70, 210
TOP, HEIGHT, GAP, BOTTOM = 30, 170, 44, 40
COLOURS = ("#2166ac", "#1b7837", "#b2182b", "#e08214", "#762a83", "#555555", "#35978f", "#c51b7d")
LEAST = 0.01  # what is below is drawn there where the scale is logarithmic


@dataclass(frozen=True)
class Line:
    """Points (seconds, value)."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Panel:
    """Lines with the same unit."""

    title: str
    lines: Sequence[Line]
    by_powers: bool = False  # a logarithmic scale


def draw(panels: Sequence[Panel], marks: Sequence[tuple[float, str]], path: Path) -> None:
    """All panels over the same time; a mark is a line across all of them."""
    seconds = max((at for panel in panels for line in panel.lines for at, _ in line.points), default=1.0)
    height = TOP + len(panels) * (HEIGHT + GAP) + BOTTOM
    size = f'width="{WIDTH}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for number, panel in enumerate(panels):
        parts += _panel(panel, TOP + number * (HEIGHT + GAP), seconds)
    for number, (at, name) in enumerate(marks):
        x, bottom = _across(at, seconds), TOP + len(panels) * (HEIGHT + GAP) - GAP
        below = bottom + 34 + 14 * number
        parts.append(f'<path d="M{x} {TOP}V{bottom}" stroke="#555555" stroke-dasharray="3 3"/>')
        parts.append(f'<text x="{x}" y="{below}" text-anchor="end" fill="#555555">{escape(name)}</text>')
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*parts, "</svg>"]) + "\n", encoding="utf-8")


def _panel(panel: Panel, top: float, seconds: float) -> list[str]:
    values = [value for line in panel.lines for _, value in line.points]
    high = max([*values, LEAST * 100 if panel.by_powers else 1.0]) * 1.05
    low = min([value for value in values if value > LEAST], default=LEAST) / 1.2 if panel.by_powers else 0.0

    def up(value: float) -> float:
        share = math.log(max(value, low) / low) / math.log(high / low) if panel.by_powers else max(value, 0.0) / high
        return round(top + HEIGHT - share * HEIGHT, 1)

    parts = [f'<text x="{LEFT}" y="{top - 8}" font-weight="bold">{escape(panel.title)}</text>']
    for tick in _powers(low, high) if panel.by_powers else _steps(high):
        parts.append(f'<path d="M{LEFT} {up(tick)}H{WIDTH - RIGHT}" stroke="#dddddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{up(tick) + 4}" text-anchor="end">{tick:,g}</text>')
    for tick in _steps(seconds / 60):
        x = _across(tick * 60, seconds)
        parts.append(f'<path d="M{x} {top}V{top + HEIGHT}" stroke="#eeeeee"/>')
        parts.append(f'<text x="{x}" y="{top + HEIGHT + 15}" text-anchor="middle">{tick:g} min</text>')
    for number, (line, colour) in enumerate(zip(panel.lines, COLOURS, strict=False)):
        drawn = " ".join(f"{_across(at, seconds)},{up(value)}" for at, value in line.points)
        parts.append(f'<polyline points="{drawn}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        x, y = WIDTH - RIGHT + 14, top + 14 + number * 20
        parts.append(f'<path d="M{x} {y - 4}h20" stroke="{colour}" stroke-width="3"/>')
        parts.append(f'<text x="{x + 26}" y="{y}">{escape(line.name)}</text>')
    return parts


def _across(at: float, seconds: float) -> float:
    return round(LEFT + at / seconds * (WIDTH - LEFT - RIGHT), 1)


def _steps(high: float) -> list[float]:
    """From zero, about five of them, at round values."""
    power = math.pow(10, math.floor(math.log10(high / 5)))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor * 6 >= high)
    return [round(step * number, 10) for number in range(int(high / step) + 1)]


def _powers(low: float, high: float) -> list[float]:
    return [math.pow(10, power) for power in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)]
