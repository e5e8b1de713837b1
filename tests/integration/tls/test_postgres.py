"""PostgreSQL over TLS: verified with an authority of ours, refused with another, and never silently in the clear."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest
from cryptography import x509
from sqlalchemy import text

from telegram_assistant.embedded.process import free_port
from telegram_assistant.errors import Fatal
from telegram_assistant.processes.worker import as_user
from telegram_assistant.stores.postgres.database import check_server, open_database
from tests.integration.tls.authority import Trust, make_trust, tls_door

pytestmark = pytest.mark.integration

ENCRYPTED = text("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")


@pytest.fixture
async def address(database_url: str, trust: Trust) -> AsyncIterator[str]:
    """Our own server, which was built without TLS, behind a door with it."""
    parts = urlsplit(database_url)
    assert parts.port
    async with tls_door(parts.port, trust, postgres=True) as port:
        yield f"postgresql://{parts.username}:{parts.password}@localhost:{port}{parts.path}"


async def test_the_authority_of_ours_is_enough(address: str, trust: Trust) -> None:
    url = f"{address}?sslmode=verify-full"
    await check_server(url, ca_file=trust.ca_file)
    database = open_database(url, ca_file=trust.ca_file)
    async with database.connect() as connection:
        assert await connection.scalar(text("SELECT 42")) == 42
    await database.dispose()


async def test_the_address_may_name_the_file_itself(address: str, trust: Trust) -> None:
    await check_server(f"{address}?sslmode=verify-full&sslrootcert={trust.ca_file}")


@pytest.mark.parametrize("mode", ["verify-full", "verify-ca"])
async def test_another_authority_is_refused_with_one_line(address: str, trust: Trust, mode: str) -> None:
    for ca_file in (trust.stranger, None):
        with pytest.raises(Fatal, match=r"certificate is not trusted.*TLS_CA_FILE") as caught:
            await check_server(f"{address}?sslmode={mode}", ca_file=ca_file)
        assert "\n" not in str(caught.value)
        assert (urlsplit(address).password or "") not in str(caught.value)


async def test_a_certificate_for_another_name_is_refused(database_url: str, tmp_path: Path) -> None:
    trust = make_trust(tmp_path, (x509.DNSName("elsewhere.test"),))
    parts = urlsplit(database_url)
    assert parts.port
    async with tls_door(parts.port, trust, postgres=True) as port:
        url = f"postgresql://{parts.username}:{parts.password}@localhost:{port}{parts.path}"
        with pytest.raises(Fatal, match=r"Hostname mismatch.*name that stands in the server's certificate"):
            await check_server(f"{url}?sslmode=verify-full", ca_file=trust.ca_file)
        await check_server(f"{url}?sslmode=verify-ca", ca_file=trust.ca_file)


async def test_a_server_without_tls_is_not_used_in_the_clear(database_url: str, trust: Trust) -> None:
    url = database_url.replace("sslmode=disable", "sslmode=verify-full")
    url = url if "sslmode" in url else f"{url}?sslmode=verify-full"
    with pytest.raises(Fatal, match=r"does not speak TLS.*sslmode=disable"):
        await check_server(url, ca_file=trust.ca_file)


async def test_a_file_that_is_no_certificate_is_named(address: str, tmp_path: Path) -> None:
    nothing = tmp_path / "nothing.pem"
    nothing.write_text("nothing", encoding="utf-8")
    with pytest.raises(Fatal, match=r"nothing\.pem cannot be used"):
        await check_server(f"{address}?sslmode=verify-full", ca_file=nothing)


def programs_with_tls() -> Path | None:
    return next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), None)


@pytest.fixture
async def debian(folder: Path) -> AsyncIterator[tuple[str, Trust]]:
    """A PostgreSQL of the machine that has TLS itself, where there is one."""
    programs = programs_with_tls()
    if programs is None:
        pytest.skip("this machine has no PostgreSQL that was built with TLS")
    user = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None
    home = folder / "cluster"
    home.mkdir(mode=0o700)
    trust = make_trust(folder)
    mine = folder / "server.key"
    shutil.copy(trust.key, mine)
    mine.chmod(0o600)
    if user is not None:
        os.chown(home, user, -1)
        os.chown(mine, user, -1)
    port = free_port()
    options = {
        "port": port,
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": "",
        "fsync": "off",
        "ssl": "on",
        "ssl_cert_file": trust.certificate,
        "ssl_key_file": mine,
    }
    initdb = await asyncio.create_subprocess_exec(
        *(str(programs / "initdb"), "-D", str(home), "-U", "me", "--auth=trust", "-N"),
        stdout=asyncio.subprocess.DEVNULL,
        cwd="/",
        **as_user(user),
    )
    assert await initdb.wait() == 0
    server = await asyncio.create_subprocess_exec(
        *(str(programs / "postgres"), "-D", str(home), *(f"-c{name}={value}" for name, value in options.items())),
        stderr=asyncio.subprocess.PIPE,
        cwd="/",
        **as_user(user),
    )
    assert server.stderr is not None
    async with asyncio.timeout(300):
        while b"ready to accept connections" not in (line := await server.stderr.readline()):
            assert line, "it did not start"
    yield f"postgresql://me@localhost:{port}/postgres", trust
    server.send_signal(signal.SIGINT)
    await server.communicate()


async def test_a_real_server_with_tls(debian: tuple[str, Trust]) -> None:
    url, trust = debian
    database = open_database(f"{url}?sslmode=verify-full", ca_file=trust.ca_file)
    async with database.connect() as connection:
        assert await connection.scalar(ENCRYPTED) is True
    await database.dispose()
    with pytest.raises(Fatal, match=r"certificate is not trusted.*TLS_CA_FILE"):
        await check_server(f"{url}?sslmode=verify-full", ca_file=trust.stranger)
    plain = await asyncpg.connect(f"{url}?sslmode=disable")
    assert await plain.fetchval(str(ENCRYPTED)) is False
    await plain.close()
