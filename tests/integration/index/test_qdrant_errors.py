"""What a Qdrant server may answer, over HTTP: each answer says what is to be done."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from uuid import uuid4

import pytest
from qdrant_client import AsyncQdrantClient, models

from telegram_assistant.embedded.process import free_port
from telegram_assistant.errors import AssistantError, Fatal, Reject, Retry
from telegram_assistant.index.qdrant_vectors import QdrantVectors
from telegram_assistant.index.vectors import INDEXES, Model

pytestmark = pytest.mark.integration

TENANT, POST = uuid4(), uuid4()
MODEL = Model("test", 4)


@dataclass
class Answers:
    """A server that gives the answers it was told, one per request, the last one for ever."""

    url: str = ""
    answers: list[tuple[int, dict[str, str], str]] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def say(self, status: int, body: object, **headers: str) -> None:
        self.answers.append((status, headers, body if isinstance(body, str) else json.dumps({"result": body})))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.requests.append(head.splitlines()[0].rpartition(" ")[0] + (" with key" if "api-key" in head else ""))
        status, headers, body = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if status:  # 0: hang up without a word
            content = body.encode()
            known = {"content-type": "application/json", "content-length": str(len(content)), "connection": "close"}
            lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in (known | headers).items())]
            writer.write("\r\n".join([*lines, "", ""]).encode() + content)
            await writer.drain()
        writer.close()
        await writer.wait_closed()


async def collection_info(metadata: dict[str, str | int] | None) -> dict[str, object]:
    """What a server tells of a collection, by the client's own reference mode."""
    reference = AsyncQdrantClient(":memory:")
    vectors = models.VectorParams(size=MODEL.size, distance=models.Distance.COSINE)
    await reference.create_collection("x", vectors_config=vectors, metadata=metadata)
    info = await reference.get_collection("x")
    await reference.close()
    return info.model_dump(mode="json", exclude_none=True)


@pytest.fixture
async def server() -> AsyncIterator[Answers]:
    answers = Answers()
    listening = await asyncio.start_server(answers.serve, "127.0.0.1", 0)
    answers.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    yield answers
    listening.close()
    await listening.wait_closed()


@pytest.fixture
async def vectors(server: Answers) -> AsyncIterator[QdrantVectors]:
    adapter = QdrantVectors.connect(server.url)
    yield adapter
    await adapter.close()


@pytest.mark.parametrize(
    "answer, error, words",
    [
        ((401, "no"), Fatal, "API key"),
        ((403, "no"), Fatal, "API key"),
        ((400, "Wrong input: Vector dimension error: expected dim: 4, got 8"), Fatal, "another size"),
        ((400, "Wrong input: bad filter"), Reject, "bad filter"),
        ((404, "Not found: Collection doesn't exist!"), Fatal, "no vectors of test"),
        ((429, "slow down"), Retry, "429"),
        ((500, "panic"), Retry, "500"),
        ((503, "starting"), Retry, "503"),
        ((0, ""), Retry, "away"),
        ((200, "this is no JSON"), Retry, "away"),
    ],
)
async def test_an_answer_says_what_to_do(
    vectors: QdrantVectors, server: Answers, answer: tuple[int, str], error: type[AssistantError], words: str
) -> None:
    server.say(*answer)
    with pytest.raises(error, match=words):
        await vectors.hashes(TENANT, MODEL, [POST])


async def test_a_limit_names_its_time(vectors: QdrantVectors, server: Answers) -> None:
    server.say(429, "slow down", **{"Retry-After": "7"})
    with pytest.raises(Retry) as caught:
        await vectors.hashes(TENANT, MODEL, [POST])
    assert caught.value.after == 7


async def test_a_server_that_is_away_is_tried_again_later() -> None:
    vectors = QdrantVectors.connect(f"http://127.0.0.1:{free_port()}")
    with pytest.raises(Retry, match="away"):
        await vectors.current(TENANT)
    await vectors.close()


async def test_a_tenant_without_a_collection(vectors: QdrantVectors, server: Answers) -> None:
    server.say(404, "Not found: Collection doesn't exist!")
    assert await vectors.current(TENANT) is None
    assert await vectors.search(TENANT, [1, 0, 0, 0], limit=3) == []
    assert await vectors.vector(TENANT, POST) is None


@pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")
async def test_the_key_is_sent(server: Answers) -> None:
    vectors = QdrantVectors.connect(server.url, "secret")
    server.say(404, "no such collection")
    await vectors.current(TENANT)
    assert server.requests == [f"GET /collections/t{TENANT}_posts with key"]
    await vectors.close()


async def test_a_server_that_cannot_remember_the_model_is_too_old(vectors: QdrantVectors, server: Answers) -> None:
    """Before 1.16 a collection had no metadata, and the field was ignored."""
    info = await collection_info(None)
    server.say(200, {"collections": []})
    server.say(200, True)
    server.say(200, info)
    with pytest.raises(Fatal, match=r"1\.16"):
        await vectors.open(TENANT, MODEL)


async def test_a_stage_may_open_before_each_batch(vectors: QdrantVectors, server: Answers) -> None:
    info = await collection_info({"model": MODEL.name, "size": MODEL.size})
    server.say(200, {"collections": []})
    server.say(200, True)
    server.say(200, info)
    for _ in INDEXES:
        server.say(200, {"operation_id": 1, "status": "completed"})
    server.say(200, info)
    await vectors.open(TENANT, MODEL)
    asked = len(server.requests)
    await vectors.open(TENANT, MODEL)
    assert len(server.requests) == asked


async def test_another_process_may_be_quicker_to_create_it(vectors: QdrantVectors, server: Answers) -> None:
    server.say(200, {"collections": []})
    server.say(409, "Wrong input: Collection already exists!")
    server.say(503, "enough seen")
    with pytest.raises(Retry, match="enough seen"):
        await vectors.open(TENANT, MODEL)
    assert server.requests[1].startswith("PUT /collections/t")
