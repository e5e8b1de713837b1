"""The graph for many machines: Neo4j 5 through its own driver."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from neo4j import AsyncGraphDatabase, AsyncManagedTransaction, AsyncSession, NotificationMinimumSeverity
from neo4j.exceptions import AuthError, ClientError, ConfigurationError, DriverError, Neo4jError
from neo4j.time import DateTime

from telegram_assistant.errors import Fatal, Reject, Retry
from telegram_assistant.index.cypher import NODES, Row, Steps
from telegram_assistant.index.cypher_graph import Graph
from telegram_assistant.tls import ADVICE, distrust, verified_tls

T = TypeVar("T")
PATIENCE = 5.0  # seconds for a connection and for repeating a transaction; the bus waits longer
# Another worker was quicker with a node that both wanted to delete, or to hold.
MET_ANOTHER = {
    "Neo.ClientError.Schema.ConstraintValidationFailed",
    "Neo.ClientError.Statement.EntityNotFound",
}
ALREADY_THERE = {
    "Neo.ClientError.Schema.EquivalentSchemaRuleAlreadyExists",
    "Neo.ClientError.Schema.ConstraintAlreadyExists",
    "Neo.ClientError.Schema.IndexAlreadyExists",
}
FOR_A_PERSON = ("Neo.ClientError.Security.", "Neo.ClientError.Database.")


class Neo4jGraph(Graph):
    """A database of a Neo4j server; the driver connects at the first use."""

    def __init__(
        self,
        uri: str,
        user: str,
        password: str,
        database: str = "neo4j",
        *,
        patience: float = PATIENCE,
        ca_file: Path | None = None,
    ) -> None:
        self._uri = uri
        self._database = database
        address, tls = _secured(uri, ca_file)
        self._driver = AsyncGraphDatabase.driver(
            address,
            auth=(user, password),
            connection_timeout=patience,
            connection_acquisition_timeout=2 * patience,
            max_transaction_retry_time=patience,
            notifications_min_severity=NotificationMinimumSeverity.OFF,
            **tls,
        )
        self._has_schema = False
        self._making_schema = asyncio.Lock()

    async def _write(self, work: Callable[[], Steps[T]]) -> T:
        await self._make_schema()
        async with self._translated(), self._driver.session(database=self._database) as session:
            return await session.execute_write(_run, work)

    async def read(self, work: Callable[[], Steps[T]]) -> T:
        await self._make_schema()
        async with self._translated(), self._driver.session(database=self._database) as session:
            return await session.execute_read(_run, work)

    async def close(self) -> None:
        await self._driver.close()

    async def _make_schema(self) -> None:
        """Once; calls that come meanwhile wait, because without its constraint a MERGE may make two nodes."""
        async with self._making_schema:
            if self._has_schema:
                return
            async with self._translated(), self._driver.session(database=self._database) as session:
                for label in NODES:
                    name = label.lower()
                    key = f"CONSTRAINT {name}_key IF NOT EXISTS FOR (n:{label}) REQUIRE n.key IS UNIQUE"
                    await _define(session, key)
                    await _define(session, f"INDEX {name}_tenant IF NOT EXISTS FOR (n:{label}) ON (n.tenant)")
            self._has_schema = True

    @asynccontextmanager
    async def _translated(self) -> AsyncIterator[None]:
        try:
            yield
        except (AuthError, ConfigurationError) as exc:
            raise Fatal(
                f"Neo4j at {self._uri} does not let us in ({exc}): check its address, user and password"
            ) from exc
        except UnicodeEncodeError as exc:
            raise Reject(f"Text that cannot be written as UTF-8: {exc.reason}") from exc
        except ClientError as exc:
            code = exc.code or ""
            if code in MET_ANOTHER:
                raise Retry(f"Another worker changed the same part of the graph: {exc.message}") from exc
            if code.startswith(FOR_A_PERSON):
                raise Fatal(f"Neo4j at {self._uri} cannot be used ({code}): {exc.message}") from exc
            raise Reject(f"The graph refuses: {code}: {exc.message}") from exc
        except (Neo4jError, DriverError, OSError) as exc:
            raise Retry(f"Neo4j at {self._uri} is away: {self._reason(exc)}") from exc

    def _reason(self, error: Exception) -> str:
        if why := distrust(error):
            return why
        # A driver that looks for a cluster does not pass on why it was not let in.
        perhaps = f"; if it runs, its certificate may not be trusted: {ADVICE}" if "+s://" in self._uri else ""
        return f"{error}{perhaps}"


def _secured(uri: str, ca_file: Path | None) -> tuple[str, dict[str, Any]]:
    """The driver takes no authorities with `neo4j+s://`: the same, said in its other way."""
    scheme, _, rest = uri.partition("://")
    if ca_file is None or not scheme.endswith("+s"):
        return uri, {}
    return f"{scheme.removesuffix('+s')}://{rest}", {"ssl_context": verified_tls(ca_file)}


async def _define(session: AsyncSession, what: str) -> None:
    async def create(transaction: AsyncManagedTransaction) -> None:
        result = await transaction.run(f"CREATE {what}")
        await result.consume()

    try:
        await session.execute_write(create)  # tried again when another process does the same and they lock each other
    except ClientError as exc:
        if exc.code not in ALREADY_THERE:  # IF NOT EXISTS looks before it locks
            raise


async def _run(transaction: AsyncManagedTransaction, work: Callable[[], Steps[T]]) -> T:
    steps = work()
    try:
        statement, params = next(steps)
        while True:
            result = await transaction.run(statement, params)
            statement, params = steps.send([_plain(record.values()) async for record in result])
    except StopIteration as end:
        value: T = end.value
        return value


def _plain(values: list[Any]) -> Row:
    return tuple(value.to_native() if isinstance(value, DateTime) else value for value in values)
