"""The vector index on one machine: Qdrant Edge, in a thread of its own.

One process owns the folder. What `put` has accepted is in a log and survives a kill. From `build_after` new points on
a search graph is built in a process beside, and takes over when it is ready; until then searches compare one by one.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar
from uuid import UUID

from telegram_assistant.embedded.folder import FolderLock
from telegram_assistant.errors import AssistantError
from telegram_assistant.index.edge_shard import FULL_SCAN_KB
from telegram_assistant.index.edge_tenant import Build, EdgeTenant
from telegram_assistant.index.vectors import Found, Model, Point, Where
from telegram_assistant.log import get_logger
from telegram_assistant.processes.worker import our_module, start_in_thread

P = ParamSpec("P")
T = TypeVar("T")
POINTS_AT_ONCE = 100  # a call of Qdrant Edge stops all of Python: a few milliseconds each
IDS_AT_ONCE = 1000

log = get_logger(__name__)


class EdgeVectors:
    """A folder with one folder per tenant, opened at the first use."""

    def __init__(self, folder: Path, *, build_after: int = 50_000, full_scan_kb: int = FULL_SCAN_KB) -> None:
        self._owner = FolderLock(folder, "vector index")
        self._build_after = build_after
        self._full_scan_kb = full_scan_kb
        self._tenants: dict[UUID, EdgeTenant] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="edge")
        self._builder = ThreadPoolExecutor(1, thread_name_prefix="edge-build")
        self._process: subprocess.Popen[bytes] | None = None
        self._closing = False
        self._builds: list[Future[None]] = []

    async def current(self, tenant_id: UUID) -> Model | None:
        return await self._call(tenant_id, EdgeTenant.current)

    async def open(self, tenant_id: UUID, model: Model) -> None:
        await self._call(tenant_id, EdgeTenant.open, model)

    async def switch(self, tenant_id: UUID, model: Model) -> None:
        await self._call(tenant_id, EdgeTenant.switch, model)

    async def put(self, tenant_id: UUID, model: Model, points: Sequence[Point]) -> None:
        for start in range(0, len(points), POINTS_AT_ONCE):
            await self._call(tenant_id, EdgeTenant.put, model, points[start : start + POINTS_AT_ONCE])
        if points:
            await self._call(tenant_id, self._start_build, model)

    async def update(self, tenant_id: UUID, model: Model, points: Sequence[Point]) -> None:
        for start in range(0, len(points), POINTS_AT_ONCE):
            await self._call(tenant_id, EdgeTenant.update, model, points[start : start + POINTS_AT_ONCE])

    async def hashes(self, tenant_id: UUID, model: Model, post_ids: Sequence[UUID]) -> dict[UUID, str]:
        return await self._call(tenant_id, EdgeTenant.hashes, model, post_ids)

    async def remove(self, tenant_id: UUID, post_ids: Sequence[UUID]) -> None:
        await self._call(tenant_id, EdgeTenant.remove, post_ids)

    async def search(
        self, tenant_id: UUID, vector: Sequence[float], *, limit: int, where: Where | None = None
    ) -> list[Found]:
        return await self._call(tenant_id, EdgeTenant.search, vector, limit, where)

    async def vector(self, tenant_id: UUID, post_id: UUID) -> list[float] | None:
        return await self._call(tenant_id, EdgeTenant.vector, post_id)

    async def ids(self, tenant_id: UUID, model: Model) -> AsyncIterator[list[UUID]]:
        start: UUID | None = None
        while True:
            piece, start = await self._call(tenant_id, EdgeTenant.ids, model, start, IDS_AT_ONCE)
            if piece:
                yield piece
            if start is None:
                return

    async def mark(self, tenant_id: UUID) -> str | None:
        return await self._in_thread(lambda: self._mark(tenant_id))

    async def set_mark(self, tenant_id: UUID, mark: str) -> None:
        await self._call(tenant_id, EdgeTenant.set_mark, mark)

    async def drop(self, tenant_id: UUID) -> None:
        await self._call(tenant_id, EdgeTenant.drop)

    async def settle(self) -> None:
        """Wait until no search graph is being built."""
        while self._builds:
            await asyncio.wrap_future(self._builds.pop())

    async def close(self) -> None:
        self._closing = True
        if self._process is not None:
            self._process.kill()
        await self.settle()
        await self._in_thread(self._close)
        self._builder.shutdown()
        self._thread.shutdown()

    def _close(self) -> None:
        for tenant in self._tenants.values():
            tenant.close()
        self._tenants.clear()
        self._owner.release()

    async def _call(
        self, tenant_id: UUID, work: Callable[Concatenate[EdgeTenant, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        return await self._in_thread(lambda: work(self._tenant(tenant_id), *args, **kwargs))

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _mark(self, tenant_id: UUID) -> str | None:
        tenant = self._tenant(tenant_id)
        mark = tenant.mark()
        if not self._owner.is_there() or (mark is None and tenant.current() is not None):
            self._forget()
            return None
        return mark

    def _forget(self) -> None:
        """The files are gone, and what is open is nowhere on the disk any more: the next use begins anew."""
        for tenant in self._tenants.values():
            try:
                tenant.close()
            except (AssistantError, OSError, RuntimeError) as exc:
                log.debug("edge_not_closed", reason=str(exc))
        self._tenants.clear()
        self._owner.release()

    def _tenant(self, tenant_id: UUID) -> EdgeTenant:
        self._owner.take()
        if tenant_id not in self._tenants:
            self._tenants[tenant_id] = EdgeTenant(
                self._owner.folder / str(tenant_id), build_after=self._build_after, full_scan_kb=self._full_scan_kb
            )
        return self._tenants[tenant_id]

    def _start_build(self, tenant: EdgeTenant, model: Model) -> None:
        try:
            build = tenant.start_build(model)
        except AssistantError as exc:  # the points are stored; searches go on without a new graph
            log.warning("the search graph of the vector index was not built", reason=str(exc))
            return
        if build is not None:
            self._builds = [future for future in self._builds if not future.done()]
            self._builds.append(self._builder.submit(self._build, tenant, build))

    def _build(self, tenant: EdgeTenant, build: Build) -> None:
        command = our_module("telegram_assistant.index.edge_shard", str(build.folder))
        with start_in_thread(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            self._process = process
            if self._closing:
                process.kill()
            _, words = process.communicate()
        succeeded = process.returncode == 0
        if not succeeded and not self._closing:
            log.warning("the search graph of the vector index was not built", reason=words.decode()[-500:])
        try:
            self._thread.submit(tenant.finish_build, build, succeeded=succeeded).result()
        except AssistantError as exc:
            log.warning("the new search graph of the vector index cannot be used", reason=str(exc))
