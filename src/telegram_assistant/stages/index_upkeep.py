"""The indexes may be deleted, emptied or exchanged at any moment; PostgreSQL knows which ones they should be (G10).

Each index carries a mark that PostgreSQL knows too. One that differs was replaced: then all that should be in it is
compared with what is, at once, and put in from the tables. The marks are changed at every start and every hour, so that
a copy of yesterday has another one. Without that all posts are compared by turns, slowly, which
finds what was lost without a trace. A folder that another process keeps elsewhere has another mark: who has the wrong
one stands by, because each would hold a part of the posts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import msgspec

from telegram_assistant.bus.supervisor import Task
from telegram_assistant.domain.access import SYSTEM_TENANT
from telegram_assistant.errors import Retry
from telegram_assistant.log import get_logger
from telegram_assistant.metrics import ENGINE_LOSSES, INDEX_REBUILD_REMAINING, INDEX_RESTORED
from telegram_assistant.stages.indexing import Indexes
from telegram_assistant.stages.reindexing import Reindexing
from telegram_assistant.stores.outage import is_outage
from telegram_assistant.stores.postgres.enrichment import StoredPosts
from telegram_assistant.stores.postgres.pipeline import Steps
from telegram_assistant.stores.postgres.upkeep import Turn, Upkeep, begin_anew

INDEXES, PASS = "indexes", "index_pass"
BATCH = 100
EVERY = timedelta(seconds=15)
WAKE = 5.0  # seconds between two looks whether it is our turn
BREATH = 0.05  # between two batches of a rebuild: new posts come first
MARK_ANEW = timedelta(hours=1)
ABSENT = timedelta(minutes=2)  # without a sign of who keeps the indexes: another may begin with its own
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
ADVICE = (
    "Two folders would each hold a part of the posts. Set QDRANT_URL and NEO4J_URL, or let all workers use the same"
    " data folder (TGA_DATA_DIR)"
)

log = get_logger(__name__)


class IndexesState(msgspec.Struct, frozen=True):
    """Which indexes there should be, and who keeps them."""

    vectors: dict[str, str] = msgspec.field(default_factory=dict)  # tenant -> mark
    graph: str = ""
    model: str = ""  # that made the vectors, and their size
    place: str = ""  # where they are
    seen_at: datetime = LONG_AGO
    coming: str = ""  # the next mark of all of them: told here first, so that an end in between does no harm
    marked_at: datetime = LONG_AGO


class PassState(msgspec.Struct, frozen=True):
    """How far the posts were compared."""

    after: UUID | None = None
    examined: int = 0
    restored: int = 0
    of: int = 0
    why: str = ""  # an index is rebuilt for that reason; "": all is compared by turns
    strays: bool = False  # it may hold what it should not
    ended_at: datetime | None = None  # of the pass before


@dataclass
class IndexUpkeep:
    """One per worker. The worker that holds the embedded indexes does it; with servers the workers take turns."""

    upkeep: Upkeep
    indexes: Indexes
    stored_posts: StoredPosts
    steps: Steps
    place: str  # of the embedded ones; those of servers are the same for everybody
    admitted: asyncio.Event = field(default_factory=asyncio.Event)
    marked: bool = False  # since this process started

    async def run(self, task: Task) -> None:
        """A supervised job."""
        task.ready()
        told = ""
        while True:
            hurries = False
            try:
                hurries = await self.look()
                told = ""
            except Retry as exc:
                if str(exc) != told:
                    log.warning("index_upkeep_waits", reason=str(exc))
                told = str(exc)
            task.progress()
            await asyncio.sleep(BREATH if hurries else WAKE)

    async def look(self) -> bool:
        """Compare the next posts; whether a rebuild is under way. Raises Retry while the indexes are not ours."""
        await self.indexes.hold()
        await self.compare_marks()
        known = await self.upkeep.state(PASS, PassState)
        async with self.upkeep.turn(PASS, PassState, every=timedelta() if known.why else EVERY) as turn:
            if turn is not None:
                await self._compare_posts(turn)
                known = turn.state
        INDEX_REBUILD_REMAINING.set(max(0, known.of - known.examined) if known.why else 0)
        return bool(known.why)

    async def compare_marks(self) -> None:
        """Whether the indexes are those that they should be."""
        async with self.upkeep.turn(INDEXES, IndexesState, every=timedelta()) as turn:
            if turn is not None:
                await self._compare_marks(turn)
        if turn is not None or (await self.upkeep.state(INDEXES, IndexesState)).place == self.place:
            self.indexes.claim.refused = ""
            self.admitted.set()

    async def release(self) -> None:
        """A clean end: the next worker need not wait."""
        try:
            async with self.upkeep.turn(INDEXES, IndexesState, every=timedelta()) as turn:
                if turn is not None and turn.state.place == self.place and self.admitted.is_set():
                    turn.state = msgspec.structs.replace(turn.state, seen_at=LONG_AGO)
        except Exception as exc:
            if not is_outage(exc):
                raise

    async def report(self) -> dict[str, Any]:
        """For health."""
        state = await self.upkeep.state(INDEXES, IndexesState)
        return told_of(state, await self.upkeep.state(PASS, PassState), self.indexes.claim.refused)

    async def _compare_marks(self, turn: Turn[IndexesState]) -> None:
        state = turn.state
        found = {str(tenant): await self.indexes.vectors.mark(tenant) for tenant in await self.stored_posts.tenants()}
        graph = await self.indexes.graph.mark()
        coming = {state.coming} - {""}
        changed = {tenant for tenant, mark in found.items() if mark not in {state.vectors.get(tenant, mark), *coming}}
        exchanged = bool(state.graph) and graph not in {state.graph, *coming}
        if changed or exchanged:
            self._refuse_another_place(turn)
        elsewhere = any(found[tenant] for tenant in changed) or (exchanged and graph is not None)
        marked = await self._marked(state, found, changed, None if exchanged else graph)
        if not (changed or exchanged):
            marked = await self._marked_anew(marked, turn.now)
        else:
            lost = [name for name, is_lost in (("vectors", changed), ("graph", exchanged)) if is_lost]
            await self._begin_rebuild(turn, lost, elsewhere)
        turn.state = msgspec.structs.replace(marked, place=self.place, seen_at=turn.now)

    def _refuse_another_place(self, turn: Turn[IndexesState]) -> None:
        state = turn.state
        if state.place not in ("", self.place) and turn.now - state.seen_at < ABSENT:
            self.admitted.clear()
            self.indexes.claim.refused = (
                f"The indexes are kept at {state.place}, and this process has {self.place}. {ADVICE}"
            )
            raise Retry(self.indexes.claim.refused)

    async def _marked(
        self, state: IndexesState, found: Mapping[str, str | None], changed: set[str], graph: str | None
    ) -> IndexesState:
        """With a mark on everything that has none, or another one than it should have."""
        vectors, model = dict(state.vectors), self.indexes.model
        for tenant, mark in found.items():
            if mark is None and tenant not in changed and tenant != SYSTEM_TENANT:
                continue  # nothing was put in yet
            vectors[tenant] = mark if mark and tenant not in changed else uuid4().hex
            if vectors[tenant] != mark:
                await self.indexes.vectors.open(UUID(tenant), model)
                await self.indexes.vectors.set_mark(UUID(tenant), vectors[tenant])
        if graph is None:
            graph = uuid4().hex
            await self.indexes.graph.set_mark(graph)
        return msgspec.structs.replace(state, vectors=vectors, graph=graph, model=f"{model.name}, {model.size}")

    async def _marked_anew(self, state: IndexesState, now: datetime) -> IndexesState:
        """In two turns: the next mark is stored, and then put on everything."""
        if state.coming:
            for tenant in state.vectors:
                if await self.indexes.vectors.mark(UUID(tenant)) not in {None, state.coming}:
                    await self.indexes.vectors.set_mark(UUID(tenant), state.coming)
            await self.indexes.graph.set_mark(state.coming)
            self.marked = True
            vectors = dict.fromkeys(state.vectors, state.coming)
            return msgspec.structs.replace(state, vectors=vectors, graph=state.coming, coming="", marked_at=now)
        if self.marked and now - state.marked_at < MARK_ANEW:
            return state
        return msgspec.structs.replace(state, coming=uuid4().hex)

    async def _begin_rebuild(self, turn: Turn[IndexesState], lost: list[str], elsewhere: bool) -> None:
        names = " and ".join(lost)
        why = f"{names} {'were' if lost != ['graph'] else 'was'} replaced" if elsewhere else f"{names} vanished"
        why = f"{why} before {turn.now:%Y-%m-%d %H:%M:%S} UTC"
        of = await self.steps.count_indexed()
        await begin_anew(turn.connection, PASS, PassState(of=of, why=why, strays=elsewhere))
        for name in lost:
            ENGINE_LOSSES.labels(name).inc()
        log.warning("index_lost", reason=why, posts=of, todo="none: it is rebuilt from the tables")

    async def _compare_posts(self, turn: Turn[PassState]) -> None:
        posts = await self.steps.indexed_after(turn.state.after, limit=BATCH)
        restored = await self.indexes.restore(posts, outdated=bool(turn.state.why))
        INDEX_RESTORED.inc(restored)
        turn.state = msgspec.structs.replace(
            turn.state,
            after=posts[-1] if posts else None,
            examined=turn.state.examined + len(posts),
            restored=turn.state.restored + restored,
        )
        if len(posts) < BATCH:
            await self._end(turn.state)
            turn.state = PassState(ended_at=turn.now)

    async def _end(self, state: PassState) -> None:
        if state.strays:
            for tenant in await self.stored_posts.tenants():
                await Reindexing(self.indexes, self.stored_posts).remove_strays(tenant)
        if state.why or state.restored:
            log.warning("indexes_compared", reason=state.why, posts=state.examined, restored=state.restored)


def told_of(state: IndexesState, compared: PassState, refused: str = "") -> dict[str, Any]:
    """In words, for health and the doctor."""
    done = f"rebuilding, {compared.examined:,} of {compared.of:,} posts compared, {compared.restored:,} put in again"
    return {
        "status": "degraded" if refused or compared.why else "ok",
        "state": "refused" if refused else "rebuilding" if compared.why else "whole",
        "error": refused or (f"{compared.why}: {done}" if compared.why else None),
        "model": state.model,
        "place": state.place,
        "seen_at": state.seen_at.isoformat(),
        "examined": compared.examined,
        "of": compared.of,
        "restored": compared.restored,
        "pass_before_ended_at": compared.ended_at.isoformat() if compared.ended_at else None,
    }
