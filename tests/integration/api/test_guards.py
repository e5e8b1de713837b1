"""Headers on every answer, also on those to bugs, and a limit on what is sent to us."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from telegram_assistant.bus.supervisor import Supervisor
from telegram_assistant.health import Health
from telegram_assistant.http.guards import HEADERS, LONGEST_BODY
from telegram_assistant.http.serving import health_app

pytestmark = pytest.mark.integration

Client = Callable[..., httpx.AsyncClient]
Town = Any  # of conftest.py, which cannot be imported

STRICT = ("Content-Security-Policy", "X-Content-Type-Options", "X-Frame-Options", "Referrer-Policy")


async def in_pieces(size: int) -> AsyncIterator[bytes]:
    """Without saying how long it will be."""
    for _ in range(size // 65_536 + 1):
        yield b" " * 65_536


@pytest.mark.parametrize("page", [True, False], ids=["page", "json"])
async def test_an_answer_to_a_bug_has_them_too(client_of: Client, app: FastAPI, page: bool) -> None:
    @app.get("/bug")
    async def bug() -> None:
        raise ZeroDivisionError("secret detail of ours")

    answer = await client_of(page=page).get("/bug")
    assert answer.status_code == 500
    assert "secret detail" not in answer.text
    for name in STRICT:
        assert answer.headers[name] == HEADERS[name]


@pytest.mark.parametrize("address", ["/", "/health", "/health/details", "/metrics", "/nowhere"])
async def test_the_health_server_has_them(address: str) -> None:
    transport = httpx.ASGITransport(health_app(Health(Supervisor(), demo=False)))
    async with httpx.AsyncClient(transport=transport, base_url="http://tga.test") as client:
        headers = (await client.get(address)).headers
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "default-src 'none'" in headers["Content-Security-Policy"]


@pytest.mark.parametrize("known", [True, False], ids=["known", "stranger"])
async def test_what_is_too_long_is_refused(client_of: Client, town: Town, known: bool) -> None:
    client = client_of(town.member if known else None)
    for body in (b" " * (LONGEST_BODY + 1), in_pieces(2 * LONGEST_BODY)):
        answer = await client.post("/api/v1/ask", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 413, answer.text
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x"])
async def test_a_form_that_is_too_long_is_refused(client_of: Client, kind: str) -> None:
    start = b'--x\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\n' if "boundary" in kind else b"name="
    client = client_of(page=True)
    answer = await client.post("/sign-in", content=start + b"a" * LONGEST_BODY, headers={"Content-Type": kind})
    assert answer.status_code == 413


async def test_what_is_not_too_long_is_read(client_of: Client, town: Town) -> None:
    body = b'{"question": "?"}' + b" " * (LONGEST_BODY - 1_000)
    headers = {"Content-Type": "application/json"}
    answer = await client_of(town.member).post("/api/v1/ask", content=body, headers=headers)
    assert answer.status_code in {200, 422}
