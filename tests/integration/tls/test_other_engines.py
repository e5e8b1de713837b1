"""Redis, Qdrant, Neo4j, S3 and remote models over TLS: with the authority that signed, with another, with none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from telegram_assistant.ai.remote.gate import Trouble
from telegram_assistant.ai.remote.openai_compatible import OpenAiConnection
from telegram_assistant.config import Settings
from telegram_assistant.errors import Fatal, Retry
from telegram_assistant.index.neo4j_graph import Neo4jGraph
from telegram_assistant.index.qdrant_vectors import QdrantVectors
from telegram_assistant.stores.media import MediaStore, S3Access
from telegram_assistant.stores.redis import check_redis, open_redis
from telegram_assistant.wiring.models import models_config
from tests.integration.tls.authority import Trust, tls_door

pytestmark = pytest.mark.integration

BOLT = b"\x60\x60\xb0\x17"
DISTRUST = r"certificate is not trusted .*TLS_CA_FILE"


@pytest.fixture
async def secure_redis(redis_url: str, trust: Trust) -> AsyncIterator[str]:
    """Our own Valkey, which was built without TLS, behind a door with it."""
    parts = urlsplit(redis_url)
    assert parts.port
    async with tls_door(parts.port, trust) as port:
        yield f"rediss://:{parts.password}@localhost:{port}{parts.path}"


async def test_redis(secure_redis: str, trust: Trust) -> None:
    await check_redis(secure_redis, ca_file=trust.ca_file)
    client = open_redis(secure_redis, ca_file=trust.ca_file)
    await client.set("kept", "42")
    assert await client.get("kept") == "42"
    await client.aclose()
    await check_redis(f"{secure_redis}?ssl_ca_certs={trust.ca_file}")


async def test_redis_of_a_stranger_is_refused_with_one_line(secure_redis: str, trust: Trust, tmp_path: Path) -> None:
    for ca_file in (trust.stranger, None):
        with pytest.raises(Fatal, match=DISTRUST) as caught:
            await check_redis(secure_redis, ca_file=ca_file)
        assert "\n" not in str(caught.value)
        assert (urlsplit(secure_redis).password or "") not in str(caught.value)
    with pytest.raises(Fatal, match=r"nowhere\.pem cannot be used"):
        await check_redis(secure_redis, ca_file=tmp_path / "nowhere.pem")


class Web:
    """An https server that answers everything alike, and remembers what it was asked."""

    def __init__(self, answer: Callable[[str], bytes]) -> None:
        self.answer = answer
        self.asked: list[str] = []
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.decode().split("\r\n")
                length = next((line for line in lines if line.lower().startswith("content-length:")), "x:0")
                await reader.readexactly(int(length.partition(":")[2]))
                self.asked.append(lines[0])
                body = self.answer(lines[0])
                status = b"200 OK" if body else b"404 Not Found"
                writer.write(b"HTTP/1.1 %b\r\nETag: x\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body))
        writer.close()


@asynccontextmanager
async def web(trust: Trust, answer: Callable[[str], bytes]) -> AsyncIterator[Web]:
    made = Web(answer)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0, ssl=trust.server())
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()


async def test_qdrant(trust: Trust) -> None:
    async with web(trust, lambda _: b"") as server:
        url = f"https://localhost:{server.port}"
        known = QdrantVectors.connect(url, "key", ca_file=trust.ca_file)
        assert await known.current(uuid4()) is None
        await known.close()
        asked = len(server.asked)
        assert asked
        for ca_file in (trust.stranger, None):
            unknown = QdrantVectors.connect(url, "key", ca_file=ca_file)
            with pytest.raises(Retry, match=DISTRUST):
                await unknown.current(uuid4())
            await unknown.close()
        assert len(server.asked) == asked, "the key went nowhere"


async def test_s3(trust: Trust) -> None:
    async with web(trust, lambda _: b"") as server:

        def access(ca_file: Path | None) -> S3Access:
            return S3Access(
                endpoint=f"https://localhost:{server.port}",
                region="here",
                access_key_id="me",
                secret_access_key="s3cret",
                ca_file=ca_file,
            )

        assert not await MediaStore.open("s3://bucket/prefix", s3=access(trust.ca_file)).exists("x")
        asked = len(server.asked)
        assert asked == 1
        for ca_file in (trust.stranger, None):
            with pytest.raises(Retry, match=r"certificate.*TLS_CA_FILE"):
                await MediaStore.open("s3://bucket/prefix", s3=access(ca_file)).exists("x")
        assert len(server.asked) == asked


async def test_a_remote_model_uses_the_authority_of_all(trust: Trust) -> None:
    async with web(trust, lambda _: b"{}") as server:
        settings = Settings(openai_base_url=f"https://localhost:{server.port}/v1", tls_ca_file=trust.ca_file)
        said = models_config(settings).openai_server
        assert said is not None
        connection = OpenAiConnection(said)
        assert await connection.post("chat/completions", {}) == b"{}"
        await connection.close()
        named = settings.model_copy(update={"openai_ca_file": trust.stranger})
        said = models_config(named).openai_server
        assert said is not None
        connection = OpenAiConnection(said)
        with pytest.raises(Trouble, match="CERTIFICATE_VERIFY_FAILED"):
            await connection.post("chat/completions", {})
        await connection.close()


async def test_neo4j(trust: Trust) -> None:
    """There is no Neo4j with TLS here: a server that hears the greeting of its protocol, and hangs up."""
    greetings: list[bytes] = []

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            greetings.append(await reader.readexactly(4))
        writer.close()

    server = await asyncio.start_server(hear, "127.0.0.1", 0, ssl=trust.server())
    port = server.sockets[0].getsockname()[1]
    for scheme in ("bolt+s", "neo4j+s"):
        for ca_file, heard in ((trust.ca_file, [BOLT]), (trust.stranger, []), (None, [])):
            greetings.clear()
            graph = Neo4jGraph(f"{scheme}://localhost:{port}", "neo4j", "s3cret", patience=0.5, ca_file=ca_file)
            with pytest.raises(Retry, match="is away" if heard else r"is away.*not (be )?trusted.*TLS_CA_FILE"):
                await graph.counts(uuid4())
            await graph.close()
            assert greetings[:1] == heard, (scheme, ca_file)
    server.close()
