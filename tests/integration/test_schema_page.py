"""docs/reference/schema.md is what migrations make: a table, column, index or rule that changes by accident shows."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.integration.schema import read_schema

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]


async def test_the_page_is_the_schema(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)
    schema = importlib.import_module("scripts.pages.schema")
    there = (ROOT / schema.SCHEMA).read_text("utf-8")
    assert there == await schema.schema_page(database_url), "run scripts/docs with the address of a migrated database"


async def test_every_table_and_every_meaning_is_real(database: AsyncEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)
    schema = importlib.import_module("scripts.pages.schema")
    tables = (await read_schema(database)).tables
    assert set(schema.TABLES) == set(tables)
    assert set(schema.COLUMNS) <= {str(column) for table in tables.values() for column in table.columns}
