"""Writes everything that is made from code; a test compares the two."""

from __future__ import annotations

from monitoring.generate.dashboards import DASHBOARDS
from monitoring.generate.metrics_page import page
from monitoring.generate.panels import as_json
from monitoring.generate.rules import grafana_rules, prometheus_rules
from scripts.generated import write_files


def contents() -> dict[str, str]:
    """By path from the root of the repository."""
    made = {f"monitoring/grafana/dashboards/{one.uid}.json": as_json(one) for one in DASHBOARDS}
    return made | {
        "monitoring/prometheus/rules.yml": prometheus_rules(),
        "monitoring/grafana/provisioning/alerting/rules.yaml": grafana_rules(),
        "docs/reference/metrics.md": page(),
    }


if __name__ == "__main__":
    write_files(contents())
