"""The real Prometheus beside a live `tga up`: no panel is empty, no metric unknown, and no alert fires."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from monitoring.generate.dashboards import DASHBOARDS
from monitoring.generate.metrics_page import described_metrics
from tests.e2e.conftest import Starter
from tests.monitoring.conftest import CONFIG, prometheus

pytestmark = pytest.mark.e2e

WITHIN = 600.0  # seconds for every panel to have data


class Prometheus:
    """Asked as Grafana asks it."""

    def __init__(self, client: httpx.AsyncClient, url: str) -> None:
        self._client = client
        self._url = url

    async def ask(self, path: str, **query: str) -> Any:
        answer = (await self._client.get(f"{self._url}/api/v1/{path}", params=query)).json()
        assert answer["status"] == "success", answer
        return answer["data"]

    async def has_data(self, expr: str) -> bool:
        """A number, of any series."""
        found = (await self.ask("query", query=expr))["result"]
        return any(not math.isnan(float(one["value"][1])) for one in found)

    async def missing(self, exprs: dict[str, str]) -> dict[str, str]:
        return {name: expr for name, expr in exprs.items() if not await self.has_data(expr)}


async def test_no_panel_is_empty_and_no_metric_unknown(start: Starter, place: Path, tool: Callable[[str], str]) -> None:
    program = tool("prometheus")
    # Quicker than by default, so that little time is enough for all of it to happen.
    started = await start(PARSER_SCHEDULER_INTERVAL_SEC="5", AUDIT_INTERVAL_HOURS="0.002", CRAWL_PAUSE_SEC="0.1")
    tga = await started.ready()
    panels = {
        f"{board.uid}/{panel.title}/{number}": query.expr
        for board in DASHBOARDS
        for panel in board.panels
        for number, query in enumerate(panel.queries)
    }
    loop = asyncio.get_running_loop()
    rules = (CONFIG / "rules.yml").read_text("utf-8")
    async with (
        prometheus(program, place / "prometheus", tga.url.removeprefix("http://"), rules=rules) as url,
        httpx.AsyncClient(trust_env=False, timeout=120) as client,
    ):
        server = Prometheus(client, url)
        deadline = loop.time() + WITHIN
        while panels and loop.time() < deadline:
            panels = await server.missing(panels)
            await asyncio.sleep(0.5)
        assert panels == {}
        known = await server.ask("metadata")
        described = {one.name for one in described_metrics()}
        assert described - set(known) == set()
        alerts = (await server.ask("rules"))["groups"]
        assert [rule["name"] for group in alerts for rule in group["rules"] if rule["health"] != "ok"] == []
        assert [alert["labels"] for alert in (await server.ask("alerts"))["alerts"] if alert["state"] == "firing"] == []
    assert (await tga.stop()).code == 0
