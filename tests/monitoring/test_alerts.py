"""Every alert as Prometheus evaluates it: it fires when it should, is silent when it should be, and leads to a page."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from monitoring.generate.alerts import ALERTS, RUNBOOKS, Alert
from tests.monitoring.alert_cases import CASES, Case
from tests.monitoring.conftest import ROOT

pytestmark = pytest.mark.integration

RULES = ROOT / "monitoring" / "prometheus" / "rules.yml"
BY_NAME = {alert.name: alert for alert in ALERTS}


def promtool(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False, timeout=300)


def expected(alert: Alert, labels: dict[str, str]) -> dict[str, Any]:
    summary = re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda found: labels[found[1]], alert.summary)
    annotations = {"summary": summary, "runbook_url": alert.runbook, "dashboard": f"{alert.dashboard}/{alert.panel}"}
    return {"exp_labels": {**labels, "severity": alert.severity}, "exp_annotations": annotations}


def unit_test(alert: Alert, case: Case, series: dict[str, str], *, fires: bool) -> dict[str, Any]:
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": [
            {
                "eval_time": case.at,
                "alertname": alert.name,
                "exp_alerts": [expected(alert, case.labels)] if fires else [],
            }
        ],
    }


def run(program: str, path: Path, tests: list[dict[str, Any]]) -> subprocess.CompletedProcess[str]:
    file = path / "tests.json"  # which is YAML too
    file.write_text(json.dumps({"rule_files": [str(RULES)], "tests": tests}), encoding="utf-8")
    return promtool(program, "test", "rules", str(file))


def test_every_alert_has_both_cases() -> None:
    assert set(CASES) == set(BY_NAME)
    assert [name for name, case in CASES.items() if not case.fires or not case.silent] == []


@pytest.mark.parametrize("name", BY_NAME)
def test_it_fires_when_it_should(tool: Callable[[str], str], tmp_path: Path, name: str) -> None:
    alert, case = BY_NAME[name], CASES[name]
    done = run(tool("promtool"), tmp_path, [unit_test(alert, case, case.fires, fires=True)])
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", BY_NAME)
def test_it_is_silent_when_it_should_be(tool: Callable[[str], str], tmp_path: Path, name: str) -> None:
    alert, case = BY_NAME[name], CASES[name]
    done = run(tool("promtool"), tmp_path, [unit_test(alert, case, series, fires=False) for series in case.silent])
    assert done.returncode == 0, done.stdout + done.stderr


def test_n2_a_tick_in_the_future_is_a_stale_scheduler(tool: Callable[[str], str], tmp_path: Path) -> None:
    alert, case = BY_NAME["SchedulerStale"], CASES["SchedulerStale"]
    tomorrow = {"scheduler_last_tick_ts_seconds": "86400x20", "scheduler_interval_seconds": "300x20"}
    done = run(tool("promtool"), tmp_path, [unit_test(alert, case, tomorrow, fires=True)])
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_wrong_expectation_is_noticed(tool: Callable[[str], str], tmp_path: Path) -> None:
    alert, case = BY_NAME["SchedulerStale"], CASES["SchedulerStale"]
    for wrong in (
        unit_test(alert, case, case.fires, fires=False),
        unit_test(alert, case, case.silent[0], fires=True),
    ):
        assert run(tool("promtool"), tmp_path, [wrong]).returncode == 1


def test_the_rules_are_well_formed(tool: Callable[[str], str]) -> None:
    done = promtool(tool("promtool"), "check", "rules", "--lint=all", "--lint-fatal", str(RULES))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(ALERTS)} rules found" in done.stdout


@pytest.mark.parametrize("name", ["prometheus.yml", "one-machine.yml"])
def test_the_configuration_is_valid(tool: Callable[[str], str], tmp_path: Path, name: str) -> None:
    for file in RULES.parent.glob("*.yml"):
        (tmp_path / file.name).write_text(file.read_text("utf-8"), encoding="utf-8")
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "api_key").write_text("made up")
    done = promtool(tool("promtool"), "check", "config", str(tmp_path / name))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_its_runbook_says_what_to_do(alert: Alert) -> None:
    assert alert.runbook.startswith(f"{RUNBOOKS}#")
    sections = re.split(r"^## ", (ROOT / RUNBOOKS).read_text("utf-8"), flags=re.MULTILINE)
    (section,) = [text for text in sections if text.partition("\n")[0].strip() == alert.name]
    for part in ("**What it means.**", "**How to see it.**", "**What to do.**"):
        assert part in section
    assert alert.dashboard in section


def test_no_runbook_is_about_an_alert_that_is_gone() -> None:
    titles = re.findall(r"^## (.+)$", (ROOT / RUNBOOKS).read_text("utf-8"), flags=re.MULTILINE)
    assert sorted(titles) == sorted(BY_NAME)
