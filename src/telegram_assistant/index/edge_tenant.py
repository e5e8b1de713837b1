"""The vectors of one tenant in Qdrant Edge: its generations, and their search graphs, built beside the work."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from telegram_assistant.embedded.folder import explain_os_error
from telegram_assistant.errors import Fatal, Retry
from telegram_assistant.index.edge_shard import EdgeShard
from telegram_assistant.index.vectors import Found, Model, Point, Where, check_sizes, no_generation

COPIED_AT_ONCE = 100
FILE = "generations.json"


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
        self.close()
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
        if build is not self._build:  # abandoned: the process may have written after its copy was removed
            shutil.rmtree(build.folder, ignore_errors=True)
            if self._generations.current is None:
                shutil.rmtree(build.folder.parent, ignore_errors=True)
            return
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


class Generations:
    """The generations of one tenant. What the file does not name is the rest of an unfinished step, and is deleted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.current: Model | None = None
        self._mark = ""
        self._folders: dict[Model, str] = {}
        self._load()

    def __contains__(self, model: Model) -> bool:
        return model in self._folders

    def models(self) -> list[Model]:
        return list(self._folders)

    def where(self, model: Model) -> Path:
        return self.folder / self._folders[model]

    def new_folder(self) -> Path:
        """A name for a folder; it counts once `keep` has named it."""
        return self.folder / secrets.token_hex(8)

    def keep(self, model: Model, folder: Path) -> None:
        """This folder holds the generation from now on; the first one of all is current."""
        old = self._folders.get(model)
        self._folders[model] = folder.name
        self.current = self.current or model
        self._save()
        if old is not None:
            shutil.rmtree(self.folder / old, ignore_errors=True)

    def switch(self, model: Model) -> None:
        """The one that stays, and answers."""
        others = [name for other, name in self._folders.items() if other != model]
        self._folders = {model: self._folders[model]}
        self.current = model
        self._save()
        for name in others:
            shutil.rmtree(self.folder / name, ignore_errors=True)

    def mark(self) -> str | None:
        """As the file says it now; None: there is none."""
        try:
            return str(json.loads((self.folder / FILE).read_text(encoding="utf-8")).get("mark", ""))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as exc:
            raise _unreadable(self.folder, exc) from exc

    def set_mark(self, mark: str) -> None:
        self._mark = mark
        self._save()

    def delete(self) -> None:
        """All of it, the file first: a half-deleted tenant is no tenant."""
        (self.folder / FILE).unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.current, self._folders, self._mark = None, {}, ""

    def _load(self) -> None:
        if not self.folder.exists():
            return
        try:
            raw = (self.folder / FILE).read_text(encoding="utf-8") if (self.folder / FILE).exists() else "{}"
            listed = json.loads(raw)
            self._mark = str(listed.get("mark", ""))
            for one in listed.get("generations", ()):
                model = Model(one["model"], one["size"])
                self._folders[model] = one["folder"]
                if one["current"]:
                    self.current = model
        except OSError as exc:
            raise Fatal(explain_os_error(exc, self.folder)) from exc
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            raise _unreadable(self.folder, exc) from exc
        for path in self.folder.iterdir():
            if path.is_dir() and path.name not in self._folders.values():
                shutil.rmtree(path, ignore_errors=True)

    def _save(self) -> None:
        listed = [
            {"model": model.name, "size": model.size, "folder": name, "current": model == self.current}
            for model, name in self._folders.items()
        ]
        draft = self.folder / f"{FILE}.new"
        try:
            with draft.open("w", encoding="utf-8") as file:
                json.dump({"mark": self._mark, "generations": listed}, file, ensure_ascii=False, indent=1)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self.folder / FILE)
        except OSError as exc:
            raise Retry(explain_os_error(exc, self.folder)) from exc


def _unreadable(folder: Path, exc: Exception) -> Fatal:
    return Fatal(f"{folder / FILE} cannot be read ({exc}): move {folder} away, then index the posts again")
