"""The table: on the screen, as JSON beside this file, and as a page of the documentation.

A run of some faults renews their lines and leaves the others: every line bears the day and the commit of its run.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from faults.catalogue import ALL
from faults.lanes import Run
from faults.trial import LIMITS, Outcome, Scope

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "faults" / "results.json", ROOT / "docs" / "faults.md"
COLUMNS = ("mark", "fault", "noticed after", "what it said", "recovered after", "lost, doubled, stranded")
LONGEST_SAID = 260
SCOPES = {
    Scope.SYSTEM: "Everything",
    Scope.ACCOUNT: "One account",
    Scope.STAGE: "One stage",
    Scope.INDEX: "One index",
    Scope.CHANNEL: "One channel",
    Scope.NOTHING: "Mended without a person",
    Scope.QUIET: "No fault at all",
}
INTRODUCTION = """\
# Faults

What happens when something breaks: `make faults` starts installations of {channels} channels with real processes, a
real PostgreSQL and Valkey and a [simulated Telegram](simulator.md) that goes on posting, puts one fault after the other
into them at default settings, and looks at the health pages every second.

- **Noticed after**: from the fault to the first sentence on a health page that names it. Limits: {limits}.
- **Recovered after**: from the end of the fault until no health page complains, and every post of the whole run is
  captured, tagged and indexed, and new ones come in. *mended first* means that there was nothing to tell a person.
- **Lost, doubled, stranded**: posts that are in Telegram and not stored as they are there; that are there twice, in
  the tables or in an index; that are stored and some stage or index never finished with. Must be 0.

{verdict}

A few quick faults are a test of `make test`. `make faults ARGS="-k N1"` tries some, `ARGS="--channels 2000 -k N1"` in
a larger world, `ARGS=--write` renews their lines here. `ARGS="--hurry 20 --posts 0.05 -k day"` lives an ordinary day
within 75 minutes, under a clock that runs faster. Limits on how quick the machine itself must be are stretched by as
much; without that, a run at 16 times the pace had three alarms within its first hour ("no report within 2 s"). With it,
no health page said a word in 1,456 minutes on 2026-11-16 and in 1,476 on 2026-11-18, and nothing was lost, doubled or
stranded. The marks are those of the issue that asked for this page.
"""


def shown(run: Run) -> str:
    """The table as Markdown."""
    red = [outcome for outcome in run.outcomes if not outcome.good]
    rows = [_cells(_kept(outcome, "")) for outcome in run.outcomes]
    verdict = f"{len(run.outcomes)} faults, {len(red)} red, {run.seconds / 60:.0f} minutes"
    left = f"vectors and nodes lost, doubled, stranded at the end: {run.indexes}"
    return "\n".join([*_table(rows), "", *run.failures, left, verdict])


def _table(rows: Iterable[Sequence[str]], columns: Sequence[str] = COLUMNS) -> list[str]:
    lines = [columns, ["---"] * len(columns), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]


def _kept(outcome: Outcome, commit: str) -> dict[str, Any]:
    """What is remembered of it."""
    return {
        "mark": outcome.fault.mark,
        "name": outcome.fault.name,
        "scope": outcome.fault.scope.value,
        "noticed": outcome.noticed,
        "said": outcome.said,
        "recovered": outcome.recovered,
        "losses": str(outcome.losses),
        "limit": outcome.limit,
        "good": outcome.good,
        "why": outcome.why,
        "commit": commit,
        "load": round(os.getloadavg()[1], 1),
    }


def _cells(row: Mapping[str, Any]) -> list[str]:
    noticed = "**not noticed**" if row["noticed"] is None else _time(row["noticed"])
    if LIMITS[Scope(row["scope"])] is None:
        noticed = "mended first"
    said = " ".join(str(row["said"]).split()).replace("|", "\\|")
    if len(said) > LONGEST_SAID:
        cut = said[:LONGEST_SAID].rpartition(" ")[0]
        said = f"{cut.rpartition('`')[0] if cut.count('`') % 2 else cut} …"  # never in the midst of a command
    recovered = "**not in time**" if row["recovered"] is None else _time(row["recovered"])
    name = row["name"] if row["good"] else f"{row['name']} **(red: {row['why'][:200]})**".replace("|", "\\|")
    return [row["mark"], name, noticed, said, recovered, row["losses"]]


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.1f} min"


def save(run: Run) -> None:
    """Renew the lines of this run, and the page."""
    git = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603 - constant
    known: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    day, size = f"{run.began:%Y-%m-%d}", str(run.size.channels)
    lines = known.setdefault(size, {})
    for outcome in run.outcomes:
        lines[outcome.fault.name] = _kept(outcome, commit) | {"day": day}
    RESULTS.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(page(known), encoding="utf-8")


def page(known: Mapping[str, Mapping[str, Any]]) -> str:
    """All that is known, in the order of the catalogue."""
    usual = known.get("60", {})
    rows = [usual[fault.name] for fault in ALL if fault.name in usual]
    red = sum(not row["good"] for row in rows)
    runs = sorted({f"{row['day']} at {row['commit']}" for row in rows})
    fixed = {scope: limit for scope, limit in LIMITS.items() if limit and scope is not Scope.CHANNEL}
    limits = ", ".join(f"{SCOPES[scope].lower()} {limit:.0f} s" for scope, limit in fixed.items())
    limits += ", one channel twice the time within which it was to be read again"
    loads = [row["load"] for row in rows if "load" in row]
    busy = f"a machine with {os.cpu_count()} cores, shared with others"
    if len(loads) == len(rows) and rows:
        busy = f"a machine with {os.cpu_count()} cores and a load of {min(loads):.0f} to {max(loads):.0f}"
    verdict = f"**{len(rows)} faults, {len(rows) - red} as they must be, {red} red**"
    missing = len(ALL) - len(rows)
    verdict += f", {missing} not tried in these runs" if missing else ""
    verdict += f" ({', '.join(runs)}; {busy})."
    text = [INTRODUCTION.format(channels=60, limits=limits, verdict=verdict)]
    for scope, title in SCOPES.items():
        if some := [row for row in rows if row["scope"] == scope]:
            text += [f"## {title}", "", *_table(map(_cells, some)), ""]
    for size in sorted(set(known) - {"60"}, key=int):
        larger = known[size].values()
        text += [f"## With {int(size):,} channels", "", *_table(map(_cells, larger)), ""]
    return "\n".join(text).rstrip() + "\n"
