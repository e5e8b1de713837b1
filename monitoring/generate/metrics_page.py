"""The page about metrics, read from the source of the module that defines them."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.core import Metric

from telegram_assistant import metrics

KINDS = {
    "_counter": "counter",
    "_gauge": "gauge",
    "_histogram": "histogram",
    "_channel_counter": "counter",
    "_channel_gauge": "gauge",
    "_channel_histogram": "histogram",
}
BOUNDS = {
    "ability": "what a model is asked for: `tag`, `describe`, `embed`, `answer`",
    "account": "your Telegram accounts",
    "channel_id": "your channels; one value `all` when there are more than `METRICS_MAX_CHANNELS`",
    "direction": "`in`, `out`",
    "engine": "the engines in use",
    "group": "the stages",
    "kind": "a few words, written down in the source",
    "level": "`degraded`, `failing`",
    "method": "the methods of Telegram that are used, about 25",
    "mode": "`historical`, `incremental`",
    "of": "`database`, `telegram`",
    "outcome": "a few words, written down in the source",
    "part": "accounts, their methods and listeners, stages, indexes: a few tens",
    "periodic_job": "the jobs of the `api` role",
    "provider": "`local`, `gigachat`, `openai`",
    "reason": "a few words, written down in the source",
    "stage": "the stages",
    "status": "a few words, written down in the source",
    "stream": "the streams",
    "success": "`true`, `false`",
    "task": "the supervised tasks of a process",
    "tenant": "your tenants; those whose pictures this process looked at",
    "worker": "the kinds of worker processes",
}
TOGETHER = {"max": "the highest", "min": "the lowest", "sum": "the sum"}
INTRODUCTION = """\
# Metrics

<!-- Written by scripts/metrics from src/telegram_assistant/metrics.py; a test compares the two. -->

Every role answers on `/metrics`: `tga up` and `tga ingest` on port 8011 (`INGEST_HEALTH_PORT`), `tga worker` on 8013
(`WORKER_HEALTH_PORT`), `tga bot` on 8015 (`BOT_HEALTH_PORT`), `tga api` on 8000 (`API_PORT`; from other machines with
an admin's key as bearer token).
A process shows every metric, also of roles that it does not have: sum counters over processes, and take the maximum of
gauges, as the dashboards in `monitoring/grafana/dashboards` do.

With more than `METRICS_MAX_CHANNELS` channels (500) no channel has series of its own: metrics with the label
`channel_id` then have one value for all, with `channel_id="all"`, made as the column "all" says.

Logs and metrics meet in the `trace_id`: every event carries one, lines about an event name it, and
`tga trace` follows it. With `OTEL_EXPORTER_OTLP_ENDPOINT` and the extra `otel` the same ids are those of traces, from
the parse to the indexes.
"""


@dataclass(frozen=True)
class Described:
    """A metric as the source defines it."""

    name: str
    kind: str
    labels: tuple[str, ...]
    says: str
    together: str  # of many channels
    section: str


def described_metrics() -> list[Described]:
    source = Path(metrics.__file__).read_text(encoding="utf-8")
    lines = source.splitlines()
    found = []
    for node in ast.parse(source).body:
        match node:
            case ast.Assign(value=ast.Call(func=ast.Name(id=kind)) as call) if kind in KINDS:
                found.append(_described(kind, call, _section(lines, node.lineno)))
    return found


def page() -> str:
    found = described_metrics()
    parts = [INTRODUCTION]
    for section in dict.fromkeys(metric.section for metric in found):
        parts.append(f"## {section}\n\n| name | kind | labels | what it says | all |\n| --- | --- | --- | --- | --- |")
        parts[-1] += "".join(f"\n{_row(metric)}" for metric in found if metric.section == section) + "\n"
    own = "".join(f"| `{_exported(one)}` | {one.type} | {one.documentation} |\n" for one in metrics.PROCESS.collect())
    parts.append(
        f"## Memory, time and files of the process\n\n| name | kind | what it says |\n| --- | --- | --- |\n{own}"
    )
    bounds = "".join(f"| `{label}` | {BOUNDS[label]} |\n" for label in sorted(BOUNDS))
    parts.append(f"## What bounds the labels\n\n| label | values |\n| --- | --- |\n{bounds}")
    return "\n".join(parts)


def _described(kind: str, call: ast.Call, section: str) -> Described:
    name, says, *others = call.args
    labels: tuple[str, ...] = ()
    together = ""
    if kind.startswith("_channel"):
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        labels = ("channel_id", *([str(ast.literal_eval(given["label"]))] if "label" in given else []))
        together = TOGETHER[ast.unparse(given["combine"]) if "combine" in given else "sum"]
    elif others:
        labels = tuple(ast.literal_eval(others[0]))
    return Described(ast.literal_eval(name), KINDS[kind], labels, ast.literal_eval(says), together, section)


def _section(lines: list[str], line: int) -> str:
    """The comment above it, without the place in our contract that it names."""
    return next(
        text.removeprefix("# ").partition(" (")[0].partition(";")[0]
        for text in reversed(lines[: line - 1])
        if text.startswith("# ")
    )


def _exported(metric: Metric) -> str:
    return f"{metric.name}_total" if metric.type == "counter" else metric.name


def _row(metric: Described) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"| `{metric.name}` | {metric.kind} | {labels} | {metric.says} | {metric.together} |"
