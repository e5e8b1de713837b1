"""Who a process is, as others see it in the database; and whether one of this machine is surely gone."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def new_identity(hostname: str) -> str:
    """Differs for every start, even under one name and one number: a lease of a former life is not ours."""
    born = _born(os.getpid()) or secrets.token_hex(8)
    return f"{hostname}/{_machine()}/{os.getpid()}/{born}"


def shown(identity: str) -> str:
    """As people name the process."""
    return identity.rsplit("/", 3)[0]


def is_gone(identity: str) -> bool:
    """True only for a process of this machine that does not exist any more: it need not be waited for."""
    parts = identity.rsplit("/", 3)
    if len(parts) != 4 or not _machine() or parts[1] != _machine() or not parts[2].isdigit():
        return False
    return _born(int(parts[2])) != parts[3]


def _machine() -> str:
    """Numbers of processes mean something within one boot of one machine, and there within one container."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}:{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return ""


def _born(pid: int) -> str:
    """When a process began, in ticks since the machine did; empty when there is none."""
    try:
        told = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return told.rpartition(")")[2].split()[19]
