"""The way back: this version on the schema of the next one, without a backup."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.e2e.pipeline.conftest import Town
from tests.upgrade.installation import Installation
from tests.upgrade.living import KEEPER, Life, Searches, Store, going_on, open_channels
from tests.upgrade.versions import THIS, Version, following

pytestmark = pytest.mark.e2e

SEED = 9
NEWER = "The database was made by a newer version (schema {schema}): "


@pytest.fixture
def following_version(folder: Path) -> Version:
    return following(folder / "code" / "next")


async def test_this_version_goes_on_and_starts_again_on_the_next_schema(
    following_version: Version, house: Installation, town: Town
) -> None:
    """Its tables change under it while everybody writes to them; then it is started again, as after a way back."""
    store = Store(house, town)
    searches = Searches(town.say(town.open("keeper"), KEEPER))
    await searches.open(house, THIS, "up")
    await house.watch(*store.channels)
    channels = await open_channels(town, house, 3, posts=5)
    await store.whole()
    life = Life(town, channels, random.Random(SEED))
    async with going_on(life, searches):
        schema = following_version.schema
        assert await house.run(following_version, "migrate") == (0, f"The schema is {schema}.\n")
        life_before = life.done.total()
        await store.caught_up()
        await searches.close(house, THIS, "up")
        await searches.open(house, THIS, "up")
        await store.caught_up()
        await searches.ask_all()
    assert life.done.total() > life_before > 0
    await store.whole()
    assert await house.schema() == schema, "the older version left it as it is"
    assert await house.rows("SELECT 1 FROM posts WHERE mood <> 'good'") == []
    assert "schema_of_a_newer_version" in house.running["this", "up"].log.read_text()
    assert searches.wrong == []
    assert house.troubles() == []


async def test_what_the_way_back_leads_to(following_version: Version, house: Installation, tmp_path: Path) -> None:
    schema = following_version.schema
    assert (await house.run(following_version, "migrate"))[0] == 0
    code, printed = await house.run(THIS, "migrate")
    assert code == 0
    assert printed.splitlines()[-1] == f"The schema is {schema}, of a newer version; this one runs on it."
    code, printed = await house.run(THIS, "backup", str(tmp_path / "backup.tar"))
    assert code == 1, "it would leave out tables that it does not know"
    assert printed.splitlines()[-1] == f"error: {NEWER.format(schema=schema)}make the backup with that"

    await house.change("UPDATE alembic_version SET runs_from = version_num")  # as a migration that takes away does it
    code, printed = await house.run(THIS, "ingest")
    assert code == 1
    assert printed.splitlines()[-1] == f"error: {NEWER.format(schema=schema)}start that version"
    assert "Traceback" not in printed
