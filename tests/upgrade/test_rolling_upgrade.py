"""A former version and this one on one database: replaced process by process, while the world goes on."""

from __future__ import annotations

import asyncio
import random

import pytest

from tests.e2e.pipeline.conftest import Town
from tests.upgrade.installation import Installation
from tests.upgrade.living import KEEPER, Life, Searches, Store, going_on, open_channels
from tests.upgrade.versions import THIS, Version, listed

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1200)]

CAPTURED, INDEXED = "posts_parsed_total", 'stage_events_total{outcome="done",stage="indexing"}'
SEED = 8


@pytest.mark.parametrize("previous", listed(), indirect=True)
async def test_the_former_version_is_replaced_without_a_pause(
    previous: Version, house: Installation, town: Town
) -> None:
    old, new, store = previous, THIS, Store(house, town)
    await it_is_the_former_version(house, old)
    await asyncio.gather(*(house.begin(old, role) for role in ("ingest", "worker")))
    assert await house.schema() == old.schema
    assert old.schema < new.schema, "tests/upgrade/previous has to name commits from before the newest migration"
    keeper = town.say((await open_channels(town, house, 1))[0], KEEPER)
    channels = await open_channels(town, house, 3, posts=5)
    await store.whole()
    life, searches = Life(town, channels, random.Random(SEED)), Searches(keeper)
    await searches.open(house, old)

    async with going_on(life, searches):
        await the_schema_changes_under_it(house, old)
        await the_new_ingest_waits_for_the_account(house, town, old)
        await the_new_worker_takes_over_and_reads_what_the_former_ingest_tells(house, old)
        await searches.open(house, new)
        await searches.close(house, old)
        await the_new_ingest_takes_over(house, town, old)
        await searches.ask_all()
    assert all(life.done[what] for what in ("post", "edit", "delete"))
    await store.whole()
    assert searches.wrong == []
    assert all(searches.answered[version.name] for version in (old, new))
    assert house.troubles() == []
    # The way back: the former version runs on the newer schema.
    await house.begin(old, "ingest")
    await house.end(old, "ingest")


async def it_is_the_former_version(house: Installation, old: Version) -> None:
    """The package is installed in the interpreter that both use."""
    assert (await house.located(old)).is_relative_to(old.source)
    assert (await house.located(THIS)).is_relative_to(THIS.source)


async def the_schema_changes_under_it(house: Installation, old: Version) -> None:
    assert await house.run(THIS, "migrate") == (0, f"The schema is {THIS.schema}.\n")
    assert await house.schema() == THIS.schema
    since = await house.counts(CAPTURED, (old, "ingest")), await house.counts(INDEXED, (old, "worker"))
    await house.counts_grow(CAPTURED, since[0])
    await house.counts_grow(INDEXED, since[1])


async def the_new_ingest_waits_for_the_account(house: Installation, town: Town, old: Version) -> None:
    """One process at a time uses an account (N11)."""
    await house.begin(THIS, "ingest")
    since = await house.counts(CAPTURED, (old, "ingest"))
    await open_channels(town, house, 5, posts=4)
    await house.counts_grow(CAPTURED, since)
    await Store(house, town).caught_up()


async def the_new_worker_takes_over_and_reads_what_the_former_ingest_tells(house: Installation, old: Version) -> None:
    """One process at a time holds embedded indexes (N30)."""
    await house.begin(THIS, "worker")
    since = await house.counts(INDEXED, (THIS, "worker"))
    await house.end(old, "worker")
    await house.counts_grow(INDEXED, since)


async def the_new_ingest_takes_over(house: Installation, town: Town, old: Version) -> None:
    since = await house.counts(CAPTURED, (THIS, "ingest"))
    await house.end(old, "ingest")
    await open_channels(town, house, 5, posts=4)
    await house.counts_grow(CAPTURED, since)
    await Store(house, town).caught_up()
