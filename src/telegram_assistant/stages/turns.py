"""One after the other where several ask for the same: the first does the work, the others find it done."""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary


class Turns:
    """A lock for each name, as long as somebody holds or awaits it."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, name: str) -> asyncio.Lock:
        return self._locks.setdefault(name, asyncio.Lock())
