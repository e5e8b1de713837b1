"""A process killed between the upload and the database's word for it: done again by another, and nothing twice."""

from __future__ import annotations

import asyncio
import hashlib
import sys
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from telegram_assistant.ingest.media import LEASE
from telegram_simulator.model import File

pytestmark = pytest.mark.integration

FETCH = """
import asyncio, sys
from datetime import datetime

from telegram_assistant.config import TelegramServer
from telegram_assistant.ingest.media import DownloadRules, MediaProcessor
from telegram_assistant.domain.source import Peer
from telegram_assistant.source.telegram_account import TelegramAccount
from telegram_assistant.source.telegram_client import open_client
from telegram_assistant.stores.media import MediaStore
from telegram_assistant.stores.postgres.channels import Channels
from telegram_assistant.stores.postgres.database import open_database
from telegram_assistant.stores.postgres.media import MediaQueue

database_url, server, session, folder, now, access_hash = sys.argv[1:]

class OneAccount:
    def __init__(self, source):
        self.source = source

    async def reach(self):
        return None

    async def reader(self, channel, *, priority=None):
        return self.source.channel(Peer(channel.id, int(access_hash)))

async def main():
    database = open_database(database_url)
    client = open_client(api_id=1, api_hash="hash", session=session, server=TelegramServer.parse(server))
    processor = MediaProcessor(
        MediaQueue(database), Channels(database), MediaStore.open(folder), OneAccount(TelegramAccount(client, "one")),
        rules=DownloadRules(), clock=lambda: datetime.fromisoformat(now),
    )
    await processor.step()

asyncio.run(main())
"""


async def test_g2_a_kill_between_upload_and_database_leaves_no_double(
    desk: Any, database_url: str, make_photo: Callable[..., File]
) -> None:
    file = make_photo(1)
    desk.post(file)
    await desk.capture()
    async with desk.database.connect() as lock:
        await lock.execute(text("LOCK TABLE media_objects IN SHARE MODE"))  # nobody can write there now
        arguments = (
            database_url,
            desk.sim.address,
            desk.sim.session(),
            desk.folder,
            desk.clock(),
            desk.news.access_hash,
        )
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", FETCH, *map(str, arguments))
        try:
            await _until_somebody_waits(lock)
        finally:
            process.kill()
            await process.wait()
        await lock.rollback()
    sha = hashlib.sha256(file.data).hexdigest()
    assert [key.rpartition("/")[2] for key in desk.objects()] == [f"{sha}.jpg"]
    [row] = await desk.rows()
    assert (row.status, row.sha256, row.next_attempt_at) == ("pending", None, desk.clock() + LEASE)

    await desk.fetch()
    assert await desk.statuses() == ["pending"], "as far as anybody knows, the other still works on it"
    desk.clock.now += LEASE
    await desk.fetch()
    [row] = await desk.rows()
    assert (row.status, row.sha256, row.attempts) == ("stored", sha, 0)
    assert desk.objects() == {row.storage_key}
    assert (await desk.queue.usage()).objects == 1


async def _until_somebody_waits(connection: AsyncConnection) -> None:
    statement = text(
        "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'media_objects'::regclass"
        " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    )
    while not (await connection.execute(statement)).scalar_one():  # noqa: ASYNC110 - PostgreSQL tells nobody
        await asyncio.sleep(0.02)
