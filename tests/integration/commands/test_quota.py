"""`tga tenants quota`: how much room a tenant has."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

pytestmark = pytest.mark.integration

Tga = Any  # of conftest.py, which cannot be imported


async def quota(database: AsyncEngine) -> Any:
    async with database.connect() as connection:
        return await connection.scalar(text("SELECT storage_quota_mb FROM tenants WHERE name = 'system'"))


async def test_a_quota_is_set_and_taken_away(tga: Tga, database: AsyncEngine) -> None:
    assert "system: 500 MB, of which 0 % are used" in (await tga("tenants", "quota", "system", "500")).words
    assert await quota(database) == 500
    assert "no quota" in (await tga("tenants", "quota", "system", "0")).words
    assert await quota(database) == 0
    assert (await tga("tenants", "quota", "system", "default")).code == 0
    assert await quota(database) is None


@pytest.mark.parametrize("given", ["much", "1.5", "٣", "9" * 30, ""])
async def test_what_is_no_quota(tga: Tga, database: AsyncEngine, given: str) -> None:
    assert (await tga("tenants", "quota", "system", given)).code != 0
    assert await quota(database) is None


async def test_an_unknown_tenant(tga: Tga) -> None:
    assert (await tga("tenants", "quota", "nobody", "5")).code != 0
