"""The dashboards: made by the code that is kept, loaded without loss, and asking for nothing that nobody exports."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import promql_parser
import pytest
import yaml

from monitoring.generate.__main__ import contents
from monitoring.generate.alerts import ALERTS, PARSING
from monitoring.generate.dashboards import DASHBOARDS, INCREMENTAL_PARSING
from monitoring.generate.metrics_page import described_metrics
from monitoring.generate.panels import DATASOURCE, rewritten
from telegram_assistant.metrics import PROCESS
from telegram_assistant.stages import STAGES
from tests.monitoring.conftest import ROOT

pytestmark = pytest.mark.unit

GRAFANA = ROOT / "monitoring" / "grafana"
EXPRESSIONS = {
    f"{board.uid}/{panel.title}/{number}": query.expr
    for board in DASHBOARDS
    for panel in board.panels
    for number, query in enumerate(panel.queries)
} | {alert.name: alert.expr for alert in ALERTS}


def exported() -> dict[str, set[str]]:
    """Names as Prometheus knows them, with their labels."""
    names: dict[str, set[str]] = {"up": {"job", "instance"}}
    for one in described_metrics():
        parts = ("_bucket", "_sum", "_count") if one.kind == "histogram" else ("",)
        for part in parts:
            names[one.name + part] = set(one.labels) | ({"le"} if part == "_bucket" else set())
    for family in PROCESS.collect():
        names[f"{family.name}_total" if family.type == "counter" else family.name] = set()
    return names


def selectors(node: Any) -> Iterator[promql_parser.VectorSelector]:
    if isinstance(node, promql_parser.VectorSelector):
        yield node
    for field in ("expr", "lhs", "rhs", "param", "vector_selector", "args"):
        found = getattr(node, field, None)
        for one in found if isinstance(found, list) else [found]:
            if one is not None:
                yield from selectors(one)


@pytest.mark.parametrize("path", contents())
def test_the_files_are_what_the_code_makes(path: str) -> None:
    assert (ROOT / path).read_text("utf-8") == contents()[path], "run scripts/metrics"


@pytest.mark.parametrize("path", sorted(GRAFANA.glob("dashboards/*.json")), ids=lambda path: path.name)
def test_they_load_through_the_library_without_loss(path: Any) -> None:
    stored = path.read_text("utf-8")
    assert json.loads(rewritten(stored)) == json.loads(stored)
    assert "nonsense" not in rewritten(json.dumps(json.loads(stored) | {"nonsense": 1})), "a loss would show"


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_every_expression_is_promql_about_metrics_that_exist(name: str) -> None:
    known = exported()
    found = list(selectors(promql_parser.parse(EXPRESSIONS[name])))
    assert found
    for selector in found:
        assert selector.name in known, f"{selector.name} is exported by nobody"
        labels = {matcher.name for matcher in selector.matchers.matchers} - {"__name__"}
        assert labels <= known[selector.name] | {"job", "instance"}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_every_label_that_is_grouped_by_exists(name: str) -> None:
    known = exported()
    labels = set().union(*(known[str(one.name)] for one in selectors(promql_parser.parse(EXPRESSIONS[name]))))
    grouped = {label.strip() for some in re.findall(r"by \(([^)]*)\)", EXPRESSIONS[name]) for label in some.split(",")}
    assert grouped <= labels


def test_every_metric_is_on_a_panel() -> None:
    """But the one that is a number of a message and no measure."""
    panels = [query.expr for board in DASHBOARDS for panel in board.panels for query in panel.queries]
    shown = {selector.name for expr in panels for selector in selectors(promql_parser.parse(expr))}
    names = {one.name: f"{one.name}_bucket" if one.kind == "histogram" else one.name for one in described_metrics()}
    assert {name for name, asked in names.items() if asked not in shown} == {"ledger_proven_up_to"}


def test_the_walk_finds_what_is_deep_inside() -> None:
    deep = promql_parser.parse("topk(3, max by (a) (-(rate(one[5m]) / on () (two > 0)))) or vector(0) unless three")
    assert {one.name for one in selectors(deep)} == {"one", "two", "three"}


def test_incremental_parsing_has_the_six_panels_of_the_contract() -> None:
    """SPEC 6.3."""
    stored = json.loads((GRAFANA / "dashboards" / "incremental-parsing.json").read_text("utf-8"))
    assert [panel["title"] for panel in stored["panels"]] == [
        "Parsing rate",
        "Parsing latency p95",
        "Empty ticks",
        "Max HWM age",
        "Forced historical",
        "Scheduler freshness",
    ]
    asked = [panel["targets"][0]["expr"] for panel in stored["panels"]]
    assert asked[0] == "sum by (mode) (rate(posts_parsed_total[5m]))"
    assert "0.95" in asked[1]
    assert "parsing_duration_seconds_bucket" in asked[1]
    assert 'status="empty"' in asked[2]
    assert asked[3] == "max(parser_hwm_age_seconds)"
    assert "parser_mode_forced_total[24h]" in asked[4]
    assert asked[5] == "abs(time() - max(scheduler_last_tick_ts_seconds))", "a tick in the future is not fresh"


def test_incremental_parsing_has_the_three_alerts_of_the_contract() -> None:
    """SPEC 6.3, each on the panel that shows it."""
    limits = {alert.panel: alert.expr.rpartition(" > ")[2] for alert in PARSING}
    assert limits == {
        "Max HWM age": "86400",
        "Scheduler freshness": "2 * max(scheduler_interval_seconds)",
        "Parsing latency p95": "60",
    }
    assert {alert.dashboard for alert in PARSING} == {INCREMENTAL_PARSING.uid}
    shown = {query.expr for panel in INCREMENTAL_PARSING.panels for query in panel.queries}
    assert {alert.expr.partition(" > ")[0] for alert in PARSING} <= shown


@pytest.mark.parametrize("board", DASHBOARDS, ids=lambda board: board.uid)
def test_panels_are_told_apart_and_fill_their_rows(board: Any) -> None:
    stored = json.loads((GRAFANA / "dashboards" / f"{board.uid}.json").read_text("utf-8"))
    panels = stored["panels"]
    assert [panel["id"] for panel in panels] == list(range(1, len(panels) + 1))
    assert len({panel["title"] for panel in panels}) == len(panels)
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(places)) == len(panels)
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)
    assert all(panel["description"] for panel in panels)


def test_every_stage_has_a_place_and_an_alert() -> None:
    """SPEC 4.11: they are told apart by their label, so a new stage is on the dashboard at once."""
    assert len(STAGES) >= 9
    by_stage = [name for name, expr in EXPRESSIONS.items() if re.search(r"by \(stage\b", expr)]
    assert {"StageLate", "StageFailing", "DeadLetters"} <= set(by_stage)
    assert len([name for name in by_stage if name.startswith("pipeline/")]) >= 5


def test_grafanas_provisioning_names_what_is_there() -> None:
    folder = GRAFANA / "provisioning"
    (source,) = yaml.safe_load((folder / "datasources" / "prometheus.yaml").read_text("utf-8"))["datasources"]
    assert (source["type"], source["uid"]) == ("prometheus", DATASOURCE)
    (provider,) = yaml.safe_load((folder / "dashboards" / "dashboards.yaml").read_text("utf-8"))["providers"]
    assert provider["type"] == "file"
    assert provider["folder"] == "Telegram Assistant"


def test_grafana_has_every_alert_on_its_panel() -> None:
    stored = yaml.safe_load((GRAFANA / "provisioning" / "alerting" / "rules.yaml").read_text("utf-8"))
    rules = {rule["title"]: rule for group in stored["groups"] for rule in group["rules"]}
    assert set(rules) == {alert.name for alert in ALERTS}
    assert len({rule["uid"] for rule in rules.values()}) == len(rules)
    boards = {board.uid: board for board in DASHBOARDS}
    for alert in ALERTS:
        rule = rules[alert.name]
        assert rule["data"][0]["model"]["expr"] == alert.expr
        assert rule["condition"] == rule["data"][-1]["refId"]
        assert boards[rule["dashboardUid"]].panels[rule["panelId"] - 1].title == alert.panel
