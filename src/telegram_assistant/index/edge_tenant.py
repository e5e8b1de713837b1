"""The vectors of one tenant in Qdrant Edge: its generations, and their search graphs, built beside the work."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from telegram_assistant.errors import Retry
from telegram_assistant.index.edge_generations import Generations
from telegram_assistant.index.edge_shard import EdgeShard
from telegram_assistant.index.payload import check_sizes, no_generation
from telegram_assistant.index.vectors import Found, Model, Point, Where

COPIED_AT_ONCE = 100


@dataclass(slots=True)
class Build:
    """A copy of a shard whose graph is built, and the posts that changed meanwhile."""

    model: Model
    folder: Path
    changed: set[UUID] = field(default_factory=set)


class EdgeTenant:
    """Everything blocks; one thread calls it."""

    def __init__(self, folder: Path, *, build_after: int, full_scan_kb: int) -> None:
        self._generations = Generations(folder)
        self._shards: dict[Model, EdgeShard] = {}
        self._build_after = build_after
        self._full_scan_kb = full_scan_kb
        self._build: Build | None = None
        self._enough: dict[Model, int] = {}  # unindexed points at which the next build is worth it

    def current(self) -> Model | None:
        return self._generations.current

    def mark(self) -> str | None:
        return self._generations.mark()

    def set_mark(self, mark: str) -> None:
        self._generations.set_mark(mark)

    def open(self, model: Model) -> None:
        if model not in self._generations:
            folder = self._generations.new_folder()
            self._shards[model] = EdgeShard.create(folder, model.size, full_scan_kb=self._full_scan_kb)
            self._generations.keep(model, folder)

    def switch(self, model: Model) -> None:
        self._shard(model)
        for other in [known for known in self._shards if known != model]:
            self._shards.pop(other).close()
        self._generations.switch(model)

    def put(self, model: Model, points: Sequence[Point]) -> None:
        shard = self._shard(model)
        check_sizes(model, [point.vector for point in points])
        shard.put(points)
        self._changed(model, [point.post_id for point in points])

    def update(self, model: Model, points: Sequence[Point]) -> None:
        self._shard(model).update(points)
        self._changed(model, [point.post_id for point in points])

    def remove(self, post_ids: Sequence[UUID]) -> None:
        for model in self._generations.models():
            self._shard(model).remove(post_ids)
            self._changed(model, post_ids)

    def hashes(self, model: Model, post_ids: Sequence[UUID]) -> dict[UUID, str]:
        return self._shard(model).hashes(post_ids)

    def ids(self, model: Model, start: UUID | None, limit: int) -> tuple[list[UUID], UUID | None]:
        return self._shard(model).ids(start, limit)

    def search(self, vector: Sequence[float], limit: int, where: Where | None) -> list[Found]:
        if (model := self._generations.current) is None:
            return []
        check_sizes(model, [vector])
        return self._shard(model).search(vector, limit, where)

    def vector(self, post_id: UUID) -> list[float] | None:
        model = self._generations.current
        return None if model is None else self._shard(model).vector(post_id)

    def drop(self) -> None:
        self._abandon()
        for shard in self._shards.values():
            shard.close()
        self._shards.clear()
        self._generations.delete()

    def close(self) -> None:
        self._abandon()
        for shard in self._shards.values():
            shard.close()
        self._shards.clear()

    def start_build(self, model: Model) -> Build | None:
        """A copy to build the graph in, if that is worth it by now."""
        shard = self._shard(model)
        if self._build is not None or shard.unindexed() < self._enough.get(model, self._build_after):
            return None
        shard.flush()
        folder = self._generations.new_folder()
        try:
            shutil.copytree(shard.folder, folder)
        except OSError as exc:
            shutil.rmtree(folder, ignore_errors=True)
            self._later(model)
            raise Retry(f"There is no room for a copy of the vectors: {exc}") from exc
        self._build = Build(model, folder)
        return self._build

    def finish_build(self, build: Build, *, succeeded: bool) -> None:
        """Take the copy in place of the shard, with what changed meanwhile."""
        if build is not self._build:
            return  # abandoned
        self._build = None
        self._later(build.model)
        if not succeeded or build.model not in self._generations:
            shutil.rmtree(build.folder, ignore_errors=True)
            return
        old, new = self._shard(build.model), EdgeShard.load(build.folder)
        changed = list(build.changed)
        for start in range(0, len(changed), COPIED_AT_ONCE):
            new.copy_points(old, changed[start : start + COPIED_AT_ONCE])
        new.flush()
        if len(new) != len(old):
            new.close()
            shutil.rmtree(build.folder, ignore_errors=True)
            raise Retry(f"{len(new)} of {len(old)} points were found in the copy")
        self._shards[build.model] = new
        old.close()
        self._generations.keep(build.model, build.folder)
        self._enough[build.model] = new.unindexed() + self._build_after

    def _later(self, model: Model) -> None:
        self._enough[model] = self._enough.get(model, self._build_after) + self._build_after

    def _abandon(self) -> None:
        if self._build is not None:
            shutil.rmtree(self._build.folder, ignore_errors=True)
            self._build = None

    def _changed(self, model: Model, post_ids: Sequence[UUID]) -> None:
        if self._build is not None and self._build.model == model:
            self._build.changed.update(post_ids)

    def _shard(self, model: Model) -> EdgeShard:
        if model not in self._generations:
            raise no_generation(model)
        if model not in self._shards:
            self._shards[model] = EdgeShard.load(self._generations.where(model))
        return self._shards[model]
