"""A dashboard as we write it down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


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
