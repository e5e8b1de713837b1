"""The table, for people and for the documentation."""

from __future__ import annotations

import subprocess
from pathlib import Path

from faults.lanes import Run
from faults.trial import Outcome

PAGE = Path(__file__).parents[1] / "docs" / "faults.md"
HEAD = "| | fault | noticed after | what it said | recovered after | lost, doubled, stranded |"
LINE = "| --- | --- | --- | --- | --- | --- |"


def shown(run: Run) -> str:
    """The table as Markdown, and what is red below it."""
    red = [outcome for outcome in run.outcomes if not outcome.good]
    verdict = f"{len(run.outcomes)} faults, {len(red)} red, {run.seconds / 60:.0f} minutes"
    return "\n".join([HEAD, LINE, *map(_row, run.outcomes), "", verdict])


def _row(outcome: Outcome) -> str:
    fault = outcome.fault
    noticed = "not noticed" if outcome.noticed is None else _time(outcome.noticed)
    if fault.limit is None and outcome.noticed is None:
        noticed = "mended first"
    said = outcome.said.replace("|", "\\|").replace("\n", " ")
    recovered = "not within the limit" if outcome.recovered is None else _time(outcome.recovered)
    return f"| {fault.mark} | {fault.name} | {noticed} | {said} | {recovered} | {outcome.losses} |"


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.1f} min"


def save(run: Run) -> None:
    git = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603 - constant
    PAGE.write_text(f"# Faults\n\n{run.began:%Y-%m-%d}, {commit}\n\n{shown(run)}\n", encoding="utf-8")
