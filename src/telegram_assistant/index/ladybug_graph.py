"""The graph on one machine: Ladybug, in a thread of its own.

Ladybug allows one process and one writing transaction at a time, so everything runs in one thread, one after another.
A commit is on the disk when it returns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import ladybug

from telegram_assistant.embedded.folder import FolderLock
from telegram_assistant.errors import Fatal, Reject, Retry
from telegram_assistant.index.cypher import MARK, NODES, RELATIONS, SCHEMA_VERSION, Params, Row, Steps
from telegram_assistant.index.cypher_graph import Graph

T = TypeVar("T")
MEGABYTE = 2**20
MOST_BYTES = 2**40  # of address space; the engine's own 8 TB do not fit everywhere
THREADS = 2  # each takes its share of the memory
PROBE_BYTES = 4 * MEGABYTE
PASSING = ("IO exception", "Buffer manager exception")


class LadybugGraph(Graph):
    """A folder with one Ladybug database, opened at the first use."""

    def __init__(self, folder: Path, *, memory_mb: int = 256) -> None:  # it fails below 96
        self._owner = FolderLock(folder, "graph")
        self._path = folder / "graph"
        self._memory = memory_mb * MEGABYTE
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ladybug")
        self._database: ladybug.Database | None = None
        self._connection: ladybug.Connection | None = None
        self._spoiled = False  # a write failed

    async def _write(self, work: Callable[[], Steps[T]]) -> T:
        return await self._in_thread(lambda: self._transact(work()))

    async def read(self, work: Callable[[], Steps[T]]) -> T:
        return await self._in_thread(lambda: _run(self._open(), work()))

    async def mark(self) -> str | None:
        """What is open may be nowhere on the disk any more: then the next use begins anew."""
        if not await self._in_thread(self._is_there):
            return None
        return await super().mark()

    async def close(self) -> None:
        await self._in_thread(self._close)
        self._thread.shutdown()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _transact(self, steps: Steps[T]) -> T:
        if self._spoiled:
            self._open_again()
        connection = self._open()
        with _translated():
            connection.execute("BEGIN TRANSACTION")
        try:
            result = _run(connection, steps)
            with _translated():
                connection.execute("COMMIT")
        except Retry:
            self._spoiled = True
            raise
        except BaseException:
            self._roll_back(connection)
            raise
        return result

    def _open_again(self) -> None:
        """After a file that could not be written, as on a full disk, the next commit would wait inside the engine for
        ever. The files have to be opened again, and not before they can be written: closing them would end the process.
        """
        probe = self._path.with_name("probe")
        try:
            probe.write_bytes(bytes(PROBE_BYTES))
        except OSError as exc:
            raise Retry(f"The graph cannot be written: {exc}") from exc
        finally:
            probe.unlink(missing_ok=True)
        self._close()
        self._spoiled = False

    def _is_there(self) -> bool:
        there = self._connection is None or (self._owner.is_there() and self._path.exists())
        if not there:
            self._close()
        return there

    def _roll_back(self, connection: ladybug.Connection) -> None:
        try:
            connection.execute("ROLLBACK")
        except RuntimeError as exc:
            if "No active transaction" not in str(exc):  # a failed statement may have rolled back already
                self._close()  # in any state: the next use opens the files again

    def _open(self) -> ladybug.Connection:
        if self._connection is None:
            self._owner.take()
            try:
                self._database = _open_database(self._path, self._memory)
                connection = ladybug.Connection(self._database, num_threads=THREADS)
                _make_schema(connection)
            except BaseException:
                self._close()
                raise
            self._connection = connection
        return self._connection

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        if self._database is not None:
            self._database.close()
        self._connection = self._database = None
        self._owner.release()


def _open_database(path: Path, memory: int) -> ladybug.Database:
    try:
        return ladybug.Database(path, buffer_pool_size=memory, max_db_size=MOST_BYTES, max_num_threads=THREADS)
    except RuntimeError as exc:
        raise Fatal(
            f"The graph in {path.parent} cannot be opened ({exc}): move that folder away, then index the posts again"
        ) from exc


def _make_schema(connection: ladybug.Connection) -> None:
    """The tables, made once; a kill in between is mended by the next start, because the version comes last."""
    _rows(connection, "CREATE NODE TABLE IF NOT EXISTS Schema(name STRING PRIMARY KEY, version INT64)", {})
    found = _rows(connection, "MATCH (s:Schema) RETURN s.version", {})
    if found and found[0][0] != SCHEMA_VERSION:
        raise Fatal(
            f"The graph was made by another version of this program (schema {found[0][0]}, not {SCHEMA_VERSION}): move"
            " its folder away, then index the posts again"
        )
    _rows(connection, f"CREATE NODE TABLE IF NOT EXISTS {MARK}(key STRING PRIMARY KEY, id STRING)", {})
    if found:
        return
    for label, columns in NODES.items():
        every = {"key": "STRING PRIMARY KEY", "tenant": "STRING"} | columns
        listed = ", ".join(f"{name} {kind}" for name, kind in every.items())
        _rows(connection, f"CREATE NODE TABLE IF NOT EXISTS {label}({listed})", {})
    for relation, (start, end, columns) in RELATIONS.items():
        listed = "".join(f", {name} {kind}" for name, kind in columns.items())
        _rows(connection, f"CREATE REL TABLE IF NOT EXISTS {relation}(FROM {start} TO {end}{listed})", {})
    _rows(connection, "MERGE (s:Schema {name: 'graph'}) SET s.version = $version", {"version": SCHEMA_VERSION})


def _run(connection: ladybug.Connection, steps: Steps[T]) -> T:
    try:
        statement, params = next(steps)
        while True:
            statement, params = steps.send(_rows(connection, statement, params))
    except StopIteration as end:
        result: T = end.value
        return result


def _rows(connection: ladybug.Connection, statement: str, params: Params) -> list[Row]:
    with _translated():
        result = connection.execute(statement, params)
        assert isinstance(result, ladybug.QueryResult)  # noqa: S101 - a list comes from several statements at once
        with result:
            return [tuple(_plain(value) for value in row) for row in result.get_all()]


def _plain(value: Any) -> Any:
    """Ladybug drops the zone of a time; what we give it is UTC."""
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) else value


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except UnicodeEncodeError as exc:
        raise Reject(f"Text that cannot be written as UTF-8: {exc.reason}") from exc
    except RuntimeError as exc:  # all its errors are of this kind
        if str(exc).startswith(PASSING):
            raise Retry(f"The graph cannot work now: {exc}") from exc
        raise Reject(f"The graph refuses: {exc}") from exc
