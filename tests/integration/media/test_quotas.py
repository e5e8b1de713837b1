"""Quotas and evictions against a simulated Telegram: files are refused, posts never; what was given up comes back."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text

from telegram_assistant.domain.access import SYSTEM_TENANT, SYSTEM_USER
from telegram_assistant.domain.storage import MEGABYTE, REFUSED, Standing
from telegram_assistant.ingest.media import MediaProcessor
from telegram_assistant.jobs.storage import measure, report
from telegram_assistant.stores.media import MediaStore, StoredFile
from telegram_assistant.stores.postgres.channels import Channels
from telegram_assistant.stores.postgres.media import Evictions
from telegram_assistant.stores.postgres.storage import Storage, StorageUsage
from telegram_simulator.model import File

pytestmark = pytest.mark.integration

Desk = Any  # of conftest.py, which cannot be imported
Make = Callable[..., File]
SYSTEM = UUID(SYSTEM_TENANT)
NOW = datetime(2026, 6, 1, tzinfo=UTC)


async def run(desk: Desk, statement: str, **values: Any) -> None:
    async with desk.database.begin() as connection:
        await connection.execute(text(statement), values)


async def watch(desk: Desk, tenant: str = SYSTEM_TENANT, user: str = SYSTEM_USER) -> None:
    await run(
        desk,
        "INSERT INTO subscriptions (tenant_id, user_id, channel_id) VALUES (:tenant, :user, :channel)",
        tenant=tenant,
        user=user,
        channel=desk.news.id,
    )


async def fetch(desk: Desk, storage: Storage) -> None:
    processor = MediaProcessor(
        desk.queue,
        Channels(desk.database),
        desk.store,
        desk.accounts,
        rules=desk.rules,
        clock=lambda: datetime.now(UTC) + timedelta(seconds=5),
        quotas=storage,
    )
    while await processor.step():
        pass


def job(desk: Desk, storage: Storage, **kwargs: Any) -> Any:
    kwargs.setdefault("clock", lambda: datetime.now(UTC))
    return measure(storage, StorageUsage(desk.database), Evictions(desk.database), desk.store, **kwargs)


def sized(make: Make, number: int, megabytes: float) -> File:
    return make(number, b"%07d" % number * int(megabytes * MEGABYTE / 7))


async def test_files_beyond_the_quota_are_refused_and_posts_are_not(desk: Desk, make_paper: Make) -> None:
    storage = Storage(desk.database, default_mb=2)
    await watch(desk)
    desk.post(*(sized(make_paper, number, 0.7) for number in range(5)))
    await desk.capture()
    await fetch(desk, storage)
    rows = await desk.rows()
    assert len(rows) == 5, "every post is there"
    assert sorted(row.status for row in rows) == ["skipped", "skipped", "skipped", "stored", "stored"]
    [reason] = {row.reason for row in rows if row.status == "skipped"}
    assert reason == f"{REFUSED}system (2 MB) is used up"
    quota = await storage.quota(SYSTEM)
    assert quota is not None
    assert 1.3 * MEGABYTE < quota.used <= 2 * MEGABYTE, "counted although nothing was measured yet"


async def test_what_was_refused_comes_when_there_is_room(desk: Desk, make_paper: Make) -> None:
    storage = Storage(desk.database, default_mb=2)
    await watch(desk)
    desk.post(*(sized(make_paper, number, 0.7) for number in range(5)))
    await desk.capture()
    await fetch(desk, storage)
    asked = desk.asked("GetMessagesRequest")
    assert await job(desk, storage)(NOW) == "1 tenants, 0 files given up, 0 let in again"
    await fetch(desk, storage)
    assert desk.asked("GetMessagesRequest") == asked, "nobody is asked for what finds no room"
    await storage.set_quota(SYSTEM, 3)
    assert await job(desk, storage)(NOW) == "1 tenants, 0 files given up, 2 let in again"
    await fetch(desk, storage)
    assert (await desk.statuses()).count("stored") == 4
    await storage.set_quota(SYSTEM, 0)
    assert await storage.revive() == 1
    await fetch(desk, storage)
    assert set(await desk.statuses()) == {"stored"}
    assert await storage.limited() == []


async def test_a_file_is_kept_while_one_of_its_watchers_has_room(desk: Desk, make_paper: Make) -> None:
    storage = Storage(desk.database)
    await watch(desk)
    tenant, user = "00000000-0000-0000-0000-0000000000aa", "00000000-0000-0000-0000-0000000000ab"
    await run(desk, "INSERT INTO tenants (id, name, storage_quota_mb) VALUES (:id, 'bob', 1)", id=tenant)
    await run(
        desk, "INSERT INTO users (id, tenant_id, name, role) VALUES (:id, :of, 'bob', 'member')", id=user, of=tenant
    )
    await watch(desk, tenant, user)
    await storage.set_quota(SYSTEM, 2)
    desk.post(*(sized(make_paper, number, 0.9) for number in range(3)))
    await desk.capture()
    await fetch(desk, storage)
    assert (await desk.statuses()).count("stored") == 2
    [reason] = {row.reason for row in await desk.rows() if row.status == "skipped"}
    assert reason == f"{REFUSED}bob (1 MB), system (2 MB) is used up"
    found = {one.tenant: one.standing for one in await storage.limited()}
    assert found == {"bob": Standing.FULL, "system": Standing.WARNING}
    told = await report(storage)
    assert told["status"] == "ok"
    assert [line.partition(":")[0] for line in told["warnings"]] == ["bob", "system"]


async def test_old_files_that_nobody_opens_are_given_up_and_come_back(desk: Desk, make_photo: Make) -> None:
    storage, evictions = Storage(desk.database), Evictions(desk.database)
    await watch(desk)
    desk.post(*(make_photo(number) for number in range(4)))
    await desk.capture()
    await fetch(desk, storage)
    opened, lost, fresh, unused = await desk.rows()
    # Long ago: all were downloaded; one was opened since, one deleted in Telegram, one is of a new post.
    await run(desk, "UPDATE media_objects SET created_at = created_at - interval '100 days'")
    await evictions.opened(opened.sha256)
    await run(desk, "UPDATE posts SET deleted_at = now() WHERE message_id = :id", id=lost.message_id)
    await run(desk, "UPDATE posts SET posted_at = now() WHERE message_id = :id", id=fresh.message_id)
    work = job(desk, storage, evict_after_days=30)
    assert "1 files given up" in await work(NOW)
    assert await desk.statuses() == ["stored", "stored", "stored", "evicted"]
    assert unused.storage_key not in desk.objects()
    assert "0 files given up" in await work(NOW)
    [listed] = await evictions.of_tenant(SYSTEM, limit=10)
    assert (listed.sha256, listed.size, listed.status) == (unused.sha256, unused.size, "evicted")
    media = {one.kind: one for one in await StorageUsage(desk.database).of_tenant(SYSTEM)}["media"]
    assert media.count == 3
    assert (await desk.queue.usage()).evicted == 1

    assert not await evictions.fetch_again(UUID(int=7), unused.sha256), "another tenant sees nothing of it"
    assert not await evictions.fetch_again(SYSTEM, opened.sha256), "it is there"
    assert await evictions.fetch_again(SYSTEM, unused.sha256)
    await fetch(desk, storage)
    assert set(await desk.statuses()) == {"stored"}
    assert await desk.read(unused.storage_key)
    assert await evictions.of_tenant(SYSTEM, limit=10) == []
    assert "0 files given up" in await work(NOW), "its time begins anew"


class Unlucky(MediaStore):
    """A file that it found in its place is given up the next moment, once."""

    evictions: Evictions

    async def put(self, pieces: AsyncIterable[bytes], *, tenant_id: UUID, extension: str) -> StoredFile:
        file = await super().put(pieces, tenant_id=tenant_id, extension=extension)
        await self.evictions.evict(file.sha256, self.delete, before=datetime.now(UTC) - timedelta(days=30))
        return file


async def test_a_file_that_is_given_up_while_a_new_post_brings_it_is_fetched_again(
    desk: Desk, make_photo: Make
) -> None:
    await watch(desk)
    desk.post(make_photo(1, b"the same bytes"))
    await desk.capture()
    await desk.fetch()
    await run(desk, "UPDATE media_objects SET created_at = created_at - interval '100 days'")
    desk.post(make_photo(2, b"the same bytes"))
    await desk.capture()
    unlucky = Unlucky.open(desk.folder)
    unlucky.evictions = Evictions(desk.database)
    desk.store = unlucky
    await desk.fetch()
    for row in await desk.rows():
        assert (row.status == "stored") == (row.storage_key in desk.objects()), "no promise without a file"
    desk.clock.pass_by(hours=1)
    await desk.fetch()
    assert await desk.statuses() == ["stored", "stored"]
    [key] = {row.storage_key for row in await desk.rows()}
    assert await desk.read(key) == b"the same bytes"


async def test_nothing_is_given_up_unless_asked_for(desk: Desk, make_photo: Make) -> None:
    storage = Storage(desk.database)
    await watch(desk)
    desk.post(make_photo(1))
    await desk.capture()
    await fetch(desk, storage)
    await run(desk, "UPDATE media_objects SET created_at = created_at - interval '9000 days'")
    assert "0 files given up" in await job(desk, storage)(NOW)
    assert await desk.statuses() == ["stored"]


async def test_usage_is_written_down_over_time(desk: Desk, make_photo: Make) -> None:
    storage = Storage(desk.database)
    await watch(desk)
    for day in (1, 2):
        desk.post(make_photo(day))
        await desk.capture()
        await fetch(desk, storage)
        await job(desk, storage, clock=lambda day=day: NOW + timedelta(days=day))(NOW)
    history = [one for one in await storage.history(SYSTEM, NOW) if one.kind == "media"]
    assert [one.objects for one in history] == [1, 2]
    assert history[0].bytes < history[1].bytes
    assert {one.kind for one in await storage.history(SYSTEM, NOW)} >= {"media", "vision", "pages"}
    assert await storage.history(UUID(int=7), NOW) == []
    assert await storage.prune(NOW + timedelta(days=1, hours=1)) > 0
    assert {one.at for one in await storage.history(SYSTEM, NOW)} == {NOW + timedelta(days=2)}
