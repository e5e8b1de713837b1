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
    tga = await (await start()).ready()
    rising: dict[str, dict[str, float]] = {}
    for _ in range(240):
        if rising := {one["key"]: one for one in json.loads(await tga.query(RISING))}:
            break
        await asyncio.sleep(1)
    assert "комета" in rising, rising
    assert rising["комета"]["score"] > 3
    assert rising["комета"]["channels"] >= 5
    assert await tga.query(WITHOUT_HISTORY) == 0
    details = await tga.well()
    assert details["tasks"]["demo_visitor"]["status"] == "ok"
    assert (await tga.stop()).code == 0
