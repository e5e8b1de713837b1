"""Builds the search graph of one shard: `python -m telegram_assistant.index.edge_build FOLDER PARENT`.

A process of its own, because Qdrant Edge keeps Python's lock while it builds: in ours, everything would stand still.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

from telegram_assistant.embedded.process import PR_SET_PDEATHSIG
from telegram_assistant.index.edge_shard import EdgeShard


def main(folder: str, parent: str) -> None:
    os.nice(10)  # searches and the pipeline come first
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != int(parent):
            return  # it died before the request was in place
    shard = EdgeShard.load(Path(folder))
    shard.optimize()
    shard.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
