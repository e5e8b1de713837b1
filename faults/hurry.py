"""A clock that runs faster than the true one, for all of a run: the harness, the engines and the roles (libfaketime).

What is measured in seconds is then measured in seconds of that clock: a day of an installation takes an hour. A busy
machine is that many times slower for it, so nothing else should run beside it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from telegram_assistant.processes import worker

LIBRARY = Path(__file__).parents[1] / ".venv" / "faketime" / "libfaketime.so.1"
SHARED = "FAKETIME_SHARED"  # set by the library: where all processes find the moment at which the clock began to run


def hurry(times: float, argv: Sequence[str]) -> None:
    """Begin this program again under such a clock; nothing happens where it runs under it already."""
    if SHARED in os.environ:
        return
    clock = {"LD_PRELOAD": str(LIBRARY), "FAKETIME": f"+0 x{times:g}", "FAKETIME_DONT_RESET": "1"}
    os.execve(sys.executable, [sys.executable, "-m", "faults", *argv], os.environ | clock)  # noqa: S606 - ourselves


def clock_of_children() -> dict[str, str]:
    """What a process needs to have the same clock. Engines are given it here: their environment is not ours."""
    variables = {name: value for name, value in os.environ.items() if name == "LD_PRELOAD" or "FAKETIME" in name}
    if SHARED in variables:
        for name in variables[SHARED].split():
            for path in (f"/dev/shm/sem.{name[1:]}", f"/dev/shm{name}"):  # noqa: S108 - where the C library puts them
                if Path(path).exists():
                    Path(path).chmod(0o666)  # under root PostgreSQL runs as another user
        variables["PYTHONPATH"] = str(Path(__file__).parent / "slower")
        worker._ENVIRONMENT.update(variables)  # noqa: SLF001 - no product has such engines
    return variables
