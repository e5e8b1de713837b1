"""One Qdrant Edge shard: the vectors of one generation, in a folder of its own.

Every call of Qdrant Edge blocks and keeps Python's lock, so each does little at a time.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import qdrant_edge as edge

from telegram_assistant.errors import Fatal, Retry
from telegram_assistant.index.vectors import (
    INDEXES,
    TEXT_HASH,
    AnyOf,
    Between,
    Clause,
    Found,
    Is,
    Kind,
    OneOf,
    Point,
    Where,
    clauses,
    moment,
    payload,
)

KINDS = {
    Kind.INTEGER: edge.PayloadSchemaType.Integer,
    Kind.KEYWORD: edge.PayloadSchemaType.Keyword,
    Kind.DATETIME: edge.PayloadSchemaType.Datetime,
}
# Up to so many kilobytes of matching vectors are compared one by one (a few milliseconds). Only larger matches go
# through the graph, and for them it gets links of its own, because `payload_m` is left alone: with payload_m=0 and a
# low limit, filtered searches were measured to find 3 of 1000 (tests/integration/index/test_building.py).
FULL_SCAN_KB = 40_000
FLUSH_AFTER = 1000  # points: bounds the log that a start after a kill has to read again


class EdgeShard:
    """What the vector index asks of a shard, with our types and errors."""

    def __init__(self, shard: edge.EdgeShard, folder: Path) -> None:
        self._shard = shard
        self.folder = folder
        self._unflushed = 0

    @classmethod
    def create(cls, folder: Path, size: int, *, full_scan_kb: int = FULL_SCAN_KB) -> EdgeShard:
        hnsw = edge.HnswIndexConfig(m=16, ef_construct=100, full_scan_threshold=full_scan_kb, max_indexing_threads=1)
        vectors = edge.EdgeVectorParams(size=size, distance=edge.Distance.Cosine)
        with _translated():
            folder.mkdir(parents=True)
            shard = edge.EdgeShard.create(
                str(folder),
                edge.EdgeConfig(
                    vectors=vectors,
                    hnsw_config=hnsw,
                    optimizers=edge.EdgeOptimizersConfig(indexing_threshold=full_scan_kb),
                ),
            )
            for field, kind in INDEXES.items():
                shard.update(edge.UpdateOperation.create_field_index(field, KINDS[kind]))
            shard.flush()
        return cls(shard, folder)

    @classmethod
    def load(cls, folder: Path) -> EdgeShard:
        try:
            return cls(edge.EdgeShard.load(str(folder)), folder)
        except Exception as exc:
            if "WouldBlock" in str(exc):
                raise Retry(f"Another process holds the vector index in {folder}") from exc
            raise Fatal(
                f"The vector index in {folder} cannot be opened ({exc}): move it away, then index the posts again"
            ) from exc

    def put(self, points: Sequence[Point]) -> None:
        self._upsert([edge.Point(point.post_id, list(map(float, point.vector)), payload(point)) for point in points])

    def update(self, points: Sequence[Point]) -> None:
        with _translated():
            for point in points:  # by filter, because a post that is not there is no error
                one = edge.Filter(must=[edge.HasIdCondition({point.post_id})])
                self._shard.update(edge.UpdateOperation.overwrite_payload_by_filter(one, payload(point)))
        self._count(len(points))

    def remove(self, post_ids: Sequence[UUID]) -> None:
        with _translated():
            self._shard.update(edge.UpdateOperation.delete_points(list(post_ids)))
        self._count(len(post_ids))

    def hashes(self, post_ids: Sequence[UUID]) -> dict[UUID, str]:
        with _translated():
            records = self._shard.retrieve(list(post_ids), with_payload=[TEXT_HASH], with_vector=False)
        return {_uuid(record.id): (record.payload or {})[TEXT_HASH] for record in records}

    def vector(self, post_id: UUID) -> list[float] | None:
        with _translated():
            records = self._shard.retrieve([post_id], with_payload=False, with_vector=True)
        return _floats(records[0].vector) if records else None

    def search(self, vector: Sequence[float], limit: int, where: Where | None) -> list[Found]:
        request = edge.QueryRequest(
            limit=limit, query=edge.Query.Nearest(list(map(float, vector))), filter=_filter(where)
        )
        with _translated():
            return [Found(_uuid(point.id), point.score) for point in self._shard.query(request)]

    def ids(self, start: UUID | None, limit: int) -> tuple[list[UUID], UUID | None]:
        """A piece of all ids, and where the next one starts."""
        request = edge.ScrollRequest(offset=start, limit=limit, with_payload=False, with_vector=False)
        with _translated():
            records, following = self._shard.scroll(request)
        return [_uuid(record.id) for record in records], None if following is None else _uuid(following)

    def __len__(self) -> int:
        with _translated():
            return self._shard.count(edge.CountRequest(exact=True))

    def unindexed(self) -> int:
        """Points that a search compares one by one."""
        info = self._shard.info()
        return info.points_count - info.indexed_vectors_count

    def copy_points(self, other: EdgeShard, post_ids: Sequence[UUID]) -> None:
        """Make these points as they are in the other shard; what is not there is removed."""
        with _translated():
            records = other._shard.retrieve(list(post_ids), with_payload=True, with_vector=True)
        found = [edge.Point(record.id, record.vector or [], record.payload) for record in records]
        gone = set(post_ids) - {_uuid(record.id) for record in records}
        if found:
            self._upsert(found)
        if gone:
            self.remove(list(gone))

    def optimize(self) -> None:
        """Build the search graph. Minutes with a lot of points, and Python stands still: in a process of its own."""
        with _translated():
            self._shard.optimize()

    def flush(self) -> None:
        with _translated():
            self._shard.flush()
        self._unflushed = 0

    def close(self) -> None:
        with _translated():
            self._shard.flush()
            self._shard.close()

    def _upsert(self, points: list[edge.Point]) -> None:
        with _translated():
            self._shard.update(edge.UpdateOperation.upsert_points(points))
        self._count(len(points))

    def _count(self, points: int) -> None:
        self._unflushed += points
        if self._unflushed >= FLUSH_AFTER:
            self.flush()


def _filter(where: Where | None) -> edge.Filter | None:
    must: list[Any] = []
    must_not: list[Any] = []
    for clause in clauses(where):
        (must if clause.wanted else must_not).append(_condition(clause))
    return edge.Filter(must=must, must_not=must_not) if must or must_not else None


def _condition(clause: Clause) -> edge.FieldCondition | edge.HasIdCondition:
    match clause:
        case AnyOf(field, values):
            return edge.FieldCondition(field, match=edge.MatchAny(values))
        case Is(field, value):
            return edge.FieldCondition(field, match=edge.MatchValue(value))
        case Between(field, since, before):
            limits = edge.RangeDateTime(gte=moment(since) if since else None, lt=moment(before) if before else None)
            return edge.FieldCondition(field, range=limits)
        case OneOf(ids):
            return edge.HasIdCondition(set(ids))


def _uuid(point_id: edge.PointId) -> UUID:
    return point_id if isinstance(point_id, UUID) else UUID(str(point_id))


def _floats(vector: Any) -> list[float]:
    return [float(number) for number in vector]


@contextmanager
def _translated() -> Iterator[None]:
    """Qdrant Edge raises bare exceptions; the words tell them apart."""
    try:
        yield
    except OSError as exc:
        raise Retry(f"The vector index cannot work now: {exc}") from exc
    except Exception as exc:
        words = str(exc)
        if "dimension" in words:
            raise Fatal(f"The vector index holds vectors of another size: {words}") from exc
        raise Retry(f"The vector index cannot work now: {words}") from exc


def build(folder: str) -> None:
    """Build the search graph of one shard: `python -m telegram_assistant.index.edge_shard FOLDER`.

    It needs a process of its own: Qdrant Edge keeps Python's lock while it builds, and everything else would wait.
    """
    os.nice(10)  # searches and the pipeline come first
    shard = EdgeShard.load(Path(folder))
    shard.optimize()
    shard.close()


if __name__ == "__main__":
    build(sys.argv[1])
