"""A fresh demo has a trend to show within minutes: its history is asked for, and the real finder finds what rises."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.e2e.conftest import Starter

pytestmark = pytest.mark.e2e

RISING = (
    "SELECT coalesce(json_agg(json_build_object('key', key, 'score', score, 'channels', channels)), '[]') FROM trends"
)
WITHOUT_HISTORY = "SELECT count(*) FROM channels WHERE status = 'active' AND requested_from IS DISTINCT FROM 1"


async def test_a_fresh_demo_shows_what_rises(start: Starter) -> None:
    tga = await (await start(TGA_DEMO_POSTS="55")).ready()  # as a newcomer has it
    rising: dict[str, dict[str, float]] = {}
    for _ in range(600):
        if rising := {one["key"]: one for one in json.loads(await tga.query(RISING))}:
            break
        await asyncio.sleep(1)
    comet = [one for key, one in rising.items() if "комет" in key.casefold()]  # by its name, or by a headline
    assert comet, rising
    assert max(one["channels"] for one in comet) >= 5
    assert await tga.query(WITHOUT_HISTORY) == 0
    details = await tga.well()
    assert details["tasks"]["demo_visitor"]["status"] == "ok"
    assert (await tga.stop()).code == 0
