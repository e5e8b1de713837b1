"""Dashboards as Grafana's own library builds them: classic JSON, which every Grafana loads."""

from __future__ import annotations

import json
import warnings
from typing import Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import (
    DataSourceRef,
    GraphThresholdsStyleMode,
    LegendPlacement,
    SortOrder,
    TooltipDisplayMode,
)

from monitoring.generate.described import Dashboard, Panel

with warnings.catch_warnings():
    # The library recommends its second format, which Grafana loads from version 12 on only.
    warnings.simplefilter("ignore", DeprecationWarning)
    from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, timeseries
    from grafana_foundation_sdk.models.dashboard import Dashboard as DashboardModel
    from grafana_foundation_sdk.models.dashboard import DashboardLinkType, Threshold, ThresholdsMode

DATASOURCE = "prometheus"  # its uid in provisioning/datasources
TAG = "telegram-assistant"
HEIGHT = 8


def build(described: Dashboard) -> DashboardModel:
    builder = (
        dashboard.Dashboard(described.title)
        .uid(described.uid)
        .description(described.says)
        .tags([TAG])
        .readonly()
        .timezone("browser")
        .refresh("30s")
        .time(described.since, "now")
        .link(
            dashboard.DashboardLink("Telegram Assistant")
            .type(DashboardLinkType.DASHBOARDS)
            .tags([TAG])
            .as_dropdown(True)
            .keep_time(True)
        )
    )
    for number, panel in enumerate(described.panels, 1):
        builder = builder.with_panel(_panel(panel, number))
    return builder.build()


def as_json(described: Dashboard) -> str:
    return _written(build(described))


def rewritten(text: str) -> str:
    """Through the library's own model and back: what it does not understand is lost."""
    return _written(DashboardModel.from_json(json.loads(text)))


def _written(model: DashboardModel) -> str:
    return json.dumps(model, cls=JSONEncoder, indent=2, ensure_ascii=False) + "\n"


def _panel(panel: Panel, number: int) -> Any:
    """Both kinds have these methods, but no common type."""
    shown: Any
    if panel.kind == "stat":
        shown = stat.Panel().reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
    else:
        legend = common.VizLegendOptions().show_legend(True).placement(LegendPlacement.BOTTOM)
        tooltip = common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI).sort(SortOrder.DESCENDING)
        shown = timeseries.Panel().fill_opacity(8).line_width(1.5).legend(legend).tooltip(tooltip)
        if panel.limits:
            style = common.GraphThresholdsStyleConfig().mode(GraphThresholdsStyleMode.DASHED)
            shown = shown.thresholds_style(style)
    shown = (
        shown.id(number)
        .title(panel.title)
        .description(panel.says)
        .datasource(DataSourceRef(type_val="prometheus", uid=DATASOURCE))
        .unit(panel.unit)
        .min(0)
        .span(panel.width)
        .height(HEIGHT)
        .thresholds(_thresholds(panel.limits))
    )
    for letter, query in zip("ABCDEFG", panel.queries, strict=False):
        target = prometheus.Dataquery().expr(query.expr).legend_format(query.legend).ref_id(letter)
        shown = shown.with_target(target.instant() if panel.kind == "stat" else target.range())
    return shown


def _thresholds(limits: tuple[float, ...]) -> dashboard.ThresholdsConfig:
    colours = ["orange"] * (len(limits) - 1) + ["red"]
    steps = [Threshold(value=None, color="green")]
    steps += [Threshold(value=value, color=colour) for value, colour in zip(limits, colours, strict=False)]
    return dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps)
