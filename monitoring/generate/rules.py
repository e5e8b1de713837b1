"""The alerts as Prometheus and as Grafana read them."""

from __future__ import annotations

import json
from typing import Any

import yaml
from grafana_foundation_sdk.builders import alerting, expr, prometheus
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.alerting import RelativeTimeRange, Rule

from monitoring.generate.alerts import GROUPS, Alert
from monitoring.generate.dashboards import DASHBOARDS
from monitoring.generate.panels import DATASOURCE

HEADER = "# Written by scripts/metrics from monitoring/generate/alerts.py; change that instead.\n"
FOLDER = "Telegram Assistant"
EXPRESSION = "__expr__"  # Grafana's name for what it computes itself
TEN_MINUTES = 600


def prometheus_rules() -> str:
    groups = [{"name": name, "rules": [_prometheus_rule(alert) for alert in alerts]} for name, alerts in GROUPS.items()]
    return HEADER + _as_yaml({"groups": groups})


def grafana_rules() -> str:
    groups = [
        {
            "orgId": 1,
            "name": name,
            "folder": FOLDER,
            "interval": "1m",
            "rules": [_grafana_rule(alert) for alert in alerts],
        }
        for name, alerts in GROUPS.items()
    ]
    return HEADER + _as_yaml({"apiVersion": 1, "groups": groups})


def _as_yaml(content: dict[str, Any]) -> str:
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120)


def _prometheus_rule(alert: Alert) -> dict[str, Any]:
    return {
        "alert": alert.name,
        "expr": alert.expr,
        **({} if alert.lasts == "0s" else {"for": alert.lasts}),
        "labels": {"severity": alert.severity},
        "annotations": {
            "summary": alert.summary,
            "runbook_url": alert.runbook,
            "dashboard": f"{alert.dashboard}/{alert.panel}",
        },
    }


def _grafana_rule(alert: Alert) -> dict[str, Any]:
    """As Grafana itself takes over a rule of Prometheus: it fires when the expression gives anything, even a zero."""
    (shown,) = [one for one in DASHBOARDS if one.uid == alert.dashboard]
    window = RelativeTimeRange(from_val=TEN_MINUTES, to=0)
    anything = "is_number($A) || is_nan($A) || is_inf($A)"
    rule = (
        alerting.Rule(alert.name)
        .uid(f"tga-{alert.name.lower()}")
        .condition("C")
        .for_val(alert.lasts)
        .no_data_state("OK")
        .exec_err_state("Error")
        .labels({"severity": alert.severity})
        .annotations({"summary": alert.summary, "runbook_url": alert.runbook})
        .with_query(
            alerting.Query("A")
            .datasource_uid(DATASOURCE)
            .relative_time_range(window)
            .model(prometheus.Dataquery().expr(alert.expr).instant().ref_id("A"))
        )
        .with_query(
            alerting.Query("B")
            .datasource_uid(EXPRESSION)
            .relative_time_range(window)
            .model(expr.TypeMath().expression(anything).ref_id("B"))
        )
        .with_query(alerting.Query("C").datasource_uid(EXPRESSION).relative_time_range(window).model(_above_zero()))
        .build()
    )
    return _provisioned(rule) | {"dashboardUid": shown.uid, "panelId": shown.panel_id(alert.panel)}


def _above_zero() -> expr.TypeThreshold:
    evaluator = expr.ExprTypeThresholdConditionsEvaluator().type("gt").params([0])
    condition = expr.ExprTypeThresholdConditions().evaluator(evaluator)
    return expr.TypeThreshold().expression("B").conditions([condition]).ref_id("C")


def _provisioned(rule: Rule) -> dict[str, Any]:
    """The fields that a file of Grafana's provisioning has; the rest belongs to its API."""
    fields: dict[str, Any] = json.loads(json.dumps(rule, cls=JSONEncoder))
    api_only = ("folderUID", "orgID", "ruleGroup", "orgId", "folderUid")
    return {name: value for name, value in fields.items() if name not in api_only}
