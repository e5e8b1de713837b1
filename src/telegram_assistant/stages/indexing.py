"""`indexing` (SPEC 4.9): a post into the vector index, the graph and the full-text index, out when it is deleted.

An event only says which post: what is indexed is read from the tables as they are now, so that the order in which
events come, and how often, does not matter (G2, G5).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from itertools import groupby
from operator import attrgetter
from uuid import UUID

from telegram_assistant.ai.spend import BudgetSpent, paid_by
from telegram_assistant.bus.stage import Done, Outcome
from telegram_assistant.domain.access import SYSTEM_TENANT
from telegram_assistant.domain.events import (
    AlbumAssembled,
    Event,
    PostDeleted,
    PostEnriched,
    PostIndexed,
    PostVisionAnalyzed,
)
from telegram_assistant.domain.models import Embedder
from telegram_assistant.errors import Retry, Skip
from telegram_assistant.index.cypher_graph import Graph
from telegram_assistant.index.vectors import Model, Point, Vectors
from telegram_assistant.names import POSTS_INDEXED
from telegram_assistant.stages.index_entry import Entry, EntryReader, TextIndex
from telegram_assistant.stages.tagging import picture_words
from telegram_assistant.stores.postgres.budgets import Budgets


@dataclass(slots=True)
class Claim:
    """Whether the indexes of this process are the ones that all posts are in."""

    refused: str = ""  # why not


@dataclass(frozen=True)
class Indexes:
    """All indexes, and what fills them."""

    vectors: Vectors
    graph: Graph
    texts: TextIndex
    embedder: Embedder
    entries: EntryReader
    clock: Callable[[], datetime]
    budgets: Budgets | None = None  # None: the installation pays, and no tenant
    claim: Claim = field(default_factory=Claim)

    @property
    def model(self) -> Model:
        return Model(str(self.embedder.identity), self.embedder.size)

    async def hold(self) -> None:
        """Raises Retry while another process holds an embedded index: one owns it, the others stand by."""
        await self.vectors.current(UUID(SYSTEM_TENANT))
        await self.graph.mark()

    async def put(self, entries: Mapping[UUID, Entry]) -> None:
        """Into the indexes, or out of them."""
        await self._write(entries, self._put_all)

    async def restore(self, post_ids: Sequence[UUID], *, outdated: bool = True) -> int:
        """Put in what should be in the indexes and is not; how many posts. `outdated`: what is of another text, too,
        which it may well be while the event that tells of the new one is on its way."""
        entries = {id_: entry for id_, entry in (await self.entries.read(post_ids)).items() if not entry.deleted}
        missing: dict[UUID, Entry] = {}
        by_tenant = sorted(entries.values(), key=attrgetter("tenant_id"))
        for tenant_id, some in groupby(by_tenant, key=attrgetter("tenant_id")):
            found = {entry.post_id: entry for entry in some}
            await self.vectors.open(tenant_id, self.model)
            hashes = await self.vectors.hashes(tenant_id, self.model, list(found))
            nodes = await self.graph.known(tenant_id, list(found))
            missing |= {
                id_: entry
                for id_, entry in found.items()
                if id_ not in hashes or id_ not in nodes or (outdated and hashes[id_] != text_hash(entry.text))
            }
        await self.put(missing)
        return len(missing)

    async def put_vectors(self, post_ids: Sequence[UUID]) -> None:
        """Only the vectors: of another model."""
        entries = await self.entries.read(post_ids)
        await self._write({id_: entry for id_, entry in entries.items() if not entry.deleted}, self._put_all_vectors)

    async def _write(self, entries: Mapping[UUID, Entry], put: Callable[[Collection[Entry]], Awaitable[None]]) -> None:
        """What changed meanwhile is written anew: another process may have been quicker with something newer."""
        if self.claim.refused:
            raise Retry(self.claim.refused)
        while entries:
            await self._out([entry for entry in entries.values() if entry.deleted])
            await put([entry for entry in entries.values() if not entry.deleted])
            now = await self.entries.read(list(entries))
            await self._out([entry for id_, entry in entries.items() if id_ not in now])
            entries = {id_: entry for id_, entry in now.items() if entry != entries[id_]}

    async def _put_all(self, entries: Collection[Entry]) -> None:
        await self._put_all_vectors(entries)
        await self.graph.put([entry.node() for entry in entries])
        await self.texts.put(entries)

    async def _put_all_vectors(self, entries: Collection[Entry]) -> None:
        for tenant_id, found in groupby(sorted(entries, key=attrgetter("tenant_id")), key=attrgetter("tenant_id")):
            await self._put_vectors(tenant_id, list(found))

    async def _put_vectors(self, tenant_id: UUID, entries: Sequence[Entry]) -> None:
        """Words that were embedded before are not embedded again: only what is said about them changes."""
        model = self.model
        await self.vectors.open(tenant_id, model)
        hashes = {entry.post_id: text_hash(entry.text) for entry in entries}
        known = await self.vectors.hashes(tenant_id, model, list(hashes))
        changed = [entry for entry in entries if known.get(entry.post_id) != hashes[entry.post_id]]
        same = [entry for entry in entries if known.get(entry.post_id) == hashes[entry.post_id]]
        if changed:
            embedded = await self.embedder.embed([entry.text for entry in changed])
            points = [
                entry.point(vector, hashes[entry.post_id])
                for entry, vector in zip(changed, embedded.vectors, strict=True)
            ]
            await self.vectors.put(tenant_id, model, points)
        if same:
            nothing: tuple[float, ...] = ()
            kept: list[Point] = [entry.point(nothing, hashes[entry.post_id]) for entry in same]
            await self.vectors.update(tenant_id, model, kept)

    async def _out(self, entries: Collection[Entry]) -> None:
        for entry in entries:
            await self.remove(entry.tenant_id, [entry.post_id])
        await self.texts.put(entries)

    async def remove(self, tenant_id: UUID, post_ids: Sequence[UUID]) -> None:
        await self.vectors.remove(tenant_id, post_ids)
        await self.graph.remove(tenant_id, post_ids)


def text_hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()


async def index_posts(events: Sequence[PostEnriched], *, indexes: Indexes) -> list[Outcome]:
    """The post with its tags, what was seen and read."""
    await indexes.entries.store_tags(events)
    return await _index(events, indexes)


async def index_seen(events: Sequence[PostVisionAnalyzed], *, indexes: Indexes) -> list[Outcome]:
    """Late vision results: where they have words, retagging brings the post; else it is brought up to date here."""
    pictures = await indexes.entries.pictures([event.post_id for event in events])
    plain = [event for event in events if not picture_words(pictures.get(event.post_id, ()))]
    outcomes = iter(await _index(plain, indexes))
    keep = {id(event) for event in plain}
    brought_by_retagging = Skip("")
    return [next(outcomes) if id(event) in keep else brought_by_retagging for event in events]


async def index_albums(events: Sequence[AlbumAssembled], *, indexes: Indexes) -> list[Outcome]:
    """The post that stands for the album knows what all its pictures show."""
    return await _index(events, indexes)


async def unindex_posts(events: Sequence[PostDeleted], *, indexes: Indexes) -> list[Outcome]:
    """A post that came back meanwhile stays; it is put in anew where another process was quicker than our removal."""
    entries = await indexes.entries.read([event.post_id for event in events])
    await indexes.put({id_: entry for id_, entry in entries.items() if entry.deleted})
    gone = [event for event in events if event.post_id not in entries]
    for event in gone:
        await indexes.remove(event.tenant_id, [event.post_id])
    if gone:
        await indexes.put(await indexes.entries.read([event.post_id for event in gone]))
    return [_removed(entries.get(event.post_id)) for event in events]


def _removed(entry: Entry | None) -> Outcome:
    if entry is not None and not entry.deleted:
        return Skip("the post is there again")
    return Done(note="removed from the indexes")


async def _index(
    events: Sequence[PostEnriched | PostVisionAnalyzed | AlbumAssembled], indexes: Indexes
) -> list[Outcome]:
    if not events:
        return []
    entries = await indexes.entries.read([event.post_id for event in events])
    current = {event.post_id for event in events if not _is_stale(event, entries.get(event.post_id))}
    refused = await _put_by_payers({id_: entries[id_] for id_ in current if id_ in entries}, indexes)
    return [refused.get(event.post_id) or _outcome(event, entries.get(event.post_id), indexes) for event in events]


async def _put_by_payers(entries: Mapping[UUID, Entry], indexes: Indexes) -> dict[UUID, BudgetSpent]:
    """Posts whose watchers have tokens left do not wait for those of others."""
    if indexes.budgets is None:
        await indexes.put(entries)
        return {}
    payers = await indexes.budgets.watchers({entry.channel_id for entry in entries.values()})
    refused: dict[UUID, BudgetSpent] = {}
    for paying in set(payers.values()):
        theirs = {id_: entry for id_, entry in entries.items() if payers[entry.channel_id] == paying}
        try:
            with paid_by(paying):
                await indexes.put(theirs)
        except BudgetSpent as exc:
            refused |= dict.fromkeys(theirs, exc)
    return refused


def _is_stale(event: Event, entry: Entry | None) -> bool:
    """It speaks of words that the post no longer has."""
    if entry is None or not isinstance(event, PostEnriched | PostVisionAnalyzed):
        return False
    return event.content_hash != entry.content_hash and not entry.deleted


def _outcome(event: Event, entry: Entry | None, indexes: Indexes) -> Outcome:
    if entry is None:
        return Skip("the post is gone")
    if entry.deleted:
        return Skip("the post was deleted: it is in no index")
    if _is_stale(event, entry):
        return Skip("the post was edited meanwhile, and comes again")
    indexed = PostIndexed(
        trace_id=event.trace_id,
        occurred_at=indexes.clock(),
        idempotency_key=f"{POSTS_INDEXED}:{entry.post_id}:{entry.content_hash}:{event.idempotency_key}",
        tenant_id=entry.tenant_id,
        channel_id=entry.channel_id,
        post_id=entry.post_id,
        content_hash=entry.content_hash,
        tags=entry.tags,
        topics=entry.topics,
    )
    return Done((indexed,), note=f"{len(entry.text)} characters, {len(entry.tags)} tags")
