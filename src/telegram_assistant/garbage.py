"""Python's garbage collection, made rarer: posts and events are freed without it."""

from __future__ import annotations

import gc


def collect_garbage_less() -> None:
    """Leave out the loaded code, and look for cycles less often. It took a quarter of the CPU time of a capture."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)
