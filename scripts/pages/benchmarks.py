"""The figures of `bench/results` for the page about them, and its pictures, which a site cannot take from elsewhere."""

from __future__ import annotations

import json
import re
from pathlib import Path

PAGE = "docs/benchmarks.md"
MARKED = re.compile(r"(<!-- figures: begin -->\n).*(<!-- figures: end -->)", re.DOTALL)


def contents(root: Path) -> dict[str, str]:
    """The page with today's figures in place of the former ones, and a copy of each picture."""
    results = root / "bench" / "results"
    page = (root / PAGE).read_text("utf-8")
    if not MARKED.search(page):
        raise ValueError(f"{PAGE} has no place for the figures: <!-- figures: begin --> and <!-- figures: end -->")
    table = figures(results)
    made = {PAGE: MARKED.sub(lambda found: found[1] + table + found[2], page)}
    pictures = sorted(results.glob("*.svg"))
    return made | {f"docs/images/bench/{path.name}": path.read_text("utf-8") for path in pictures}


def figures(results: Path) -> str:
    """One row for each figure."""
    lines = ["| Figure | Value | Beside | Ratio |", "| --- | ---: | ---: | ---: |"]
    for path in sorted(results.glob("*.json")):
        row = json.loads(path.read_text("utf-8"))
        name, unit = row["name"].replace("_", " "), row["unit"]
        lines.append(f"| {name} | {number(row['value'])} {unit} | {number(row['limit'])} | {row['ratio']:.2f} |")
    return "\n".join(lines) + "\n"


def number(value: float) -> str:
    """Three digits that count, and thousands apart."""
    digits = 0 if abs(value) >= 100 else 2 if abs(value) >= 1 else 3
    return f"{value:,.{digits}f}"
