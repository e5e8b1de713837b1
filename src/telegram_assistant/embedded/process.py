"""An engine's process with its log file, and what a killed start left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Sequence
from pathlib import Path

from telegram_assistant.errors import Fatal
from telegram_assistant.processes.worker import start

LOG_LIMIT = 10 * 2**20


class EngineProcess:
    """An engine that we start ourselves: its process, its log file, and the way to end it."""

    def __init__(self, log_path: Path, *, stop_signals: Sequence[signal.Signals]) -> None:
        self.log_path = log_path
        self._stop_signals = stop_signals  # gentlest first; each gets its share of the grace time
        self._process: asyncio.subprocess.Process | None = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    async def _run(self, command: Sequence[str], *, user: int | None = None) -> None:
        if self.log_path.exists() and self.log_path.stat().st_size > LOG_LIMIT:
            self.log_path.replace(self.log_path.with_suffix(".log.1"))
        with self.log_path.open("ab") as log:
            self._process = await start(
                command,
                user=user,
                end_with=self._stop_signals[0],
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",  # a user of its own may not be able to enter ours
            )

    async def wait(self) -> int:
        assert self._process is not None  # noqa: S101 - a programming error, not an input
        return await self._process.wait()

    async def stop(self, grace: float = 6.0) -> None:
        if self._process is None:
            return
        for step in (*self._stop_signals, signal.SIGKILL):
            if self._process.returncode is not None:
                return
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(step)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), grace / len(self._stop_signals))

    def last_words(self) -> str:
        """The newest line of the log that tells of trouble."""
        lines = self.log_path.read_text(encoding="utf-8", errors="replace").splitlines()[-50:]
        telling = [
            line for line in lines if any(word in line for word in ("FATAL", "PANIC", "ERROR", "error", "Fatal"))
        ]
        return (telling or lines or ["nothing in its log"])[-1].strip()


async def end_leftover(pid_file: Path, mark: str, with_signal: signal.Signals, *, patience: float = 10.0) -> None:
    """End what a killed start left behind: the process named in `pid_file`, if its command line carries `mark`."""
    try:
        pid = int(pid_file.read_text(encoding="ascii", errors="replace").split()[0])
    except (FileNotFoundError, ValueError, IndexError):
        return
    command = await command_line(pid)
    if not command:
        return  # gone; the file stays, because PostgreSQL looks there for what the dead server left in memory
    if mark not in command:
        pid_file.unlink(missing_ok=True)  # the number belongs to another process by now
        return
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, with_signal)
    for _ in range(int(patience / 0.05)):
        if mark not in await command_line(pid):
            pid_file.unlink(missing_ok=True)
            return
        await asyncio.sleep(0.05)
    raise Fatal(f"Process {pid}, left by an earlier start, does not end: end it with kill -9 {pid} and start again")


async def command_line(pid: int) -> str:
    """The command of a process, empty when there is none."""
    if Path("/proc/self/cmdline").exists():
        try:
            raw = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return ""
        return raw.replace(b"\0", b" ").decode(errors="replace")
    ps = await start(("ps", "-o", "command=", "-p", str(pid)), stdout=asyncio.subprocess.PIPE)
    out, _ = await ps.communicate()
    return out.decode(errors="replace")


def free_port() -> int:
    """A loopback port that is free at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
