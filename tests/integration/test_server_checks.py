"""A server of the user's own that cannot be used: one line that says what to do, and never a password."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import asyncpg
import pytest
from sqlalchemy import text
from structlog.testing import capture_logs

from telegram_assistant.embedded.process import free_port
from telegram_assistant.errors import Fatal
from telegram_assistant.stores import redis as redis_store
from telegram_assistant.stores.postgres import database as database_store
from telegram_assistant.stores.postgres.database import check_server, open_database
from telegram_assistant.stores.redis import check_redis, open_redis

pytestmark = pytest.mark.integration


@pytest.fixture
async def silent_port() -> AsyncIterator[int]:
    """A server that takes connections and never says a word."""

    async def keep(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(keep, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@pytest.fixture
async def rude_port() -> AsyncIterator[int]:
    """A server that speaks another protocol."""

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.2\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def refused(check: str, url: str) -> str:
    with pytest.raises(Fatal) as caught:
        await (check_server(url) if check == "postgres" else check_redis(url))
    message = str(caught.value)
    assert "\n" not in message
    assert "s3cret" not in message
    return message


def elsewhere(url: str, **changes: object) -> str:
    """The address with another password, port or database."""
    parts = urlsplit(url)
    password = changes.get("password", parts.password)
    port = changes.get("port", parts.port)
    name = changes.get("name", parts.path.lstrip("/"))
    return f"{parts.scheme}://{parts.username or ''}:{password}@{parts.hostname}:{port}/{name}"


async def test_a_good_server_passes(database_url: str, redis_url: str) -> None:
    await check_server(database_url)
    await check_redis(redis_url)


async def test_postgres_wrong_password(database_url: str) -> None:
    message = await refused("postgres", elsewhere(database_url, password="s3cret"))
    assert "user or password is wrong; check them in DATABASE_URL" in message


async def test_postgres_wrong_port() -> None:
    message = await refused("postgres", f"postgresql://me:s3cret@127.0.0.1:{free_port()}/tga")
    assert "start it, correct the address, or unset DATABASE_URL" in message


async def test_postgres_unknown_host() -> None:
    message = await refused("postgres", "postgresql://me:s3cret@no-such-host.invalid/tga")
    assert "no-such-host.invalid" in message
    assert "correct the address" in message


async def test_postgres_unknown_database(database_url: str) -> None:
    message = await refused("postgres", elsewhere(database_url, name="nowhere"))
    assert 'database "nowhere" does not exist; create it with: createdb' in message


async def test_postgres_that_is_something_else(rude_port: int) -> None:
    message = await refused("postgres", f"postgresql://me:s3cret@127.0.0.1:{rude_port}/tga?sslmode=disable")
    assert "Cannot use DATABASE_URL" in message


async def test_postgres_that_never_answers(silent_port: int) -> None:
    url = f"postgresql://me:s3cret@127.0.0.1:{silent_port}/tga?connect_timeout=0.2&sslmode=disable"
    assert "is the host right and reachable?" in await refused("postgres", url)


async def test_postgres_without_encryption_where_it_is_required(database_url: str) -> None:
    message = await refused("postgres", f"{database_url}?sslmode=require")
    assert "SSL" in message


async def test_postgres_that_is_too_old(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_store, "OLDEST_SERVER", 990000)
    assert "version 15 or newer is needed" in await refused("postgres", database_url)


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+asyncpg"])
async def test_the_forms_that_people_have_connect(database_url: str, scheme: str) -> None:
    options = "sslmode=disable&connect_timeout=5&pgbouncer=true&application_name=my+app&keepalives=1"
    url = f"{scheme}{database_url.removeprefix('postgresql')}?{options}&options=-c%20work_mem%3D8MB&schema=pg_temp"
    await check_server(url)
    with capture_logs() as logs:
        engine = open_database(url)
    assert [(entry["event"], entry["options"]) for entry in logs] == [("database_url_options_ignored", ("keepalives",))]
    try:
        async with engine.connect() as connection:
            for setting, value in (("application_name", "my app"), ("work_mem", "8MB"), ("search_path", "pg_temp")):
                assert (await connection.execute(text(f"SHOW {setting}"))).scalar_one() == value
    finally:
        await engine.dispose()


async def test_a_password_with_every_kind_of_sign_connects(engines_admin: str) -> None:
    connection = await asyncpg.connect(f"{engines_admin}/postgres")
    try:
        await connection.execute("CREATE ROLE odd LOGIN PASSWORD 'p@ss:w/o?r#d%20 ü'")
        await check_server(
            f"postgresql://odd:p%40ss%3Aw%2Fo%3Fr%23d%2520%20%C3%BC@127.0.0.1:{urlsplit(engines_admin).port}/postgres"
        )
    finally:
        await connection.execute("DROP ROLE IF EXISTS odd")
        await connection.close()


@pytest.fixture
def engines_admin(empty_database_url: str) -> str:
    return empty_database_url.rpartition("/")[0]


async def test_redis_wrong_password(redis_url: str) -> None:
    assert "the password is wrong or missing" in await refused("redis", elsewhere(redis_url, password="s3cret"))


async def test_redis_missing_password(redis_url: str) -> None:
    assert "the password is wrong or missing" in await refused("redis", f"redis://127.0.0.1:{urlsplit(redis_url).port}")


async def test_redis_wrong_port() -> None:
    message = await refused("redis", f"redis://:s3cret@127.0.0.1:{free_port()}/0")
    assert "start that server, correct the address, or unset REDIS_URL" in message


async def test_redis_unknown_number(redis_url: str) -> None:
    assert "out of range" in await refused("redis", elsewhere(redis_url, name="9999"))


async def test_redis_that_is_something_else(rude_port: int) -> None:
    assert "Cannot use REDIS_URL" in await refused("redis", f"redis://:s3cret@127.0.0.1:{rude_port}/0")


async def test_redis_that_never_answers(silent_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_store, "CHECK_SECONDS", 0.2)
    assert "no answer" in await refused("redis", f"redis://:s3cret@127.0.0.1:{silent_port}/0")


@pytest.mark.parametrize(
    "url",
    ["http://:s3cret@host:6379", "host:6379", "redis://:s3cret@host:port/0", "redis://:s3c/ret@host:6379/0"],
)
async def test_what_is_no_address_of_redis_is_refused(url: str) -> None:
    message = await refused("redis", url)
    assert "REDIS_URL must look like redis://" in message
    assert "s3c" not in message


async def test_redis_that_is_too_old(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_store, "OLDEST_SERVER", (99, 0))
    assert "version 7 or newer is needed" in await refused("redis", redis_url)


async def test_redis_speaks_text(redis_url: str) -> None:
    """SPEC 7.1, 7.2: one client type, and no bytes where text is meant."""
    client = open_redis(redis_url)
    try:
        await client.set("greeting", "привет")
        assert await client.get("greeting") == "привет"
    finally:
        await client.aclose()
