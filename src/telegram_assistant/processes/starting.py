"""How each child is started: with no secret of ours, and never outliving us.

Its environment is made here and takes nothing from ours, where the session of Telegram and the keys are; it is a new
program and no fork, so nothing of our memory is in it either. Ctrl-C is for us, who end it in order.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_ENVIRONMENT = {
    "LANG": "C.UTF-8",
    "PATH": os.defpath,
    # More threads in a child only heat the cores that we need.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
_PR_SET_PDEATHSIG = 1


def our_module(name: str, *arguments: str) -> tuple[str, ...]:
    """The command of a module of ours. -P: nothing is imported from the folder we happen to be in."""
    return (sys.executable, "-P", "-m", name, *arguments)


async def start(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    user: int | None = None,
    end_with: signal.Signals = signal.SIGKILL,
    **pipes: Any,
) -> asyncio.subprocess.Process:
    """`env` is added to the few variables that each child gets; `pipes` are asyncio's own, and `cwd`."""
    program, *arguments = command
    return await asyncio.create_subprocess_exec(program, *arguments, **_manner(env, user, end_with), **pipes)


def start_in_thread(command: Sequence[str], **pipes: Any) -> subprocess.Popen[bytes]:
    """The same for a thread, which must live as long as the child."""
    return subprocess.Popen(command, **_manner(None, None, signal.SIGKILL), **pipes)  # noqa: S603 - our own command


def _manner(env: Mapping[str, str] | None, user: int | None, end_with: signal.Signals) -> dict[str, Any]:
    return {
        "env": {**_ENVIRONMENT, **(env or {})},
        "start_new_session": True,
        "preexec_fn": _die_with_parent(end_with),
        **as_user(user),
    }


def as_user(user: int | None) -> dict[str, Any]:
    return {} if user is None else {"user": user, "group": user, "extra_groups": []}


def _die_with_parent(with_signal: signal.Signals) -> Callable[[], None] | None:
    """Ask Linux to signal the child when we are gone, even by kill -9. Elsewhere its closed stdin ends it, if it reads
    that, and the next start finds what is left."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl  # looked up before the fork: only the call itself happens in the child
    parent = os.getpid()

    def set_signal() -> None:
        prctl(_PR_SET_PDEATHSIG, with_signal)
        if os.getppid() != parent:  # we died before the request was in place
            os.kill(os.getpid(), signal.SIGKILL)

    return set_signal
