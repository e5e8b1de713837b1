"""A dashboard as we write it down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypedDict, Unpack


@dataclass(frozen=True)
class Query:
    """What is asked of Prometheus, and how a line is named."""

    expr: str
    legend: str


@dataclass(frozen=True, kw_only=True)
class Panel:
    """`limits` are drawn as lines: from such a value on it is orange, and from the last one on red."""

    title: str
    says: str
    queries: tuple[Query, ...]
    unit: str = "short"
    kind: Literal["timeseries", "stat"] = "timeseries"
    limits: tuple[float, ...] = ()
    width: int = 8


class Look(TypedDict, total=False):
    """What a panel need not say."""

    unit: str
    kind: Literal["timeseries", "stat"]
    limits: tuple[float, ...]


def panel(title: str, says: str, *queries: Query, **look: Unpack[Look]) -> Panel:
    return Panel(title=title, says=says, queries=queries, **look)


def by(labels: str, what: str, *, how: str = "sum", legend: str = "", or_zero: bool = False) -> Query:
    """A line for each value of these labels, which name it. `or_zero`: a line at zero where there is none."""
    named = " ".join(f"{{{{{label}}}}}" for label in labels.split(", "))
    return Query(f"{how} by ({labels}) ({what})" + (" or vector(0)" if or_zero else ""), legend or named)


@dataclass(frozen=True, kw_only=True)
class Dashboard:
    """Panels are numbered from 1 in their order."""

    uid: str
    title: str
    says: str
    panels: tuple[Panel, ...]
    since: str = "now-6h"

    def panel_id(self, title: str) -> int:
        return [panel.title for panel in self.panels].index(title) + 1
