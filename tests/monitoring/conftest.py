"""Prometheus and its tools as `scripts/prometheus` fetches them, and the code that makes dashboards and rules."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.e2e.conftest import place, start

__all__ = ["place", "start"]  # fixtures: `tga up` as a process of its own

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "monitoring" / "prometheus"
if str(ROOT) not in sys.path:  # `monitoring` is no installed package
    sys.path.insert(0, str(ROOT))


@pytest.fixture(scope="session")
def tool() -> Callable[[str], str]:
    """Where a program is. Without it the test is skipped, but not where TGA_REQUIRE_PROMETHEUS is set."""

    def find(name: str) -> str:
        own = ROOT / ".venv" / "prometheus" / "usr" / "bin" / name
        found = str(own) if own.exists() else shutil.which(name)
        if found is None:
            reason = f"there is no {name}: scripts/prometheus fetches it on Debian"
            if os.environ.get("TGA_REQUIRE_PROMETHEUS"):
                pytest.fail(reason)
            pytest.skip(reason)
        return found

    return find


def free_port() -> int:
    """For a program that cannot be given a listener: it is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@asynccontextmanager
async def running(folder: Path, url: str, *command: str) -> AsyncIterator[None]:
    """A server of the Prometheus family, started in its folder, from when it is ready to its end."""
    log = folder / "log"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(*command, cwd=folder, stdout=output, stderr=output)
    try:
        assert await _ready(process, url), said(log)
        yield
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()


def said(log: Path) -> str:
    return log.read_text(encoding="utf-8")


def configure(folder: Path, target: str, rules: str, alertmanager: str) -> None:
    config: dict[str, Any] = yaml.safe_load((CONFIG / "one-machine.yml").read_text("utf-8"))
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["scrape_configs"][0]["static_configs"][0]["targets"] = [target]
    config["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"] = [alertmanager] if alertmanager else []
    folder.mkdir()
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
    (folder / "rules.yml").write_text(rules, encoding="utf-8")


@asynccontextmanager
async def prometheus(
    program: str, folder: Path, target: str, *, rules: str, alertmanager: str = ""
) -> AsyncIterator[str]:
    """Our own configuration, only quicker, with this target and these rules; where it answers."""
    configure(folder, target, rules, alertmanager)
    address = f"127.0.0.1:{free_port()}"
    command = (
        program,
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={address}",
    )
    async with running(folder, f"http://{address}", *command):
        yield f"http://{address}"


async def _ready(process: asyncio.subprocess.Process, url: str) -> bool:
    async with httpx.AsyncClient(trust_env=False, timeout=300) as client:
        for _ in range(3000):
            if process.returncode is not None:
                return False
            try:
                if (await client.get(f"{url}/-/ready")).status_code == 200:
                    return True
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.1)
    return False
