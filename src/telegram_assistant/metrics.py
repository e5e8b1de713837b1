"""Every metric we export, defined once (LESSONS 12). Call sites import the object, never the name."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

REGISTRY = CollectorRegistry(auto_describe=True)

TASK_UP = Gauge("supervised_task_up", "1 while a supervised task runs", ["task"], registry=REGISTRY)
TASK_RESTARTS = Counter("supervised_task_restarts_total", "Restarts of a supervised task", ["task"], registry=REGISTRY)
ENGINE_UP = Gauge("engine_up", "1 while an engine answers", ["engine"], registry=REGISTRY)
