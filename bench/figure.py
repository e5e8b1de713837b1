"""One measured figure, beside the limit that was measured in the same run."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

RESULTS = Path(__file__).parent / "results"


class Row(TypedDict):
    """A figure as it is written to a file."""

    name: str
    value: float
    unit: str
    limit: float
    ratio: float
    machine: str


@dataclass(slots=True, frozen=True)
class Figure:
    """A value, its unit, and the best that could be reached on this machine at this moment."""

    name: str
    value: float
    unit: str
    limit: float

    @property
    def ratio(self) -> float:
        return self.value / self.limit

    def row(self) -> Row:
        return Row(
            name=self.name,
            value=round(self.value, 4),
            unit=self.unit,
            limit=round(self.limit, 4),
            ratio=round(self.ratio, 4),
            machine=machine(),
        )

    def save(self, folder: Path = RESULTS) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.name}.json"
        path.write_text(json.dumps(self.row(), indent=2) + "\n")
        return path


def machine() -> str:
    """A short description of where the figures were taken."""
    model = platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    except OSError:  # not Linux: the architecture must do
        pass
    return f"{model}, {os.cpu_count()} cores, Python {platform.python_version()}"
