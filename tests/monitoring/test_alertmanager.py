"""Alertmanager's configuration: valid, without secrets of its own, and what it sends to Slack and PagerDuty."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from monitoring.generate.alerts import ALERTS, Alert
from tests.monitoring.conftest import ROOT

pytestmark = pytest.mark.integration

CONFIG = ROOT / "monitoring" / "alertmanager" / "alertmanager.yml"


def amtool(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False, timeout=300)


def config() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(CONFIG.read_text("utf-8"))
    return loaded


def test_the_configuration_is_valid(tool: Callable[[str], str]) -> None:
    done = amtool(tool("amtool"), "check-config", str(CONFIG))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 receivers" in done.stdout


@pytest.mark.parametrize("severity, receivers", [("page", "pagerduty,slack"), ("ticket", "slack")])
def test_who_hears_of_what(tool: Callable[[str], str], severity: str, receivers: str) -> None:
    done = amtool(tool("amtool"), "config", "routes", "test", f"--config.file={CONFIG}", f"severity={severity}")
    assert done.stdout.strip() == receivers, done.stderr


def test_every_severity_has_a_route() -> None:
    assert {alert.severity for alert in ALERTS} == {"page", "ticket"}


def test_secrets_are_files() -> None:
    text = CONFIG.read_text("utf-8")
    for inline in ("slack_api_url:", "api_url:", "routing_key:", "service_key:", "password:", "hooks.slack.com"):
        assert inline not in text
    assert "secrets/" in (ROOT / "monitoring" / ".gitignore").read_text("utf-8")


def test_only_alerts_that_exist_are_held_back() -> None:
    rules = config()["inhibit_rules"]
    named = [matcher for rule in rules for kind in ("source_matchers", "target_matchers") for matcher in rule[kind]]
    names = {name for matcher in named for name in matcher.partition('"')[2].rstrip('"').split("|")}
    assert names <= {alert.name for alert in ALERTS}


def told(program: str, folder: Path, template: str, *alerts: dict[str, Any]) -> str:
    """A text of our configuration as Alertmanager makes it for these alerts."""
    data = {
        "receiver": "any",
        "status": "firing",
        "alerts": list(alerts),
        "groupLabels": {},
        "commonLabels": {"alertname": alerts[0]["labels"]["alertname"]},
        "commonAnnotations": {},
        "externalURL": "",
    }
    (folder / "data.json").write_text(json.dumps(data), encoding="utf-8")
    (folder / "none.tmpl").write_text("")
    files = (f"--template.glob={folder / 'none.tmpl'}", f"--template.data={folder / 'data.json'}")
    done = amtool(program, "template", "render", f"--template.text={template}", *files)
    assert done.returncode == 0, done.stderr
    return done.stdout


def firing(alert: Alert, summary: str) -> dict[str, Any]:
    annotations = {"summary": summary, "runbook_url": alert.runbook, "dashboard": f"{alert.dashboard}/{alert.panel}"}
    labels = {"alertname": alert.name, "severity": alert.severity}
    return {"status": "firing", "labels": labels, "annotations": annotations, "startsAt": "2026-01-01T00:00:00Z"}


def test_slack_is_told_of_each_alert_with_its_runbook(tool: Callable[[str], str], tmp_path: Path) -> None:
    """Several alerts of one name have summaries of their own."""
    (slack,) = config()["receivers"][0]["slack_configs"]
    alerts = [firing(ALERTS[0], "one"), firing(ALERTS[0], "two")]
    assert f"{ALERTS[0].name} (2)" in told(tool("amtool"), tmp_path, slack["title"], *alerts)
    text = told(tool("amtool"), tmp_path, slack["text"], *alerts)
    assert [line for line in text.splitlines() if line in {"one", "two"}] == ["one", "two"]
    assert text.count(ALERTS[0].runbook) == 2


def test_pagerduty_is_told_what_it_is_and_where_to_look(tool: Callable[[str], str], tmp_path: Path) -> None:
    (pagerduty,) = config()["receivers"][1]["pagerduty_configs"]
    alerts = [firing(ALERTS[0], "one"), firing(ALERTS[0], "two")]
    assert told(tool("amtool"), tmp_path, pagerduty["description"], *alerts).strip() == f"{ALERTS[0].name}: one"
    details = {name: told(tool("amtool"), tmp_path, text, *alerts) for name, text in pagerduty["details"].items()}
    assert details["runbook"].strip() == ALERTS[0].runbook
    assert details["dashboard"].strip() == f"{ALERTS[0].dashboard}/{ALERTS[0].panel}"
