"""Python's garbage collector, told that this process mostly makes what needs no collecting."""

from __future__ import annotations

import gc


def calm_collector() -> None:
    """Posts and events are freed without it, and it would walk through all loaded code every few pages.

    That took a quarter of the CPU time of a capture. What is loaded by now stays, and cycles are looked for less often.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)
