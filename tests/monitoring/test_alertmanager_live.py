"""The real Alertmanager with our configuration: what Slack and PagerDuty get, of what, and that it is over."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from monitoring.generate.alerts import ALERTS, Alert
from tests.monitoring.conftest import CONFIG, ROOT, free_port, prometheus, running
from tests.monitoring.receiver import ROUTING_KEY, WEBHOOK, Receiver

pytestmark = pytest.mark.integration

BY_NAME = {alert.name: alert for alert in ALERTS}
SHARED = ROOT / ".venv" / "prometheus" / "usr" / "share" / "prometheus" / "alertmanager"
SOON = {"group_wait": "0s", "group_interval": "1s"}


class Alertmanager:
    """Told as Prometheus tells it."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def tell(self, *alerts: Alert, over: bool = False) -> None:
        now = datetime.now(UTC)
        told = [
            {
                "labels": {"alertname": alert.name, "severity": alert.severity},
                "annotations": {
                    "summary": alert.summary,
                    "runbook_url": alert.runbook,
                    "dashboard": f"{alert.dashboard}/{alert.panel}",
                },
                "startsAt": (now - timedelta(minutes=1)).isoformat(),
                "endsAt": (now if over else now + timedelta(minutes=5)).isoformat(),
            }
            for alert in alerts
        ]
        (await self._client.post("/api/v2/alerts", json=told)).raise_for_status()

    async def held_back(self) -> set[str]:
        known = (await self._client.get("/api/v2/alerts")).json()
        return {one["labels"]["alertname"] for one in known if one["status"]["inhibitedBy"]}


def configure(folder: Path, receiver: Receiver) -> None:
    """Our own configuration with the secrets that it names, only quicker, and with a PagerDuty of ours."""
    config: dict[str, Any] = yaml.safe_load((ROOT / "monitoring/alertmanager/alertmanager.yml").read_text("utf-8"))
    config["global"]["pagerduty_url"] = f"{receiver.url}/v2/enqueue"
    for route in (config["route"], *config["route"]["routes"]):
        route.update(SOON)
    (folder / "secrets").mkdir(parents=True)
    (folder / "alertmanager.yml").write_text(yaml.safe_dump(config, allow_unicode=True), encoding="utf-8")
    (folder / "secrets" / "slack_url").write_text(f"{receiver.url}{WEBHOOK}\n", encoding="ascii")
    (folder / "secrets" / "pagerduty_key").write_text(f"{ROUTING_KEY}\n", encoding="ascii")


@asynccontextmanager
async def alertmanager(program: str, folder: Path, receiver: Receiver) -> AsyncIterator[str]:
    """Where it listens. It is started in the folder of its configuration, as compose.yaml does."""
    configure(folder, receiver)
    if SHARED.is_dir():  # what scripts/prometheus fetched looks for its templates where it is started
        shutil.copytree(SHARED, folder, dirs_exist_ok=True)
    address = f"127.0.0.1:{free_port()}"
    command = (
        program,
        f"--config.file={folder / 'alertmanager.yml'}",
        f"--storage.path={folder / 'data'}",
        f"--web.listen-address={address}",
        "--cluster.listen-address=",
    )
    async with running(folder, f"http://{address}", *command):
        yield address


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver().serve() as serving:
        yield serving
        assert serving.refused == []


@pytest.fixture
async def address(tool: Callable[[str], str], tmp_path: Path, receiver: Receiver) -> AsyncIterator[str]:
    async with alertmanager(tool("prometheus-alertmanager"), tmp_path / "alertmanager", receiver) as found:
        yield found


@pytest.fixture
async def manager(address: str) -> AsyncIterator[Alertmanager]:
    async with httpx.AsyncClient(base_url=f"http://{address}", trust_env=False, timeout=300) as client:
        yield Alertmanager(client)


async def test_who_is_woken_learns_what_it_is_where_to_look_and_when_it_is_over(
    manager: Alertmanager, receiver: Receiver
) -> None:
    alert = BY_NAME["NoAccount"]
    await manager.tell(alert)
    await receiver.hears(lambda told: bool(told.slack and told.pagerduty))
    (message,) = receiver.in_slack(alert.name)
    assert message["title"] == "🔥 NoAccount (1)"
    assert alert.summary in message["text"]
    assert f"Runbook: {alert.runbook}" in message["text"]
    assert receiver.slack[0]["channel"] == "#telegram-assistant"
    (event,) = receiver.events("trigger")
    assert event["payload"]["summary"] == f"NoAccount: {alert.summary}"
    assert event["payload"]["severity"] == "critical"
    details = event["payload"]["custom_details"]
    assert (details["runbook"], details["dashboard"]) == (alert.runbook, f"{alert.dashboard}/{alert.panel}")

    await manager.tell(alert, over=True)
    await receiver.hears(lambda told: bool(told.in_slack("✅") and told.events("resolve")))
    (over,) = receiver.in_slack("✅")
    assert over["title"] == "✅ NoAccount (1)"
    (resolved,) = receiver.events("resolve")
    assert resolved["dedup_key"] == event["dedup_key"], "PagerDuty closes the incident that it opened"


async def test_a_ticket_wakes_nobody(manager: Alertmanager, receiver: Receiver) -> None:
    ticket, page = BY_NAME["DeadLetters"], BY_NAME["NoAccount"]
    await manager.tell(ticket)
    await receiver.hears(lambda told: bool(told.in_slack(ticket.name)))
    await manager.tell(page)  # the other comes through, so there was time for this one
    await receiver.hears(lambda told: bool(told.pagerduty))
    assert {event["payload"]["summary"] for event in receiver.pagerduty} == {f"NoAccount: {page.summary}"}


async def test_of_an_engine_that_is_down_one_alert_is_told(manager: Alertmanager, receiver: Receiver) -> None:
    cause, effect, other = BY_NAME["EngineDown"], BY_NAME["StageLate"], BY_NAME["DeadLetters"]
    await manager.tell(cause)
    await receiver.hears(lambda told: bool(told.in_slack(cause.name)))
    await manager.tell(effect, other)
    await receiver.hears(lambda told: bool(told.in_slack(other.name)))
    for _ in range(3000):
        if effect.name in await manager.held_back():  # it says so once it wanted to tell of it
            break
        await asyncio.sleep(0.1)
    assert effect.name in await manager.held_back()
    assert receiver.in_slack(effect.name) == []


async def test_from_a_roles_metric_to_a_persons_phone(
    address: str, receiver: Receiver, tool: Callable[[str], str], tmp_path: Path
) -> None:
    """Prometheus with our rules, which do not wait here, reads a role whose engine is away and comes back."""
    rules = re.sub(r"^    for: .*\n", "", (CONFIG / "rules.yml").read_text("utf-8"), flags=re.MULTILINE)
    receiver.metrics = 'engine_up{engine="redis"} 0\n'
    target = receiver.url.removeprefix("http://")
    places = {"rules": rules, "alertmanager": address}
    async with prometheus(tool("prometheus"), tmp_path / "prometheus", target, **places):
        await receiver.hears(lambda told: bool(told.in_slack("EngineDown") and _of(told, "trigger")))
        assert "redis does not answer" in receiver.in_slack("EngineDown")[0]["text"]
        assert _of(receiver, "trigger")[0]["payload"]["summary"] == "EngineDown: redis does not answer"
        receiver.metrics = 'engine_up{engine="redis"} 1\n'
        await receiver.hears(lambda told: bool(told.in_slack("✅ EngineDown") and _of(told, "resolve")))


def _of(receiver: Receiver, action: str) -> list[dict[str, Any]]:
    """A role without all its other metrics sets off other alerts too."""
    return [one for one in receiver.events(action) if "EngineDown" in one["dedup_key"] + str(one)]
