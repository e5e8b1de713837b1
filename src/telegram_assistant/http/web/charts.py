"""Small charts as SVG, made here: no script, no style attribute, colours from the style sheet."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from markupsafe import Markup, escape

WIDTH, HEIGHT = 640.0, 180.0
LEFT, BOTTOM, TOP, RIGHT = 46.0, 22.0, 10.0, 8.0


def sparkline(values: Sequence[float], *, label: str = "", width: int = 120, height: int = 28) -> Markup:
    """The shape of a series, without axes."""
    if len(values) < 2:
        return Markup('<svg class="spark" viewBox="0 0 {0} {1}" width="{0}" height="{1}" role="img"></svg>').format(
            width, height
        )
    top = max(values) or 1.0
    step = (width - 4) / (len(values) - 1)
    points = [
        (2 + index * step, height - 3 - (height - 6) * max(0.0, value) / top) for index, value in enumerate(values)
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return Markup(
        '<svg class="spark" viewBox="0 0 {0} {1}" width="{0}" height="{1}" role="img" aria-label="{2}">'
        '<polygon class="area" points="2,{1} {3} {4:.1f},{1}"/><polyline class="line" points="{3}"/></svg>'
    ).format(width, height, label, line, points[-1][0])


def line_chart(
    series: Sequence[tuple[str, Sequence[tuple[datetime, float]]]], *, label: str = "", form: str = "{:%d.%m %H:%M}"
) -> Markup:
    """Series over time; each has its name in the legend and a class of its own (line0, line1, …)."""
    points = [point for _, found in series for point in found]
    if not points:
        return Markup("")
    first, last = min(at for at, _ in points), max(at for at, _ in points)
    span = (last - first).total_seconds() or 1.0
    top = _round_up(max(value for _, value in points))

    def place(at: datetime, value: float) -> str:
        x = LEFT + (WIDTH - LEFT - RIGHT) * (at - first).total_seconds() / span
        y = HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * value / top
        return f"{x:.1f},{y:.1f}"

    lines = Markup("").join(
        Markup('<polyline class="line line{}" points="{}"/>').format(
            index, " ".join(place(at, value) for at, value in found)
        )
        + Markup("").join(
            Markup('<circle class="dot line{}" cx="{}" cy="{}" r="2.5"><title>{}: {:,.0f}, {}</title></circle>').format(
                index, *place(at, value).split(","), name, value, form.format(at)
            )
            for at, value in found[-60:]
        )
        for index, (name, found) in enumerate(series)
    )
    legend = Markup("").join(
        Markup('<li class="line{}">{}</li>').format(index, name) for index, (name, _) in enumerate(series)
    )
    return Markup(
        '<figure class="chart"><svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}{}'
        '<text class="axis" x="{}" y="{}">{}</text><text class="axis end" x="{}" y="{}">{}</text></svg>'
        '<ul class="legend">{}</ul></figure>'
    ).format(
        *(WIDTH, HEIGHT, label, _grid(top), lines),
        *(LEFT, HEIGHT - 6, form.format(first), WIDTH - RIGHT, HEIGHT - 6, form.format(last) if last > first else ""),
        legend,
    )


def heat_map(rows: Sequence[tuple[str, Sequence[float]]], *, columns: Sequence[str], label: str = "") -> Markup:
    """A cell for each value, stronger where it is larger, with its number to hover over."""
    top = max((value for _, values in rows for value in values), default=0.0) or 1.0
    cell, left, head = 24, 44, 18
    cells = Markup("").join(
        Markup('<text class="axis" x="0" y="{}">{}</text>').format(head + row * cell + 16, name)
        + Markup("").join(
            Markup(
                '<rect class="heat" x="{}" y="{}" width="22" height="22" rx="3" fill-opacity="{:.3f}">'
                "<title>{}</title></rect>"
            ).format(
                left + column * cell,
                head + row * cell,
                0.06 + 0.94 * value / top,
                f"{name} {columns[column]}: {value:.2g}",
            )
            for column, value in enumerate(values)
        )
        for row, (name, values) in enumerate(rows)
    )
    heads = Markup("").join(
        Markup('<text class="axis" x="{}" y="12">{}</text>').format(left + index * cell + 3, name)
        for index, name in enumerate(columns)
        if index % 3 == 0
    )
    width, height = left + len(columns) * cell, head + len(rows) * cell
    return Markup('<svg class="heatmap" viewBox="0 0 {} {}" role="img" aria-label="{}">{}{}</svg>').format(
        width, height, label, heads, cells
    )


def _grid(top: float) -> Markup:
    """Three lines with their values."""
    parts = []
    for share in (0.0, 0.5, 1.0):
        y = HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * share
        parts.append(
            Markup('<line class="grid" x1="{}" x2="{}" y1="{y:.1f}" y2="{y:.1f}"/>').format(LEFT, WIDTH - RIGHT, y=y)
            + Markup('<text class="axis end" x="{}" y="{:.1f}">{}</text>').format(LEFT - 6, y + 4, _short(top * share))
        )
    return Markup("").join(parts)


def _round_up(value: float) -> float:
    """To 1, 2 or 5 times a power of ten."""
    power = 1.0
    while power * 10 <= value:
        power *= 10
    return next((power * step for step in (1, 2, 5, 10) if power * step >= value), power) or 1.0


def _short(value: float) -> Markup:
    for limit, unit in ((1e6, "M"), (1e3, "k")):
        if value >= limit:
            return escape(f"{value / limit:.3g}{unit}")
    return escape(f"{value:.3g}")
