"""Files that do not come: retried, given up or left out, each with its reason, and the others go on."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

from telegram_assistant.bus.supervisor import Supervisor, TaskState
from telegram_assistant.domain.media_rules import MediaRules
from telegram_assistant.domain.post import Media
from telegram_assistant.domain.retries import Failure
from telegram_assistant.domain.source import Peer, SourceError
from telegram_assistant.ingest.media import LEASE, DownloadRules
from telegram_assistant.source.telegram_account import TelegramAccount
from telegram_assistant.source.telegram_channel import TelegramChannel
from telegram_assistant.stores.media import MediaStoreError
from telegram_simulator.faults import Fault
from telegram_simulator.model import File

pytestmark = pytest.mark.integration

Make = Callable[..., File]
Desk = Any  # of conftest.py, which cannot be imported
MEGABYTE = 1024 * 1024


async def test_a_photo_that_ends_early_is_retried_and_then_whole(desk: Desk, make_photo: Make) -> None:
    file = make_photo(1)
    desk.post(file)
    await desk.capture()
    desk.sim.faults.add(Fault("truncate_file", "upload.getFile", times=1))
    await desk.fetch()
    [row] = await desk.rows()
    size = len(file.data)
    assert (row.status, row.attempts, row.sha256) == ("pending", 1, None)
    assert row.reason == f"the file ended early: {size // 2} of {size} bytes"
    assert row.next_attempt_at == desk.clock() + timedelta(seconds=30)
    assert desk.objects() == set(), "half a file must not be kept"

    desk.clock.pass_by(seconds=30)
    await desk.fetch()
    [row] = await desk.rows()
    assert (row.status, row.attempts, row.reason) == ("stored", 1, None)
    assert await desk.read(row.storage_key) == file.data


async def test_a_photo_that_always_ends_early_is_given_up_and_the_others_go_on(desk: Desk, make_photo: Make) -> None:
    desk.post(make_photo(1), make_photo(2, b"\xff\xd8 only this", length=40_000), make_photo(3))
    await desk.capture()
    for number in range(1, 6):
        await desk.fetch()
        rows = await desk.rows()
        assert [row.status for row in rows] == ["stored", "failed" if number == 5 else "pending", "stored"]
        assert rows[1].attempts == number
        desk.clock.pass_by(hours=6)
    assert rows[1].reason == "the file ended early: 12 of 40000 bytes (after 5 attempts)"
    asked = desk.asked("upload.getFile")
    await desk.fetch()
    assert desk.asked("upload.getFile") == asked, "what was given up is left alone"

    assert await desk.queue.revive(desk.news.id) == 1
    desk.clock.now = desk.clock() + timedelta(days=3650)  # revive() goes by the database's clock
    await desk.fetch()
    assert (await desk.rows())[1].attempts == 1


async def test_a_document_over_the_limit_is_never_asked_for(desk: Desk, make_photo: Make, make_paper: Make) -> None:
    huge = make_paper(1, length=41 * MEGABYTE, name="film.mkv")
    desk.post(huge, make_photo(2))
    await desk.capture()
    await desk.fetch()
    rows = await desk.rows()
    assert [row.status for row in rows] == ["skipped", "stored"]
    assert rows[0].reason == "this document has 41 MB, at most 40 MB are downloaded"
    assert desk.asked("upload.getFile") == 1, "of the photo"
    troubles = await desk.queue.troubles()
    assert troubles[desk.news.id].skipped == 1
    assert troubles[desk.news.id].reason == rows[0].reason


async def test_a_document_larger_than_announced_is_cut_off_at_the_limit(desk: Desk, make_paper: Make) -> None:
    desk.rules = DownloadRules(media=MediaRules(document_limit=MEGABYTE))
    desk.post(make_paper(1, bytes(8 * MEGABYTE), length=1000))
    await desk.capture()
    await desk.fetch()
    [row] = await desk.rows()
    assert (row.status, row.reason) == ("skipped", "this document is over the limit, at most 1 MB are downloaded")
    assert desk.asked("upload.getFile") == 3
    assert desk.objects() == set()


async def test_settings_that_changed_since_the_post_was_saved_hold(desk: Desk, make_photo: Make) -> None:
    desk.post(make_photo(1))
    await desk.capture()
    desk.rules = DownloadRules(media=MediaRules(kinds=frozenset()))
    await desk.fetch()
    [row] = await desk.rows()
    assert (row.status, row.reason) == ("skipped", "files of the kind photo are not downloaded (MEDIA_KINDS)")


async def test_a_nul_in_a_file_name_disturbs_nothing(desk: Desk, make_paper: Make) -> None:
    desk.post(make_paper(1, mime="application/x-odd", name="re\0port/../\0.PDF"), make_paper(2, name="\0"))
    await desk.capture()
    await desk.fetch()
    rows = await desk.rows()
    assert [row.status for row in rows] == ["stored", "stored"]
    assert all("\0" not in (row.name or "") for row in rows)
    assert rows[0].storage_key.endswith(f"/{rows[0].sha256}.pdf")


async def test_a_message_deleted_meanwhile_is_skipped(desk: Desk, make_photo: Make) -> None:
    gone, there = desk.post(make_photo(1), make_photo(2))
    await desk.capture()
    desk.world.delete(desk.news, [gone.id])
    await desk.fetch()
    rows = {row.message_id: row for row in await desk.rows()}
    assert rows[gone.id].status == "skipped"
    assert rows[gone.id].reason == "the message was deleted before its file could be downloaded"
    assert rows[there.id].status == "stored"


async def test_a_message_deleted_during_the_download_is_skipped(desk: Desk, make_paper: Make) -> None:
    [message] = desk.post(make_paper(1, bytes(2 * MEGABYTE)))
    await desk.capture()
    desk.sim.faults.add(Fault("slow", "upload.getFile", skip=1, times=1, seconds=0.05))
    fetching = asyncio.ensure_future(desk.fetch())
    await desk.sim.until(lambda: desk.asked("upload.getFile"))
    desk.world.delete(desk.news, [message.id])
    desk.world.expire_references()
    await fetching
    [row] = await desk.rows()
    assert (row.status, row.reason) == ("skipped", "the message was deleted before its file could be downloaded")
    assert desk.objects() == set()


async def test_a_picture_replaced_meanwhile(desk: Desk, make_photo: Make) -> None:
    [message] = desk.post(make_photo(1))
    await desk.capture()
    fresh = make_photo(2)
    desk.world.edit(desk.news, message.id, "new picture", file=fresh)
    await desk.fetch()
    [row] = await desk.rows()
    assert (row.status, row.reason) == ("skipped", "an edit took the file away before it could be downloaded")
    await desk.capture()
    await desk.fetch()
    [row] = await desk.rows()
    assert row.status == "stored"
    assert await desk.read(row.storage_key) == fresh.data


@pytest.mark.parametrize("method", ["upload.getFile", "channels.getMessages"])
async def test_a_flood_is_waited_for_and_is_no_failure(desk: Desk, make_photo: Make, method: str) -> None:
    desk.post(make_photo(1), make_photo(2), make_photo(3))
    await desk.capture()
    desk.sim.faults.add(Fault("flood", method, times=1, seconds=77))
    await desk.fetch()
    assert desk.asked(method) == 1, "while Telegram makes us wait, nothing more is asked"
    for row in await desk.rows():
        assert (row.status, row.attempts) == ("pending", 0)
        assert timedelta(seconds=77) <= row.next_attempt_at - desk.clock() <= timedelta(seconds=80)
        assert "77" in row.reason
    desk.clock.pass_by(seconds=80)
    await desk.fetch()
    assert set(await desk.statuses()) == {"stored"}


async def test_errors_inside_telegram_are_waited_out_however_long(desk: Desk, make_photo: Make) -> None:
    desk.post(make_photo(1))
    await desk.capture()
    desk.sim.faults.add(Fault("error", "upload.getFile", code=500, message="INTERNAL"))
    pauses = []
    for _ in range(12):
        await desk.fetch()
        [row] = await desk.rows()
        assert (row.status, row.attempts) == ("pending", 0)
        pauses.append((row.next_attempt_at - desk.clock()).total_seconds())
        desk.clock.now = row.next_attempt_at
    assert 15 <= pauses[0] <= 18
    assert pauses[-1] > 10 * pauses[0]
    desk.sim.faults.clear()
    await desk.fetch()
    assert await desk.statuses() == ["stored"]


@pytest.mark.parametrize(
    "failure, statuses",
    [
        (Failure.ACCOUNT, ["pending"] * 6),
        (Failure.TRANSIENT, ["pending"] * 6),
        (Failure.CHANNEL_PRIVATE, ["pending"] * 4 + ["failed"] * 2),
        (Failure.GONE, ["pending"] * 4 + ["failed"] * 2),
    ],
)
async def test_a_channel_that_nobody_can_read(
    desk: Desk, make_photo: Make, failure: Failure, statuses: list[str]
) -> None:
    desk.post(make_photo(1))
    await desk.capture()
    desk.accounts.errors = [SourceError(failure, "nobody can read it")]
    found = []
    for _ in range(6):
        await desk.fetch()
        found += await desk.statuses()
        desk.clock.pass_by(hours=6)
    assert found == statuses
    assert (await desk.rows())[0].reason.startswith("nobody can read it")


async def test_files_of_a_removed_channel_are_left_out(desk: Desk, make_photo: Make) -> None:
    desk.post(make_photo(1))
    await desk.capture()
    async with desk.database.begin() as connection:
        await connection.execute(text("UPDATE channels SET status = 'removed'"))
    await desk.fetch()
    [row] = await desk.rows()
    assert (row.status, row.reason) == ("skipped", "the channel is not watched any more")


class OddChannel(TelegramChannel):
    """A channel of which one message brings a mistake to light."""

    odd = 0

    async def download(self, message_id: int, media: Media) -> AsyncGenerator[bytes, None]:
        if message_id == self.odd:
            raise ValueError("a mistake of ours")
        async for piece in super().download(message_id, media):
            yield piece


class Odd:
    """The real account, which reads such channels."""

    def __init__(self, account: TelegramAccount, message_id: int) -> None:
        self._account, self._message_id = account, message_id

    def channel(self, peer: Peer) -> TelegramChannel:
        channel = OddChannel(self._account, peer)
        channel.odd = self._message_id
        return channel


async def test_spec_1_7_a_mistake_of_ours_concerns_one_file_only(
    desk: Desk, make_photo: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.post(make_photo(1), make_photo(2), make_photo(3))
    await desk.capture()
    desk.accounts.source = Odd(desk.source, 2)
    await desk.fetch()
    rows = await desk.rows()
    assert [row.status for row in rows] == ["stored", "pending", "stored"]
    assert (rows[1].reason, rows[1].attempts) == ("a mistake of ours", 1)
    assert "Traceback" in capsys.readouterr().out


async def test_spec_7_6_a_store_that_fails_is_seen_and_loses_nothing(desk: Desk, make_photo: Make) -> None:
    desk.post(make_photo(1), make_photo(2))
    await desk.capture()
    shutil.rmtree(desk.folder)
    desk.folder.write_text("a file in the place of the folder")
    with pytest.raises(MediaStoreError, match="could not write to"):
        await desk.fetch()
    for row in await desk.rows():
        assert (row.status, row.attempts, row.next_attempt_at) == ("pending", 0, desk.clock())

    supervisor = Supervisor(first_delay=0.01)
    try:
        task = await supervisor.start("media", desk.processor().run)
        await _until(lambda: task.restarts)
        assert task.last_error is not None
        assert task.last_error.startswith("could not write")
        desk.folder.unlink()
        await _until(lambda: sum(key.startswith("media/") for key in desk.objects()) == 2)
        await _until(lambda: task.state is TaskState.OK)
    finally:
        await supervisor.stop()


async def _until(true: Callable[[], object]) -> None:
    while not true():  # noqa: ASYNC110 - nothing tells of it
        await asyncio.sleep(0.01)


async def test_spec_1_8_stopping_hands_back_what_is_in_flight(desk: Desk, make_photo: Make) -> None:
    desk.post(make_photo(1), make_photo(2))
    await desk.capture()
    desk.sim.faults.add(Fault("silence", "upload.getFile", times=1))
    fetching = asyncio.ensure_future(desk.fetch())
    await desk.sim.until(lambda: desk.sim.faults.fired["silence"])
    assert {row.next_attempt_at for row in await desk.rows()} == {desk.clock() + LEASE}
    fetching.cancel()
    await asyncio.gather(fetching, return_exceptions=True)
    assert {row.next_attempt_at for row in await desk.rows()} == {desk.clock()}
    await desk.fetch()
    assert set(await desk.statuses()) == {"stored"}


async def test_who_was_too_slow_changes_nothing(desk: Desk, make_photo: Make) -> None:
    desk.post(make_photo(1))
    await desk.capture()
    now = desk.clock()
    [slow] = await desk.queue.take(limit=5, now=now, until=now + LEASE)
    assert await desk.queue.take(limit=5, now=now, until=now + LEASE) == []
    later = now + 2 * LEASE
    [other] = await desk.queue.take(limit=5, now=later, until=later + LEASE)
    assert other == replace(slow, leased_until=later + LEASE)
    assert not await desk.queue.skip(slow, "too late")
    assert not await desk.queue.hand_back(slow, now)
    assert await desk.queue.renew(slow, later) is None
    assert await desk.queue.hand_back(other, later)
