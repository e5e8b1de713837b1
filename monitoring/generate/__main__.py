"""Writes everything that is made from code; a test compares the two."""

from __future__ import annotations

import sys
from pathlib import Path

from monitoring.generate.dashboards import DASHBOARDS
from monitoring.generate.metrics_page import page
from monitoring.generate.panels import as_json
from monitoring.generate.rules import grafana_rules, prometheus_rules

ROOT = Path(__file__).parents[2]


def contents() -> dict[str, str]:
    """By path from the root of the repository."""
    made = {f"monitoring/grafana/dashboards/{one.uid}.json": as_json(one) for one in DASHBOARDS}
    return made | {
        "monitoring/prometheus/rules.yml": prometheus_rules(),
        "monitoring/grafana/provisioning/alerting/rules.yaml": grafana_rules(),
        "docs/reference/metrics.md": page(),
    }


def main() -> None:
    for name, content in contents().items():
        path = ROOT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
        sys.stdout.write(f"{name}\n")


if __name__ == "__main__":
    main()
