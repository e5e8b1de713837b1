"""Builds the search graph of one shard: `python -m telegram_assistant.index.edge_build FOLDER`.

A process of its own, because Qdrant Edge keeps Python's lock while it builds: in ours, everything would stand still.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from telegram_assistant.index.edge_shard import EdgeShard


def main(folder: str) -> None:
    os.nice(10)  # searches and the pipeline come first
    shard = EdgeShard.load(Path(folder))
    shard.optimize()
    shard.close()


if __name__ == "__main__":
    main(sys.argv[1])
