"""How much CPU and memory `tga --help` and `tga version` take, beside importing typer and rich alone."""

from __future__ import annotations

import resource
import subprocess
import sys
from dataclasses import dataclass

from bench.figure import RESULTS, Figure

ROUNDS = 5
MOST_TIMES, MOST_MEGABYTES = 3.0, 60.0
ALONE = "import typer, rich"
CALLED = "import sys; sys.argv = ['tga', *sys.argv[1:]]; from telegram_assistant.__main__ import main; main()"
TOLD = """
import atexit, resource, sys
atexit.register(lambda: print(len(sys.modules), resource.getrusage(0).ru_maxrss, file=sys.stderr))
"""
COMMANDS = (
    "--help",
    "version",
    "channels --help",
    "channels list --help",
    "ledger --help",
    "search --help",
    "up --help",
)


@dataclass(frozen=True)
class Start:
    """One start of a fresh process: the least CPU of several, as other processes only add to it."""

    cpu: float
    modules: int
    megabytes: float


def _start(code: str, *arguments: str) -> Start:
    found = []
    for _ in range(ROUNDS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(  # noqa: S603 - our own command
            [sys.executable, "-c", TOLD + code, *arguments], capture_output=True, text=True, check=True
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        modules, kilobytes = done.stderr.split()[-2:]
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        found.append(Start(spent, int(modules), int(kilobytes) / 1024))
    return min(found, key=lambda one: one.cpu)


def run() -> list[Figure]:
    """CPU beside three times that of typer and rich alone; memory beside 60 MB."""
    alone = _start(ALONE)
    starts = {command: _start(CALLED, *command.split()) for command in COMMANDS}
    lines = [
        "# Starting the command",
        "",
        "| command | CPU-s | times typer and rich | modules | MB |",
        "|---|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {name} | {one.cpu:.2f} | {one.cpu / alone.cpu:.1f} | {one.modules:,} | {one.megabytes:.0f} |"
        for name, one in {
            "typer and rich alone": alone,
            **{f"`tga {name}`": one for name, one in starts.items()},
        }.items()
    ]
    (RESULTS / "start.md").write_text("\n".join([*lines, ""]), encoding="utf-8")
    return [
        Figure("start_help_cpu", starts["--help"].cpu / alone.cpu, "times typer and rich", MOST_TIMES),
        Figure("start_version_cpu", starts["version"].cpu / alone.cpu, "times typer and rich", MOST_TIMES),
        Figure("start_help_memory", starts["--help"].megabytes, "MB", MOST_MEGABYTES),
    ]
