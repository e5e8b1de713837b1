"""A former version and this one on one database: replaced process by process, while the world goes on."""

from __future__ import annotations

import asyncio
import random

import pytest

from telegram_simulator.faults import Fault
from tests.e2e.pipeline.conftest import Town
from tests.upgrade.installation import Installation
from tests.upgrade.living import KEEPER, Life, Searches, Store, going_on, open_channels
from tests.upgrade.versions import THIS, Version, listed

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1200)]

CAPTURED, INDEXED = "posts_parsed_total", 'stage_events_total{outcome="done",stage="indexing"}'
SLOW = Fault("slow", "messages.getHistory", seconds=0.2)  # so that two processes find something to share
WAY_BACK = "0012"  # code of this schema and later ones knows whether it may run on a newer one
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
    if "api" in old.roles:
        await searches.open(house, old)

    async with going_on(life, searches):
        await the_schema_changes_under_it(house, old)
        await ingest_is_shared_and_the_former_worker_reads_both(house, town, old)
        await workers_are_shared_and_the_new_one_reads_both(house, town, old)
        await searches.open(house, new)
        if "api" in old.roles:
            await searches.close(house, old)
        await house.end(old, "ingest")
        await store.caught_up()
        await searches.ask_all()
    assert all(life.done[what] for what in ("post", "edit", "delete"))
    await store.whole()
    assert searches.wrong == []
    assert all(searches.answered[version.name] for version in (old, new) if "api" in version.roles)
    assert house.troubles() == []
    await it_refuses_or_runs(house, old)


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


async def ingest_is_shared_and_the_former_worker_reads_both(house: Installation, town: Town, old: Version) -> None:
    await house.begin(THIS, "ingest")
    since = await house.counts(CAPTURED, (old, "ingest"), (THIS, "ingest"))
    town.sim.faults.add(SLOW)
    await open_channels(town, house, 5, posts=4)
    await house.counts_grow(CAPTURED, since)
    await Store(house, town).caught_up()


async def workers_are_shared_and_the_new_one_reads_both(house: Installation, town: Town, old: Version) -> None:
    await house.begin(THIS, "worker")
    await house.counts_grow(INDEXED, await house.counts(INDEXED, (old, "worker"), (THIS, "worker")))
    await house.end(old, "worker")
    since = await house.counts(CAPTURED, (old, "ingest"), (THIS, "ingest"))
    await open_channels(town, house, 5, posts=4)
    await house.counts_grow(CAPTURED, since)
    await Store(house, town).caught_up()


async def it_refuses_or_runs(house: Installation, old: Version) -> None:
    """The former version, started again on the newer schema."""
    if old.schema >= WAY_BACK:
        await house.begin(old, "ingest")
        await house.end(old, "ingest")
        return
    code, printed = await house.run(old, "ingest")
    assert code == 1
    reason = f"error: The database was made by a newer version (schema {THIS.schema}): start that version"
    assert printed.splitlines()[-1] == reason
    assert "Traceback" not in printed
