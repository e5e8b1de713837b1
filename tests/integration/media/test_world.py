"""All files of a generated world, with photos and documents as the demo has them."""

from __future__ import annotations

from typing import Any

import pytest

from telegram_simulator.generate import build_world
from telegram_simulator.truth import truth_of
from telegram_simulator.world import World

pytestmark = pytest.mark.integration


@pytest.fixture
def world() -> World:
    return build_world(seed=5, channels=1, posts=60, days=2, private_share=0, largest_document=20_000)


async def test_the_store_equals_the_truth(desk: Any, world: World) -> None:
    await desk.capture()
    await desk.fetch()
    told = next(found for found in truth_of(world, digests=True)["channels"] if found["id"] == desk.news.id)
    truth = {message["id"]: message["media"]["sha256"] for message in told["messages"] if message["media"]}
    assert len(truth) > 10
    assert {row.message_id: row.sha256 for row in await desk.rows()} == truth
    assert {key.rpartition("/")[2].partition(".")[0] for key in desk.objects()} == set(truth.values())
    assert (await desk.queue.usage()).objects == len(set(truth.values()))
