"""Files that vanish from the store are found by turns, and fetched from Telegram again; another store is told of."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from telegram_assistant.ingest.media import MediaProcessor, MediaUpkeep
from telegram_assistant.stores.media import MediaStore
from telegram_assistant.stores.postgres.channels import Channels
from telegram_assistant.stores.postgres.media import Evictions
from telegram_assistant.stores.postgres.upkeep import Upkeep
from telegram_simulator.model import File

pytestmark = pytest.mark.integration

Desk = Any  # of conftest.py, which cannot be imported
Make = Callable[..., File]


def kept(desk: Desk, place: str = "here", store: MediaStore | None = None) -> MediaUpkeep:
    return MediaUpkeep(Upkeep(desk.database), Evictions(desk.database), store or desk.store, place)


async def change(desk: Desk, statement: str, **values: Any) -> None:
    async with desk.database.begin() as connection:
        await connection.execute(text(statement), values)


async def look(desk: Desk, upkeep: MediaUpkeep) -> bool:
    await change(desk, "UPDATE upkeep SET at = to_timestamp(0)")
    return await upkeep.look()


async def fetch(desk: Desk) -> None:
    rest = [desk.queue, Channels(desk.database), desk.store, desk.accounts]
    processor = MediaProcessor(*rest, rules=desk.rules, clock=lambda: datetime.now(UTC) + timedelta(seconds=5))
    while await processor.step():
        pass


@pytest.fixture
async def stored(desk: Desk, make_photo: Make) -> Desk:
    desk.post(*(make_photo(number) for number in range(3)))
    await desk.capture()
    await fetch(desk)
    await look(desk, kept(desk))
    return desk


async def test_n14_a_file_that_vanished_is_fetched_again(stored: Desk) -> None:
    first, gone, last = await stored.rows()
    await stored.store.delete(gone.storage_key)
    await change(stored, "UPDATE posts SET deleted_at = now() WHERE message_id = :id", id=last.message_id)
    await stored.store.delete(last.storage_key)
    upkeep = kept(stored)
    assert not await look(stored, upkeep)
    assert await stored.statuses() == ["stored", "pending", "evicted"], "Telegram no longer has the last one"
    assert "vanished" in (await stored.rows())[2].reason
    await fetch(stored)
    assert await stored.statuses() == ["stored", "stored", "evicted"]
    assert await stored.read(gone.storage_key)
    assert first.storage_key in stored.objects()
    await look(stored, upkeep)
    assert await stored.statuses() == ["stored", "stored", "evicted"], "once"


async def test_n14_an_emptied_store_is_told_and_filled_again_when_nobody_mounts_it(stored: Desk) -> None:
    before = stored.objects()
    for path in stored.folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    upkeep = kept(stored)
    assert not await look(stored, upkeep)
    assert await stored.statuses() == ["stored"] * 3, "a disk may be mounted again"
    report = await upkeep.report()
    assert report["status"] == "degraded"
    assert "empty or another one" in report["error"]
    await change(stored, "UPDATE upkeep SET state = jsonb_set(state, '{missed_since}', '\"2026-01-01T00:00:00Z\"')")
    await look(stored, upkeep)
    assert await stored.statuses() == ["pending"] * 3
    await fetch(stored)
    assert stored.objects() == before
    assert (await upkeep.report())["status"] == "ok"


async def test_a_folder_of_its_own_is_told_and_left_alone(stored: Desk) -> None:
    """Else two processes would fetch from each other what the other has, for ever."""
    other = kept(stored, "another machine", MediaStore.open("memory://"))
    assert not await look(stored, other)
    report = await other.report()
    assert report["status"] == "degraded"
    assert "MEDIA_URL" in report["error"]
    assert await stored.statuses() == ["stored"] * 3
