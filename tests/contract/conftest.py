"""Every adapter of an index, behind the same suite."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from qdrant_client import AsyncQdrantClient

from telegram_assistant.index.cypher_graph import Graph
from telegram_assistant.index.edge_vectors import EdgeVectors
from telegram_assistant.index.ladybug_graph import LadybugGraph
from telegram_assistant.index.neo4j_graph import Neo4jGraph
from telegram_assistant.index.qdrant_vectors import QdrantVectors
from telegram_assistant.index.vectors import Vectors
from tests.contract.neo4j_server import Address, OutOfReachError, neo4j_server

in_reference_mode = pytest.mark.filterwarnings("ignore:Payload indexes have no effect in the local Qdrant")


@pytest.fixture(scope="session")
def neo4j_address(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Address]:
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base  # one for all workers
    assert request.config.cache is not None
    try:
        with neo4j_server(shared / "neo4j", request.config.cache.mkdir("neo4j")) as address:
            yield address
    except OutOfReachError as exc:
        if os.environ.get("CI") or os.environ.get("TGA_REQUIRE_NEO4J"):
            raise
        pytest.skip(str(exc))


@pytest.fixture
def tenant() -> UUID:
    return uuid4()


@pytest.fixture(params=["edge", pytest.param("qdrant", marks=in_reference_mode)])
async def vectors(request: pytest.FixtureRequest, folder: Path) -> AsyncIterator[Vectors]:
    adapter: Vectors
    if request.param == "edge":
        adapter = EdgeVectors(folder / "vectors")
    else:
        adapter = QdrantVectors(AsyncQdrantClient(":memory:"))
    yield adapter
    await adapter.close()


@pytest.fixture(params=["ladybug", "neo4j"])
async def graph(request: pytest.FixtureRequest, folder: Path) -> AsyncIterator[Graph]:
    adapter: Graph
    if request.param == "ladybug":
        adapter = LadybugGraph(folder / "graph", memory_mb=128)
    else:
        address: Address = request.getfixturevalue("neo4j_address")
        adapter = Neo4jGraph(address.uri, address.user, address.password)
    yield adapter
    await adapter.close()
