"""Processes of several versions on one database and one Valkey, with the code and the data folder of their version."""

from __future__ import annotations

import asyncio
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import httpx
from sqlalchemy import text

from telegram_assistant.access.credentials import new_key
from telegram_assistant.domain.access import SYSTEM_TENANT, SYSTEM_USER
from telegram_simulator.model import Channel
from tests.e2e.pipeline.conftest import House, Program, until
from tests.upgrade.versions import Version

COMMAND_SECONDS = 300.0
LOG_TAIL = 3000  # characters
ADDRESS = re.compile(r"is ready .*?(http://\S+)/ ")
TROUBLE = re.compile(r"Traceback|\[(error|critical) *\]|^[ |]*[\w.]+(Error|Exception): ")
# What the former version prints when it is stopped in the midst of a query; in this one it is no error.
LATE = re.compile(r"Future exception was never retrieved|unexpected connection_lost\(\) call")
NEW_USER = "INSERT INTO users (id, tenant_id, name, login, role) VALUES (:user, :tenant, 'Ann', 'ann', 'member')"
NEW_REQUEST = "INSERT INTO channel_requests (tenant_id, user_id, reference) VALUES (:tenant, :user, :reference)"
NEW_KEY = (
    "INSERT INTO api_keys (tenant_id, user_id, name, prefix, sha256, role)"
    " VALUES (:tenant, :user, 'of a test', :prefix, :sha256, 'member')"
)


@dataclass
class Installation(House):
    """Tables, streams and files belong to all versions. Embedded indexes belong to one process: each has its own."""

    running: dict[tuple[str, str], Program] = field(default_factory=dict)

    async def watch(self, *channels: Channel) -> None:
        """In words that the former schema knows, too."""
        async with self.database.begin() as connection:
            for channel in channels:
                values = {"tenant": SYSTEM_TENANT, "user": SYSTEM_USER, "reference": f"@{channel.username}"}
                await connection.execute(text(NEW_REQUEST), values)

    async def begin(self, version: Version, role: str) -> None:
        self.running[version.name, role] = await self.start(
            role, HOSTNAME=f"{version.name}-{role}", **self._of(version)
        )

    async def end(self, version: Version, role: str) -> None:
        """SIGTERM, as a service manager sends it; it has to end in order."""
        program = self.running.pop((version.name, role))
        try:
            await program.stop()
        except TimeoutError as exc:
            said = program.log.read_text()[-LOG_TAIL:]
            raise AssertionError(f"{role} of {version.name} does not stop: {said}") from exc

    async def run(self, version: Version, *command: str) -> tuple[int, str]:
        """A command of a version, to its end: its code and what it printed."""
        process = await self._process(command, asyncio.subprocess.PIPE, **self._of(version))
        return await _finished(process)

    async def located(self, version: Version) -> Path:
        """Where a process of this version has its code from: the installed package must not get in between."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", "import telegram_assistant as t; print(t.__file__)"),
            env={**self.environment, **self._of(version)},
            cwd=self.folder,
            stdout=asyncio.subprocess.PIPE,
        )
        code, printed = await _finished(process)
        assert code == 0
        return Path(printed.strip())

    def _of(self, version: Version) -> dict[str, str]:
        return {"PYTHONPATH": str(version.source), "TGA_DATA_DIR": str(self.folder / version.name)}

    def address(self, version: Version, role: str) -> str:
        found = ADDRESS.search(self.running[version.name, role].log.read_text())
        assert found is not None
        return found[1]

    async def counts(self, sample: str, *processes: tuple[Version, str]) -> dict[tuple[Version, str], float]:
        """What the processes have counted so far."""
        found = {}
        async with httpx.AsyncClient(timeout=120, trust_env=False) as client:
            for version, role in processes:
                lines = (await client.get(f"{self.address(version, role)}/metrics")).text.splitlines()
                counted = [float(line.rpartition(" ")[2]) for line in lines if line.startswith(sample)]
                found[version, role] = sum(counted)
        return found

    async def counts_grow(self, sample: str, since: dict[tuple[Version, str], float]) -> None:
        """Wait until each of them has counted more."""

        async def more() -> bool:
            now = await self.counts(sample, *since)
            return all(now[process] > before for process, before in since.items())

        await until(more, f"{sample} grows of {[f'{version.name} {role}' for version, role in since]}")

    async def schema(self) -> str:
        return str((await self.rows("SELECT version_num FROM alembic_version"))[0].version_num)

    async def change(self, statement: str) -> None:
        async with self.database.begin() as connection:
            await connection.execute(text(statement))

    async def make_key(self) -> str:
        key, user = new_key(), uuid4()
        async with self.database.begin() as connection:
            await connection.execute(text(NEW_USER), {"user": user, "tenant": SYSTEM_TENANT})
            values = {"user": user, "tenant": SYSTEM_TENANT, "prefix": key.prefix, "sha256": key.sha256}
            await connection.execute(text(NEW_KEY), values)
        return key.token

    def troubles(self) -> list[str]:
        """What the processes complained about."""
        lines = [(log.name, line) for log in self.folder.glob("*.log") for line in log.read_text().splitlines()]
        return [f"{name}: {line}" for name, line in lines if TROUBLE.search(line) and not LATE.search(line)]


async def _finished(process: asyncio.subprocess.Process) -> tuple[int, str]:
    try:
        async with asyncio.timeout(COMMAND_SECONDS):
            printed, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise
    assert process.returncode is not None
    return process.returncode, printed.decode()
