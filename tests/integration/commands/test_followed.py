"""`tga channels followed`: what an account follows, from a simulated Telegram to the table, and into the list."""

from __future__ import annotations

import json
from typing import Any

import pytest
from redis.asyncio import Redis
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.integration.followed import CLUB, FIRST, JOINED, capture_of, followed_world

pytestmark = pytest.mark.integration

Tga = Any  # of conftest.py, which cannot be imported


async def test_what_is_followed_is_shown_and_a_folder_of_it_added(
    tga: Tga, database: AsyncEngine, redis: Redis
) -> None:
    async with followed_world() as sim, capture_of(sim, database, redis):
        told = json.loads((await tga("channels", "followed", "--json")).out)
        assert len(told) == JOINED + 1
        assert not any(one["watched"] for one in told)
        printed = await tga("channels", "followed", "--folder", "Work", "--add")
        assert f"@name_{FIRST}" in printed.words
        assert "Club" in printed.words
        assert "2 noted" in printed.words
        told = json.loads((await tga("channels", "followed", "--json")).out)
        assert {one["id"] for one in told if one["watched"]} == {FIRST, CLUB}
        assert "@elsewhere" in (await tga("channels", "followed", "t.me/addlist/AbCdEf123")).words


async def test_a_link_that_is_none_is_refused(tga: Tga) -> None:
    printed = await tga("channels", "followed", "t.me/durov")
    assert printed.code == 1
    assert "no link of a shared folder" in printed.out
