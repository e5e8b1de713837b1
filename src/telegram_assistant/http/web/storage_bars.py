"""Bars of what was stored over time, one for each count, its kinds on top of each other. SVG, as in charts.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeAlias

from markupsafe import Markup

Counts: TypeAlias = Sequence[tuple[datetime, Sequence[int]]]  # when, and the bytes of each kind

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 640.0, 180.0, 60.0, 22.0, 10.0


def storage_bars(
    counts: Counts, kinds: Sequence[str], *, label: str, size: Callable[[float], str], limit: int | None = None
) -> Markup:
    """`limit`: the quota, a line across. `kinds`: their names, for the legend and to hover over."""
    if not counts:
        return Markup("")
    top = max(limit or 0, *(sum(parts) for _, parts in counts)) or 1
    high = HEIGHT - BOTTOM - TOP
    step = (WIDTH - LEFT) / len(counts)
    bars = Markup("").join(
        _bar(LEFT + index * step, step, [high * part / top for part in parts], _words(at, parts, kinds, size))
        for index, (at, parts) in enumerate(counts)
    )
    legend = Markup("").join(
        Markup('<li class="line{}">{}</li>').format(index, kind) for index, kind in enumerate(kinds)
    )
    return Markup(
        '<figure class="chart storage"><svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}{}{}'
        '<text class="axis" x="{}" y="{}">{}</text><text class="axis end" x="{}" y="{}">{}</text></svg>'
        '<ul class="legend">{}</ul></figure>'
    ).format(
        *(WIDTH, HEIGHT, label, _scale(top, size), bars, _line(limit, top)),
        *(LEFT, HEIGHT - 6, f"{counts[0][0]:%d.%m}", WIDTH, HEIGHT - 6, f"{counts[-1][0]:%d.%m}"),
        legend,
    )


def _bar(x: float, step: float, heights: Sequence[float], words: str) -> Markup:
    """From the ground up."""
    ground, parts = HEIGHT - BOTTOM, []
    for index, height in enumerate(heights):
        ground -= height
        parts.append(
            Markup('<rect class="part line{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>').format(
                index, x + step * 0.1, ground, step * 0.8, height
            )
        )
    return Markup("<g>{}<title>{}</title></g>").format(Markup("").join(parts), words)


def _words(at: datetime, parts: Sequence[int], kinds: Sequence[str], size: Callable[[float], str]) -> str:
    told = ", ".join(f"{kind}: {size(part)}" for kind, part in zip(kinds, parts, strict=True))
    return f"{at:%d.%m %H:%M} {told}"


def _scale(top: int, size: Callable[[float], str]) -> Markup:
    lines = []
    for share in (0.0, 0.5, 1.0):
        y = HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * share
        lines.append(
            Markup('<line class="grid" x1="{}" x2="{}" y1="{y:.1f}" y2="{y:.1f}"/>').format(LEFT, WIDTH, y=y)
            + Markup('<text class="axis end" x="{}" y="{:.1f}">{}</text>').format(LEFT - 6, y + 4, size(top * share))
        )
    return Markup("").join(lines)


def _line(limit: int | None, top: int) -> Markup:
    if not limit:
        return Markup("")
    y = HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * limit / top
    return Markup('<line class="limit" x1="{}" x2="{}" y1="{y:.1f}" y2="{y:.1f}"/>').format(LEFT, WIDTH, y=y)
