"""PostgreSQL and Valkey of our own for a benchmark, set up as `tga up` sets them up, and what they cost."""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
from redis.asyncio import Redis
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.embedded.folder import DataFolder
from telegram_assistant.embedded.postgres import EmbeddedPostgres
from telegram_assistant.embedded.valkey import EmbeddedValkey
from telegram_assistant.log import configure_logging
from telegram_assistant.stores.postgres.database import open_database, raw_transaction
from telegram_assistant.stores.postgres.migrate import migrate
from telegram_assistant.stores.redis import open_redis

CAPTURED = ("posts", "media_groups", "outbox")  # what a capture fills; the rest hangs on these


@dataclass(frozen=True)
class Engines:
    """Both engines with the newest schema, and nothing in them."""

    database: AsyncEngine
    redis: Redis
    postgres: psutil.Process
    database_url: str
    redis_url: str
    folder: Path  # with room for more

    async def add_channels(self, channels: Iterable[tuple[int, int, str]]) -> None:
        """Ids, access hashes and usernames; all of their history is asked for."""
        async with raw_transaction(self.database) as connection:
            await connection.executemany(
                "INSERT INTO channels (id, title, username, requested_from) VALUES ($1, $2, $2, 1)",
                [(channel_id, username) for channel_id, _, username in channels],
            )

    async def forget_posts(self) -> None:
        """As if nothing was ever captured, for the next repetition."""
        async with self.database.begin() as connection:
            await connection.execute(text(f"TRUNCATE {', '.join(CAPTURED)} CASCADE"))
            await connection.execute(
                text(
                    "UPDATE channels SET cursor_id = 0, newest_id = 0, coverage = '{}', captured = 0,"
                    " last_post_at = NULL, last_parsed_at = NULL, refreshed = '{}', next_visit_at = NULL"
                )
            )
        async with self.database.connect() as connection:
            await (await connection.execution_options(isolation_level="AUTOCOMMIT")).execute(text("CHECKPOINT"))
        await self.redis.flushdb()

    def postgres_cpu(self) -> float:
        """Seconds of CPU that PostgreSQL has used so far, in all of its processes."""
        total = 0.0
        for process in (self.postgres, *self.postgres.children(recursive=True)):
            try:
                times = process.cpu_times()
            except psutil.NoSuchProcess:  # its time is in its parent's by now
                continue
            total += times.user + times.system + times.children_user + times.children_system
        return total


@asynccontextmanager
async def started_engines() -> AsyncIterator[Engines]:
    configure_logging(json=True, level="WARNING")
    logging.getLogger("telethon").setLevel(logging.ERROR)
    path = Path(tempfile.mkdtemp(prefix="tga-bench-"))
    path.chmod(0o711)  # under root PostgreSQL runs as another user, and must pass through
    async with AsyncExitStack() as stack:
        stack.callback(shutil.rmtree, path, ignore_errors=True)
        folder = DataFolder(path)
        folder.open()
        stack.callback(folder.close)
        postgres, valkey = EmbeddedPostgres(folder), EmbeddedValkey(folder)
        for engine in (postgres, valkey):
            stack.push_async_callback(engine.stop)
            await engine.start()
        database = open_database(postgres.url)
        stack.push_async_callback(database.dispose)
        await migrate(database)
        redis = open_redis(valkey.url)
        stack.push_async_callback(redis.aclose)
        yield Engines(database, redis, psutil.Process(postgres.pid), postgres.url, valkey.url, path)
