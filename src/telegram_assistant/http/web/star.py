"""A node and its neighbours as a picture: one in the middle, the others around it, the busier the thicker the line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

WIDTH, HEIGHT = 860, 460
REACH_X, REACH_Y = 330, 182  # from the middle
INNER = 0.6  # of that, for every second one of many
LONGEST = 20  # characters of a label
THICK, THIN = 6.0, 1.2
BIG, SMALL = 15.0, 6.0


@dataclass(frozen=True, slots=True)
class Ray:
    """A neighbour: where it leads, what it is called, how much it weighs, and its kind (a CSS class)."""

    href: str
    title: str
    weight: int
    kind: str


def star(title: str, kind: str, rays: Sequence[Ray], label: str) -> Markup:
    """As SVG; every neighbour is a link that a keyboard reaches, in the order given."""
    heaviest = max((ray.weight for ray in rays), default=1) or 1
    lines, nodes = [], []
    for place, ray in enumerate(rays):
        angle = 2 * math.pi * place / len(rays) - math.pi / 2
        # Neighbours stand on two rings in turn, so that their labels do not meet.
        reach = 1.0 if place % 2 == 0 or len(rays) < 9 else INNER
        x, y = WIDTH / 2 + REACH_X * reach * math.cos(angle), HEIGHT / 2 + REACH_Y * reach * math.sin(angle)
        share = math.sqrt(ray.weight / heaviest)
        lines.append(_line(x, y, THIN + (THICK - THIN) * share, ray.kind))
        nodes.append(_node(ray, x, y, SMALL + (BIG - SMALL) * share))
    middle = Markup('<g class="{kind}"><circle class="centre" cx="{x}" cy="{y}" r="34"></circle></g>').format(
        kind=kind, x=WIDTH // 2, y=HEIGHT // 2
    )
    name = Markup('<text class="name" x="{x}" y="{y}">{title}</text>').format(
        x=WIDTH // 2, y=HEIGHT // 2 + 56, title=_short(title)
    )
    return Markup(
        '<svg class="star" viewBox="0 0 {width} {height}" role="group" aria-label="{label}">{inside}</svg>'
    ).format(width=WIDTH, height=HEIGHT, label=label, inside=Markup().join([*lines, middle, *nodes, name]))


def _line(x: float, y: float, width: float, kind: str) -> Markup:
    return Markup(
        '<line class="ray {kind}" x1="{x1}" y1="{y1}" x2="{x2:.1f}" y2="{y2:.1f}" stroke-width="{width:.1f}"></line>'
    ).format(kind=kind, x1=WIDTH // 2, y1=HEIGHT // 2, x2=x, y2=y, width=width)


def _node(ray: Ray, x: float, y: float, radius: float) -> Markup:
    below = y >= HEIGHT / 2
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
        short=_short(ray.title),
    )


def _short(title: str) -> str:
    return title if len(title) <= LONGEST else f"{title[: LONGEST - 1].rstrip()}…"
