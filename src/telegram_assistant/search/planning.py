"""A query of a tenant made ready for the full-text index: in which of its channels, by which words."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from telegram_assistant.domain.query import Note, Query, Trouble
from telegram_assistant.language.lexemes import Lexicon
from telegram_assistant.language.plan import Counts, Plan, keys_of, make_plan


class Counted(Protocol):
    """How common words are."""

    async def counts(self, keys: Sequence[str]) -> Counts: ...


class Visible(Protocol):
    """The channels that a tenant sees."""

    async def channels(self, tenant_id: UUID) -> tuple[int, ...]: ...

    async def named(self, tenant_id: UUID, names: Sequence[str]) -> dict[str, int]: ...


@dataclass(frozen=True, slots=True)
class Planned:
    """The plan, all channels that the tenant sees, and remarks on those that there are not."""

    plan: Plan
    visible: tuple[int, ...]
    notes: tuple[Note, ...] = ()


class Planner:
    """Makes plans. Only channels that PostgreSQL shows to the tenant ever come into one (G7)."""

    def __init__(self, documents: Counted, posts: Visible, lexicon: Lexicon) -> None:
        self._documents = documents
        self._posts = posts
        self._lexicon = lexicon

    async def plan(self, tenant_id: UUID, query: Query) -> Planned:
        (visible, channels, notes), counts = await asyncio.gather(self._scope(tenant_id, query), self._counts(query))
        plan = await asyncio.to_thread(make_plan, query, self._lexicon, counts, channels)
        return Planned(plan, visible, notes)

    async def _scope(self, tenant_id: UUID, query: Query) -> tuple[tuple[int, ...], tuple[int, ...], tuple[Note, ...]]:
        visible = await self._posts.channels(tenant_id)
        names = (*query.only.channels, *query.without.channels)
        if not names:
            return visible, visible, ()
        known = await self._posts.named(tenant_id, names)
        only = {known[name] for name in query.only.channels if name in known}
        without = {known[name] for name in query.without.channels if name in known}
        wanted = only if query.only.channels else visible
        channels = tuple(one for one in visible if one in wanted and one not in without)
        return visible, channels, tuple(Note(Trouble.NO_SUCH_CHANNEL, name) for name in names if name not in known)

    async def _counts(self, query: Query) -> Counts:
        # Morphology in a thread: the first word of all loads the dictionary.
        keys = await asyncio.to_thread(keys_of, query, self._lexicon)
        return await self._documents.counts(sorted(keys))
