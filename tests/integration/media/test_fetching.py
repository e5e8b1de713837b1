"""Files of posts, from the simulated Telegram into the store: each once, whole, and in pieces."""

from __future__ import annotations

import asyncio
import hashlib
import tracemalloc
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import text

from telegram_assistant.bus.supervisor import Supervisor, TaskState
from telegram_assistant.domain.access import SYSTEM_TENANT
from telegram_simulator.faults import Fault
from telegram_simulator.model import Channel, File

pytestmark = pytest.mark.integration

Make = Callable[..., File]
Desk = Any  # of conftest.py, which cannot be imported
MEGABYTE = 1024 * 1024


async def test_lesson_19_every_file_of_a_post_is_stored_whole(desk: Desk, make_photo: Make, make_paper: Make) -> None:
    files = [make_photo(1), make_paper(2, name="доклад.pdf"), make_photo(3), make_paper(4, b"")]
    desk.post(*files)
    await desk.capture()
    assert await desk.statuses() == ["pending"] * 4
    await desk.fetch()
    for row, file, ending in zip(await desk.rows(), files, ("jpg", "pdf", "jpg", "pdf"), strict=True):
        sha = hashlib.sha256(file.data).hexdigest()
        assert (row.status, row.reason, row.attempts, row.next_attempt_at) == ("stored", None, 0, None)
        assert (row.sha256, row.size) == (sha, len(file.data))
        assert row.storage_key == f"media/{SYSTEM_TENANT}/{sha[:2]}/{sha}.{ending}"
        assert await desk.read(row.storage_key) == file.data
    assert desk.asked("channels.getMessages") == 1, "the messages of a channel are asked for together"


async def test_spec_8_the_same_bytes_are_one_object(desk: Desk, make_photo: Make, make_paper: Make) -> None:
    same = b"\xff\xd8the very same picture" * 1000
    shared = make_photo(3, same)
    desk.post(make_photo(1, same), make_photo(2, same), shared, shared, make_paper(4, same, mime="image/png"))
    await desk.capture()
    await desk.fetch()
    rows = await desk.rows()
    assert {row.status for row in rows} == {"stored"}
    assert len({(row.sha256, row.storage_key) for row in rows}) == 1
    assert desk.objects() == {rows[0].storage_key}
    assert await desk.read(rows[0].storage_key) == same


async def test_files_of_a_private_channel_stand_under_its_tenant(desk: Desk, make_photo: Make) -> None:
    tenant = str(uuid4())
    club = desk.world.add_channel(Channel(500, 15, "Club", None, desk.clock(), private=True, members={1001}))
    async with desk.database.begin() as connection:
        await connection.execute(text("INSERT INTO tenants (id, name) VALUES (:id, 'club')"), {"id": tenant})
    await desk.add(club, tenant)
    desk.post(make_photo(1))
    desk.post(make_photo(2), channel=club)
    await desk.capture()
    await desk.capture(club)
    await desk.fetch()
    assert [row.storage_key.split("/")[1] for row in await desk.rows()] == [SYSTEM_TENANT, tenant]


async def test_references_expire_before_and_during_a_download(desk: Desk, make_photo: Make, make_paper: Make) -> None:
    files = [make_paper(1, b"%PDF" * 400_000), make_photo(2)]
    desk.post(*files)
    await desk.capture()
    desk.world.expire_references()
    desk.sim.faults.add(
        Fault("expire_references", "upload.getFile", skip=1, times=1),
        Fault("expire_references", "upload.getFile", skip=4, times=1),
    )
    await desk.fetch()
    assert desk.sim.faults.fired["expire_references"] == 2
    rows = await desk.rows()
    assert [(row.status, row.attempts) for row in rows] == [("stored", 0)] * 2
    assert [await desk.read(row.storage_key) for row in rows] == [file.data for file in files]


async def test_an_edit_of_the_text_downloads_nothing_again(desk: Desk, make_photo: Make) -> None:
    [message] = desk.post(make_photo(1))
    await desk.capture()
    await desk.fetch()
    [before] = await desk.rows()
    asked = desk.asked("upload.getFile"), desk.asked("channels.getMessages")
    desk.world.edit(desk.news, message.id, "another text")
    await desk.capture()
    assert await desk.statuses() == ["pending"]
    await desk.fetch()
    [after] = await desk.rows()
    assert (after.status, after.sha256) == ("stored", before.sha256)
    assert (desk.asked("upload.getFile"), desk.asked("channels.getMessages")) == asked


async def test_a_document_of_30_megabytes_is_never_whole_in_memory(desk: Desk, make_paper: Make) -> None:
    size = 30 * MEGABYTE
    big = make_paper(1, b"0123456789abcdef" * (size // 16))
    desk.post(big)
    await desk.capture()
    tracemalloc.start()
    try:
        await desk.fetch()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    [row] = await desk.rows()
    assert (row.status, row.size, row.sha256) == ("stored", size, hashlib.sha256(big.data).hexdigest())
    assert peak < 12 * MEGABYTE, f"{peak / MEGABYTE:.1f} MB"


async def test_the_task_fetches_when_woken_and_when_the_time_comes(desk: Desk, make_photo: Make) -> None:
    processor, supervisor = desk.processor(), Supervisor()
    try:
        task = await supervisor.start("media", processor.run)
        desk.post(*(make_photo(number) for number in range(45)))
        await desk.capture()
        processor.wake.set()
        await _until_stored(desk, 45)
        assert task.state is TaskState.OK
        assert task.restarts == 0
    finally:
        await supervisor.stop()


async def test_two_processes_share_the_work(desk: Desk, make_photo: Make) -> None:
    desk.post(*(make_photo(number) for number in range(60)))
    await desk.capture()
    one, two = desk.processor(), desk.processor()
    while any(await asyncio.gather(one.step(), two.step())):
        pass
    assert set(await desk.statuses()) == {"stored"}
    assert desk.asked("upload.getFile") == 60, "no file was downloaded twice"


async def _until_stored(desk: Desk, count: int) -> None:
    while True:
        if (await desk.queue.usage()).stored == count:
            return
        await asyncio.sleep(0.02)
