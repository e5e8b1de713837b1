"""Small charts as SVG, made here: no script, no style attribute, colours from the style sheet."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from markupsafe import Markup, escape

from telegram_assistant.domain.ledger import LedgerState

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


GRAPH_WIDTH, GRAPH_HEIGHT = 860, 460
REACH_X, REACH_Y = 330, 182  # from the middle
INNER = 0.6  # of that, for every second one of many
LONGEST_LABEL = 20  # characters of a label
THICK, THIN = 6.0, 1.2
BIG, SMALL = 15.0, 6.0


@dataclass(frozen=True, slots=True)
class Ray:
    """A neighbour: where it leads, what it is called, how much it weighs, and its kind (a CSS class)."""

    href: str
    title: str
    weight: int
    kind: str


def graph_picture(title: str, kind: str, rays: Sequence[Ray], label: str) -> Markup:
    """As SVG; every neighbour is a link that a keyboard reaches, in the order given."""
    heaviest = max((ray.weight for ray in rays), default=1) or 1
    lines, nodes = [], []
    for place, ray in enumerate(rays):
        angle = 2 * math.pi * place / len(rays) - math.pi / 2
        # Neighbours stand on two rings in turn, so that their labels do not meet.
        reach = 1.0 if place % 2 == 0 or len(rays) < 9 else INNER
        x, y = GRAPH_WIDTH / 2 + REACH_X * reach * math.cos(angle), GRAPH_HEIGHT / 2 + REACH_Y * reach * math.sin(angle)
        share = math.sqrt(ray.weight / heaviest)
        lines.append(_line(x, y, THIN + (THICK - THIN) * share, ray.kind))
        nodes.append(_node(ray, x, y, SMALL + (BIG - SMALL) * share))
    middle = Markup('<g class="{kind}"><circle class="centre" cx="{x}" cy="{y}" r="34"></circle></g>').format(
        kind=kind, x=GRAPH_WIDTH // 2, y=GRAPH_HEIGHT // 2
    )
    name = Markup('<text class="name" x="{x}" y="{y}">{title}</text>').format(
        x=GRAPH_WIDTH // 2, y=GRAPH_HEIGHT // 2 + 56, title=_label(title)
    )
    return Markup(
        '<svg class="star" viewBox="0 0 {width} {height}" role="group" aria-label="{label}">{inside}</svg>'
    ).format(width=GRAPH_WIDTH, height=GRAPH_HEIGHT, label=label, inside=Markup().join([*lines, middle, *nodes, name]))


def _line(x: float, y: float, width: float, kind: str) -> Markup:
    return Markup(
        '<line class="ray {kind}" x1="{x1}" y1="{y1}" x2="{x2:.1f}" y2="{y2:.1f}" stroke-width="{width:.1f}"></line>'
    ).format(kind=kind, x1=GRAPH_WIDTH // 2, y1=GRAPH_HEIGHT // 2, x2=x, y2=y, width=width)


def _node(ray: Ray, x: float, y: float, radius: float) -> Markup:
    below = y >= GRAPH_HEIGHT / 2
    return Markup(
        '<a href="{href}" class="{kind}"><title>{title} ({weight})</title>'
        '<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"></circle>'
        '<text x="{x:.1f}" y="{text:.1f}">{short}</text></a>'
    ).format(
        href=ray.href,
        kind=ray.kind,
        title=ray.title,
        weight=ray.weight,
        x=x,
        y=y,
        radius=radius,
        text=y + radius + 16 if below else y - radius - 7,
        short=_label(ray.title),
    )


def _label(title: str) -> str:
    return title if len(title) <= LONGEST_LABEL else f"{title[: LONGEST_LABEL - 1].rstrip()}…"


STRIP_WIDTH, STRIP_HEIGHT = 1000.0, 22.0
NARROWEST = 2.0  # a hole of one id among a million is to be seen
MOST_PARTS = 400


def coverage_strip(state: LedgerState, *, label: str) -> Markup:
    """From the first id to the newest: known, unknown, and not requested."""
    if not state.newest_id:
        return Markup("")
    parts = Markup("").join(
        Markup('<rect class="{}" x="{:.1f}" y="0" width="{:.1f}" height="{:.0f}"><title>{}</title></rect>').format(
            kind, x, width, STRIP_HEIGHT, f"{first:,}-{last:,}"
        )
        for kind, x, width, first, last in _parts(state)
    )
    return Markup(
        '<svg class="strip" viewBox="0 0 {:.0f} {:.0f}" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<rect class="never" x="0" y="0" width="{:.0f}" height="{:.0f}"/>{}</svg>'
    ).format(STRIP_WIDTH, STRIP_HEIGHT, label, STRIP_WIDTH, STRIP_HEIGHT, parts)


def _parts(state: LedgerState) -> Iterator[tuple[str, float, float, int, int]]:
    """The known first: what is unknown is drawn over it, and never too thin to see."""
    scale = STRIP_WIDTH / state.newest_id
    for kind, least, ranges in (("known", 0.0, state.coverage), ("unknown", NARROWEST, state.gaps)):
        for start, stop in ranges.ranges[:MOST_PARTS]:
            first, last = max(1, start), min(stop - 1, state.newest_id)
            if first <= last:
                x = (first - 1) * scale
                width = max(least, (last + 1 - first) * scale)
                yield kind, min(x, STRIP_WIDTH - width), width, first, last


Counts: TypeAlias = Sequence[tuple[datetime, Sequence[int]]]  # when, and the bytes of each kind

BARS_LEFT = 60.0  # sizes take more room than counts


def storage_bars(
    counts: Counts, kinds: Sequence[str], *, label: str, size: Callable[[float], str], limit: int | None = None
) -> Markup:
    """`limit`: the quota, a line across. `kinds`: their names, for the legend and to hover over."""
    if not counts:
        return Markup("")
    top = max(limit or 0, *(sum(parts) for _, parts in counts)) or 1
    high = HEIGHT - BOTTOM - TOP
    step = (WIDTH - BARS_LEFT) / len(counts)
    bars = Markup("").join(
        _bar(BARS_LEFT + index * step, step, [high * part / top for part in parts], _words(at, parts, kinds, size))
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
        *(WIDTH, HEIGHT, label, _scale(top, size), bars, _bars_line(limit, top)),
        *(BARS_LEFT, HEIGHT - 6, f"{counts[0][0]:%d.%m}", WIDTH, HEIGHT - 6, f"{counts[-1][0]:%d.%m}"),
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
            Markup('<line class="grid" x1="{}" x2="{}" y1="{y:.1f}" y2="{y:.1f}"/>').format(BARS_LEFT, WIDTH, y=y)
            + Markup('<text class="axis end" x="{}" y="{:.1f}">{}</text>').format(
                BARS_LEFT - 6, y + 4, size(top * share)
            )
        )
    return Markup("").join(lines)


def _bars_line(limit: int | None, top: int) -> Markup:
    if not limit:
        return Markup("")
    y = HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * limit / top
    return Markup('<line class="limit" x1="{}" x2="{}" y1="{y:.1f}" y2="{y:.1f}"/>').format(BARS_LEFT, WIDTH, y=y)
