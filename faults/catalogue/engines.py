"""Faults of PostgreSQL and of the place for files."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import asyncpg

from faults.catalogue.valkey import FAULTS as OF_VALKEY
from faults.installation import Installation
from faults.trial import Break, Fault, Scope

MOST_CONNECTIONS = 200  # more than it allows
ROUNDS = 50
CUT = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE backend_type = 'client backend' AND NOT pid = ANY($1::integer[])
"""
REFUSE = """
CREATE OR REPLACE FUNCTION fault_refuses() RETURNS trigger LANGUAGE plpgsql AS
$$BEGIN RAISE EXCEPTION 'refused by a trigger'; END$$
"""


def stopped(name: str) -> Break:
    """SIGSTOP: it has its port and answers nothing."""

    @asynccontextmanager
    async def broken(lane: Installation) -> AsyncIterator[None]:
        pids = lane.engines.pids(name)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    return broken


def killed(name: str) -> Break:
    """kill -9; its service manager starts it again."""

    @asynccontextmanager
    async def broken(lane: Installation) -> AsyncIterator[None]:
        os.kill(lane.engines.pids(name)[0], signal.SIGKILL)
        yield

    return broken


def down(name: str) -> Break:
    """kill -9, and it stays so."""

    @asynccontextmanager
    async def broken(lane: Installation) -> AsyncIterator[None]:
        lane.engines.held.add(name)
        os.kill(lane.engines.pids(name)[0], signal.SIGKILL)
        try:
            yield
        finally:
            lane.engines.held.discard(name)

    return broken


@asynccontextmanager
async def read_only(lane: Installation) -> AsyncIterator[None]:
    """As a server is after a failover to a replica, or with a full disk."""
    connection = await asyncpg.connect(lane.engines.postgres.url)
    try:
        await connection.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        await connection.execute("SELECT pg_reload_conf()")
        yield
        await connection.execute("SET default_transaction_read_only = off")
        await connection.execute("ALTER SYSTEM RESET default_transaction_read_only")
        await connection.execute("SELECT pg_reload_conf()")
    finally:
        await connection.close()


@asynccontextmanager
async def no_connections_left(lane: Installation) -> AsyncIterator[None]:
    """Others have taken every connection, and those of ours are cut. Who is cut tries to come back, so in rounds."""
    taken: list[asyncpg.Connection] = []
    try:
        admin = await asyncpg.connect(lane.engines.postgres.url)
        taken.append(admin)
        for _ in range(ROUNDS):
            with suppress(asyncpg.PostgresError):
                while len(taken) < MOST_CONNECTIONS:
                    taken += [await asyncpg.connect(lane.engines.postgres.url)]
            ours = [connection.get_server_pid() for connection in taken]
            if not await admin.fetch(CUT, ours):
                break
        yield
    finally:
        for connection in taken:
            await connection.close()


def locked(table: str) -> Break:
    """A transaction of a stranger holds a table and does not end."""

    @asynccontextmanager
    async def broken(lane: Installation) -> AsyncIterator[None]:
        connection = await asyncpg.connect(lane.engines.postgres.url)
        try:
            async with connection.transaction():
                await connection.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
                yield
        finally:
            await connection.close()

    return broken


def refusing(table: str, operation: str, when: str = "true") -> Break:
    """A trigger refuses what is written to a table."""

    @asynccontextmanager
    async def broken(lane: Installation) -> AsyncIterator[None]:
        await lane.change(REFUSE)
        await lane.change(
            f"CREATE TRIGGER fault_refuses BEFORE {operation} ON {table} FOR EACH ROW WHEN ({when})"
            " EXECUTE FUNCTION fault_refuses()"
        )
        yield
        await lane.change(f"DROP TRIGGER fault_refuses ON {table}")

    return broken


@asynccontextmanager
async def deadlock(lane: Installation) -> AsyncIterator[None]:
    """A stranger takes posts, then channels; who saves takes them the other way round, and is the one that is ended."""
    for _ in range(5):
        connection = await asyncpg.connect(lane.engines.postgres.url)
        try:
            await connection.execute("SET deadlock_timeout = '20s'")
            async with connection.transaction():
                await connection.execute("LOCK TABLE posts IN SHARE ROW EXCLUSIVE MODE")
                for channel in lane.telegram.channels[:10]:
                    lane.telegram.post(channel)
                await asyncio.sleep(2)
                await connection.execute("SELECT count(*) FROM (SELECT 1 FROM channels FOR UPDATE) AS all_of_them")
        except asyncpg.PostgresError:
            pass  # we were the one
        finally:
            await connection.close()
    yield


@asynccontextmanager
async def no_place_for_files(lane: Installation) -> AsyncIterator[None]:
    """Where the folder of files was lies something else: as good as a read-only disk, and root feels it too."""
    media = lane.data / "media"
    shutil.move(media, lane.data / "media.away")
    media.write_text("not a folder", encoding="ascii")
    for channel in lane.telegram.channels[:3]:
        lane.telegram.post(channel, with_file=True)
    yield
    media.unlink()
    shutil.move(lane.data / "media.away", media)


@asynccontextmanager
async def silent_object_store(lane: Installation) -> AsyncIterator[None]:
    if lane.file_gate is None:
        raise RuntimeError("this installation keeps its files in a folder")
    lane.file_gate.silence()
    for channel in lane.telegram.channels[:3]:
        lane.telegram.post(channel, with_file=True)
    yield
    await lane.file_gate.open()


LIVE_ONLY = "NEW.last_parsed_at IS DISTINCT FROM OLD.last_parsed_at AND NEW.coverage IS DISTINCT FROM OLD.coverage"

FAULTS = (
    *OF_VALKEY,
    Fault(name="PostgreSQL is stopped", scope=Scope.SYSTEM, broken=stopped("postgres"), says="postgres"),
    Fault(name="PostgreSQL is down", scope=Scope.SYSTEM, broken=down("postgres"), says="postgres", quick=True),
    Fault(name="PostgreSQL is killed", scope=Scope.NOTHING, broken=killed("postgres"), lasts=5),
    Fault(name="PostgreSQL is read-only", scope=Scope.SYSTEM, broken=read_only, says="."),
    Fault(name="PostgreSQL has no connection left", scope=Scope.SYSTEM, broken=no_connections_left, says="postgres"),
    Fault(
        name="PostgreSQL takes no new posts",
        mark="N5",
        scope=Scope.SYSTEM,
        broken=refusing("posts", "INSERT"),
        says=".",
    ),
    Fault(
        name="The live listener fails on every update",
        mark="N5",
        scope=Scope.ACCOUNT,
        broken=refusing("channels", "UPDATE", LIVE_ONLY),
        says="live",
    ),
    Fault(name="A stranger holds the table of channels", scope=Scope.SYSTEM, broken=locked("channels"), says="."),
    Fault(name="Savers run into deadlocks", mark="N33", scope=Scope.NOTHING, broken=deadlock, lasts=1),
    Fault(
        name="The outbox cannot be emptied",
        scope=Scope.STAGE,
        broken=refusing("outbox", "DELETE"),
        says="relay|outbox|publish",
    ),
    Fault(
        name="The place for files is not writable",
        mark="N32",
        scope=Scope.STAGE,
        broken=no_place_for_files,
        says="media|file",
    ),
    Fault(
        name="The object store answers nothing",
        mark="N32",
        scope=Scope.STAGE,
        broken=silent_object_store,
        says="media|file|s3",
        layout="s3",
    ),
)
